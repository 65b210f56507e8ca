package libraries

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"testing"
)

// dynamic describes the parts of an ELF file that the loader reads.
type dynamic struct {
	machine        elf.Machine // 0 for amd64
	interpreter    string
	needed         []string
	rpath, runpath string
	dlopen         bool
}

// file returns a minimal ELF file: a header, the interpreter and four sections.
func (d dynamic) file(t *testing.T) []byte {
	t.Helper()
	const headers, program = 64, 56
	strings, entries := []byte{0}, []elf.Dyn64{}
	text := func(s string) uint64 {
		at := len(strings)
		strings = append(append(strings, s...), 0)
		return uint64(at)
	}
	for _, n := range d.needed {
		entries = append(entries, elf.Dyn64{Tag: int64(elf.DT_NEEDED), Val: text(n)})
	}
	for tag, value := range map[elf.DynTag]string{elf.DT_RPATH: d.rpath, elf.DT_RUNPATH: d.runpath} {
		if value != "" {
			entries = append(entries, elf.Dyn64{Tag: int64(tag), Val: text(value)})
		}
	}
	entries = append(entries, elf.Dyn64{})
	symbols := []elf.Sym64{{}}
	if d.dlopen {
		symbols = append(symbols, elf.Sym64{Name: uint32(text("dlopen")), Info: elf.ST_INFO(elf.STB_GLOBAL, elf.STT_FUNC)})
	}
	var out bytes.Buffer
	write := func(value any) {
		if err := binary.Write(&out, binary.LittleEndian, value); err != nil {
			t.Fatal(err)
		}
	}
	loader := append([]byte(d.interpreter), 0)
	at := uint64(headers + program)
	place := func(size int) (begin uint64) { begin, at = at, at+uint64(size); return begin }
	loaderAt, stringsAt, entriesAt, symbolsAt := place(len(loader)), place(len(strings)), place(16*len(entries)), place(24*len(symbols))
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_DYN), Machine: uint16(cmp.Or(d.machine, elf.EM_X86_64)), Version: uint32(elf.EV_CURRENT),
		Phoff: headers, Ehsize: headers, Phentsize: program, Shoff: at, Shentsize: 64, Shnum: 4, Shstrndx: 1,
	}
	if d.interpreter != "" {
		header.Phnum = 1
	}
	write(header)
	write(elf.Prog64{Type: uint32(elf.PT_INTERP), Off: loaderAt, Filesz: uint64(len(loader))})
	write(loader)
	write(strings)
	write(entries)
	write(symbols)
	write([]elf.Section64{
		{},
		{Type: uint32(elf.SHT_STRTAB), Off: stringsAt, Size: uint64(len(strings))},
		{Type: uint32(elf.SHT_DYNAMIC), Off: entriesAt, Size: uint64(16 * len(entries)), Link: 1, Entsize: 16},
		{Type: uint32(elf.SHT_DYNSYM), Off: symbolsAt, Size: uint64(24 * len(symbols)), Link: 1, Entsize: 24},
	})
	return out.Bytes()
}
