package guest

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// Act is the action of a tiny guest after it has reported that it is up.
type Act int

// A tiny guest waits forever, powers its machine off, or resets it.
const (
	Wait Act = iota
	PowerOff
	Reboot
)

// Tiny makes a guest whose kernel has only some bytes: it writes a line to its console, executes act, and halts. It
// needs only CPU features that every emulator has, so it also runs where distribution kernels do not. It has no drivers
// and therefore ignores its disks and its power button.
func Tiny(t testing.TB, act Act) (kernel string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kernel")
	if err := os.WriteFile(path, tiny(act), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// tinyAddress is the load address of the tiny kernel, the same as for distribution kernels.
const tinyAddress = 16 << 20

// TinyText is the output of a tiny guest.
const TinyText = "tiny guest " + UpText + "\n"

// tiny returns the kernel as an ELF file with a note of its 32-bit entry point, as hypervisors require (PVH).
func tiny(act Act) []byte {
	const (
		header, program, note = 64, 56, 24
		noteAt                = header + 2*program
		textAt                = noteAt + note
		codeAt                = textAt + len(TinyText) + 1
	)
	code := binary.LittleEndian.AppendUint32([]byte{0xbe}, tinyAddress+textAt) // mov esi, text
	code = append(code,
		0x66, 0xba, 0xf8, 0x03, // mov dx, 0x3f8: the serial port
		0xac,       // next: lodsb
		0x84, 0xc0, // test al, al
		0x74, 0x03, // jz done
		0xee,       // out dx, al
		0xeb, 0xf8, // jmp next
	) // done:
	// The sleep and reset registers of the hypervisor's ACPI tables.
	if does := map[Act]byte{PowerOff: 5<<2 | 1<<5, Reboot: 1}[act]; does != 0 {
		code = append(code, 0x66, 0xba, 0x00, 0x06, 0xb0, does, 0xee) // mov dx, 0x600; mov al, does; out dx, al
	}
	code = append(code, 0xf4, 0xeb, 0xfd) // halt: hlt; jmp halt
	size := uint64(codeAt + len(code))

	var b bytes.Buffer
	put := func(all ...any) {
		for _, v := range all {
			_ = binary.Write(&b, binary.LittleEndian, v) // writing to a buffer cannot fail
		}
	}
	segment := func(kind, flags uint32, at, size, align uint64) {
		put(kind, flags, at, tinyAddress+at, tinyAddress+at, size, size, align)
	}
	b.WriteString("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00") // 64 bits, little-endian
	put(uint16(2), uint16(62), uint32(1), uint64(tinyAddress+codeAt), uint64(header), uint64(0), uint32(0))
	put(uint16(header), uint16(program), uint16(2), uint16(64), uint16(0), uint16(0))
	segment(1, 7, 0, size, 4096)          // loads the whole file
	segment(4, 4, noteAt, note, 4)        // the note within it
	put(uint32(4), uint32(8), uint32(18)) // sizes of name and value; XEN_ELFNOTE_PHYS32_ENTRY
	b.WriteString("Xen\x00")
	put(uint64(tinyAddress + codeAt))
	b.WriteString(TinyText + "\x00")
	b.Write(code)
	return b.Bytes()
}
