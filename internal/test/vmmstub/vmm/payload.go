package vmm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"unicode"
)

// pageSize is the unit of memory sizes.
const pageSize = 4096

// load checks the payload like the real program, which loads it into the guest's memory.
func (p *payloadConfig) load(memory *memoryConfig) error {
	if memory.Size == 0 || memory.Size%pageSize != 0 {
		return chain{"Memory manager error", "Memory size is misaligned with default page size or its hugepage size"}
	}
	for _, kernel := range []struct {
		path *string
		text string
	}{{p.Firmware, "Error manipulating firmware file"}, {p.Kernel, "Cannot open kernel file"}} {
		if kernel.path == nil {
			continue
		}
		if err := loadKernel(*kernel.path, kernel.text, memory.Size); err != nil {
			return err
		}
	}
	if p.Initramfs != nil {
		f, err := os.Open(*p.Initramfs)
		if err != nil {
			return wrap("Cannot open initramfs file", cause(err))
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && uint64(info.Size()) >= memory.Size {
			return chain{
				"Cannot determine initramfs load address", "Could not find a place for the initramfs in the guest's memory",
			}
		}
	}
	if p.Cmdline != nil && strings.ContainsFunc(*p.Cmdline, func(r rune) bool { return r > unicode.MaxASCII || r < ' ' }) {
		return chain{"Cannot modify the kernel command line", "String contains a non-printable ASCII character"}
	}
	return nil
}

// loadKernel checks that a file is a kernel: an ELF file with a note of its entry point (PVH), or a bzImage.
func loadKernel(path, text string, memory uint64) error {
	f, err := os.Open(path)
	if err != nil {
		return wrap(text, cause(err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return wrap(text, cause(err))
	}
	head := make([]byte, 0x400)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return wrap(text, cause(err))
	}
	head = head[:n]
	switch {
	case uint64(info.Size()) > memory:
		return chain{"Cannot load the kernel into memory", "Kernel too large for the memory"}
	case bytes.HasPrefix(head, []byte("\x7fELF")) && !hasEntry(f, head):
		return chain{"Kernel lacks PVH header"}
	case bytes.HasPrefix(head, []byte("\x7fELF")):
		return nil
	case len(head) >= 0x206 && string(head[0x202:0x206]) == "HdrS":
		return nil
	}
	return chain{
		"Cannot load the kernel into memory", "Kernel Loader: failed to load bzImage kernel image: Invalid bzImage binary",
	}
}

// hasEntry reports whether an ELF file has a Xen note of type 18, the 32-bit entry point.
func hasEntry(f io.ReaderAt, head []byte) bool {
	if len(head) < 64 {
		return false
	}
	at := binary.LittleEndian.Uint64(head[32:])
	size, count := uint64(binary.LittleEndian.Uint16(head[54:])), uint64(binary.LittleEndian.Uint16(head[56:]))
	for i := range count {
		program := make([]byte, 56)
		if _, err := f.ReadAt(program, int64(at+i*size)); err != nil {
			return false
		}
		if binary.LittleEndian.Uint32(program) != 4 { // a note
			continue
		}
		notes := make([]byte, min(binary.LittleEndian.Uint64(program[32:]), 1<<16))
		if n, _ := f.ReadAt(notes, int64(binary.LittleEndian.Uint64(program[8:]))); n > 0 &&
			bytes.Contains(notes[:n], []byte("\x12\x00\x00\x00Xen\x00")) {
			return true
		}
	}
	return false
}
