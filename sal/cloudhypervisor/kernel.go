package cloudhypervisor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"writ"
	"writ/sal/cloudhypervisor/api"
)

// checkPayload rejects boot files and a command line that the machine cannot boot with. It is called before the machine
// is created, because these errors are permanent.
func checkPayload(p api.Payload, kernel, initramfs string, memory int64) error {
	f, err := os.Open(p.Kernel)
	if err != nil {
		return err
	}
	defer f.Close()
	if !bootable(f, runtime.GOARCH) {
		return writ.Errorf(writ.CodeArgumentsInvalid, "the image %q is not a bootable kernel", kernel).
			WithHint("use a vmlinux with a PVH note or a bzImage, uncompressed, for the architecture of the node")
	}
	if p.Initramfs != "" {
		info, err := os.Stat(p.Initramfs)
		if err != nil {
			return err
		}
		if info.Size() >= memory {
			return writ.Errorf(writ.CodeArgumentsInvalid, "the initramfs %q has %d MiB, but the machine has only %d MiB",
				initramfs, info.Size()>>20, memory>>20).
				WithHint("give the machine a larger memory_mib")
		}
	}
	if i := strings.IndexFunc(p.Cmdline, func(r rune) bool { return r < ' ' || r > '~' }); i >= 0 {
		return writ.Errorf(writ.CodeArgumentsInvalid,
			"cmdline contains a character that is not printable ASCII, at position %d", i+1).
			WithHint("kernels read ASCII; pass other text with cloud_init or env")
	}
	return nil
}

// checkFirmware returns an error if the file cannot be machine firmware. Firmware is loaded like a kernel.
func checkFirmware(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, fmt.Errorf("%s is not a regular file", path))
	}
	if !bootable(f, runtime.GOARCH) {
		return fmt.Errorf("%s is not bootable firmware", path)
	}
	return nil
}

// bootable reports whether a file has the header of a kernel that cloud-hypervisor can load on the architecture. On an
// architecture without cloud-hypervisor it returns true.
func bootable(f io.ReaderAt, architecture string) bool {
	switch architecture {
	case "amd64":
	case "arm64":
		const magic = "ARM\x64" // of an arm64 Image
		head := make([]byte, len(magic))
		n, _ := f.ReadAt(head, 56)
		return string(head[:n]) == magic
	default:
		return true
	}
	const setup = 0x202 // offset of the bzImage header
	head := make([]byte, setup+4)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false
	}
	head = head[:n]
	if bytes.HasPrefix(head, []byte("\x7fELF\x02\x01")) {
		return hasPVH(f, head)
	}
	return len(head) == setup+4 && bytes.Equal(head[setup:], []byte("HdrS"))
}

// Constants of ELF files, and limits for the parts that hasPVH reads. Kernels are far below the limits.
const (
	maxPrograms  = 256
	maxNotes     = 64 << 10
	programSize  = 56
	elfHeader    = 64
	noteKind     = 4
	pvhEntryKind = 18
)

// hasPVH reports whether an ELF file has the note with its 32-bit entry point, XEN_ELFNOTE_PHYS32_ENTRY.
func hasPVH(f io.ReaderAt, head []byte) bool {
	if len(head) < elfHeader {
		return false
	}
	at := binary.LittleEndian.Uint64(head[32:])
	size := binary.LittleEndian.Uint16(head[54:])
	count := binary.LittleEndian.Uint16(head[56:])
	if size != programSize || count > maxPrograms || at > 1<<62 {
		return false
	}
	programs := make([]byte, int(count)*programSize)
	if _, err := f.ReadAt(programs, int64(at)); err != nil && !errors.Is(err, io.EOF) {
		return false
	}
	for ; len(programs) > 0; programs = programs[programSize:] {
		offset, length := binary.LittleEndian.Uint64(programs[8:]), binary.LittleEndian.Uint64(programs[32:])
		if binary.LittleEndian.Uint32(programs) != noteKind || length > maxNotes || offset > 1<<62 {
			continue
		}
		notes := make([]byte, length)
		n, err := f.ReadAt(notes, int64(offset))
		if (err == nil || errors.Is(err, io.EOF)) && pvhAmong(notes[:n]) {
			return true
		}
	}
	return false
}

// pvhAmong reports whether notes contain the PVH note. Name and value of each note are padded to four bytes.
func pvhAmong(notes []byte) bool {
	const header = 12
	padded := func(n uint32) uint64 { return (uint64(n) + 3) &^ 3 }
	for len(notes) >= header {
		name := binary.LittleEndian.Uint32(notes)
		value := binary.LittleEndian.Uint32(notes[4:])
		kind := binary.LittleEndian.Uint32(notes[8:])
		if kind == pvhEntryKind && bytes.HasPrefix(notes[header:], []byte("Xen\x00")) {
			return true
		}
		next := header + padded(name) + padded(value)
		if next > uint64(len(notes)) {
			return false
		}
		notes = notes[next:]
	}
	return false
}
