package uki

import (
	"bytes"
	"cmp"
	"debug/pe"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"writ"
	"writ/internal/test/testenv"
)

// parts returns the inputs of an image with a real kernel and a small initrd.
func parts(t *testing.T) Parts {
	t.Helper()
	p := Parts{Initrd: bytes.Repeat([]byte("files"), 1001), Cmdline: "console=ttyS0", OSRelease: "ID=writ\n"}
	var err error
	if p.Stub, err = os.ReadFile(testenv.Unpacked(t, testenv.EFIStub)); err != nil {
		t.Fatal(err)
	}
	if p.Kernel, err = os.ReadFile(testenv.Kernel(t).Image); err != nil {
		t.Fatal(err)
	}
	return p
}

// open parses an image with the standard library.
func open(t *testing.T, image []byte) (*pe.File, *pe.OptionalHeader64) {
	t.Helper()
	file, err := pe.NewFile(bytes.NewReader(image))
	if err != nil {
		t.Fatal(err)
	}
	return file, file.OptionalHeader.(*pe.OptionalHeader64)
}

func TestAnImageHasItsPartsAsSections(t *testing.T) {
	p := parts(t)
	image, err := Build(p)
	if err != nil {
		t.Fatal(err)
	}
	stub, _ := open(t, p.Stub)
	kernel, kernelHeader := open(t, p.Kernel)
	file, header := open(t, image)
	want := map[string][]byte{".osrel": []byte(p.OSRelease), ".cmdline": []byte(p.Cmdline), ".initrd": p.Initrd, ".linux": p.Kernel}
	want[".uname"] = []byte(strings.TrimPrefix(filepath.Base(testenv.Kernel(t).Image), "vmlinuz-"))
	for _, s := range stub.Sections {
		data, err := s.Data()
		if err != nil {
			t.Fatal(err)
		}
		want[s.Name] = data
	}
	for name, data := range want {
		s := file.Section(name)
		if s == nil {
			t.Errorf("no section %s", name)
			continue
		}
		got, err := s.Data()
		if err != nil || !bytes.HasPrefix(got, data) {
			t.Errorf("the section %s has %d bytes, want those %d: %v", name, len(got), len(data), err)
		}
		if file.Section(name).VirtualSize < uint32(len(data)) && stub.Section(name) == nil {
			t.Errorf("the section %s has %d bytes in memory, want %d", name, s.VirtualSize, len(data))
		}
	}
	if len(file.Sections) != len(want) {
		t.Errorf("got %d sections, want %d", len(file.Sections), len(want))
	}
	end := uint32(0) // end of the previous section
	for _, s := range slices.SortedFunc(slices.Values(file.Sections), func(a, b *pe.Section) int { return cmp.Compare(a.VirtualAddress, b.VirtualAddress) }) {
		if stub.Section(s.Name) == nil && (s.VirtualAddress < end || s.VirtualAddress%header.SectionAlignment != 0 || s.Offset%header.FileAlignment != 0) {
			t.Errorf("the section %s is at %#x in memory, before %#x, or at the odd place %#x in the file", s.Name, s.VirtualAddress, end, s.Offset)
		}
		end = s.VirtualAddress + s.VirtualSize
	}
	if header.SizeOfImage < end || header.CheckSum != 0 {
		t.Errorf("the image has %#x bytes in memory, and a section ends at %#x; its sum is %#x", header.SizeOfImage, end, header.CheckSum)
	}
	last := file.Sections[len(file.Sections)-1]
	if last.Name != ".linux" || last.VirtualSize < kernelHeader.SizeOfImage || len(kernel.Sections) == 0 {
		t.Errorf("the kernel, which needs %d bytes where it lies, has %d in %s", kernelHeader.SizeOfImage, last.VirtualSize, last.Name)
	}
	again, err := Build(p)
	if err != nil || !bytes.Equal(image, again) {
		t.Errorf("equal parts make another image: %v", err)
	}
}

// fileHeader returns the offset of the PE header.
func fileHeader(file []byte) int { return int(binary.LittleEndian.Uint32(file[atPointer:])) }

func TestPartsThatAreNoneAreRefused(t *testing.T) {
	good := parts(t)
	image, err := Build(good)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		spoil func(p *Parts)
		says  string
	}{
		"no stub":              {func(p *Parts) { p.Stub = nil }, "stub"},
		"a page as the stub":   {func(p *Parts) { p.Stub = []byte("<html>") }, "stub"},
		"a stub that is cut":   {func(p *Parts) { p.Stub = p.Stub[:300] }, "stub"},
		"an image as the stub": {func(p *Parts) { p.Stub = image }, "already"},
		"a kernel as the stub": {func(p *Parts) { p.Stub = p.Kernel }, "signed"},
		"a stub with a full header": {func(p *Parts) {
			p.Stub = slices.Clone(p.Stub)
			p.Stub[fileHeader(p.Stub)+atHeadersSize]++ // was 0x400
			p.Stub[fileHeader(p.Stub)+atHeadersSize+1] = 2
		}, "no room"},
		"no kernel":              {func(p *Parts) { p.Kernel = nil }, "bzImage"},
		"the stub as the kernel": {func(p *Parts) { p.Kernel = p.Stub }, "bzImage"},
		"a kernel without UEFI":  {func(p *Parts) { p.Kernel = slices.Clone(p.Kernel); copy(p.Kernel, "XX") }, "not a UEFI program"},
		"a command line of two":  {func(p *Parts) { p.Cmdline = "a\nb" }, "single line"},
	} {
		p := good
		tt.spoil(&p)
		if _, err := Build(p); writ.CodeOf(err) != writ.CodeUsage || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
}
