// Package uki builds unified kernel images: one UEFI program that holds a kernel, its command line and its initrd. It
// appends these parts as sections to systemd's stub, as the UAPI Group specifies. It reads PE files and the header of
// Linux kernels. It does not depend on the content of the initrd.
package uki

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"math"
	"strings"

	"writ"
)

// Parts holds the inputs of an image.
type Parts struct {
	Stub      []byte // systemd's linuxx64.efi.stub
	Kernel    []byte // a bzImage with an EFI stub
	Initrd    []byte // archives that the kernel unpacks
	Cmdline   string // kernel options, used if the firmware passes none
	OSRelease string // in the format of os-release(5); boot loaders show the name from it
}

// Offsets of fields in the PE header. The fields of the optional header have these offsets in PE32+ only.
const (
	atPointer        = 0x3c // in the file: offset of the PE header
	atSections       = 4 + 2
	atOptionalSize   = 4 + 16
	atOptional       = 4 + 20
	atInitialized    = atOptional + 8
	atAlignment      = atOptional + 32
	atFileAlignment  = atOptional + 36
	atImageSize      = atOptional + 56
	atHeadersSize    = atOptional + 60
	atCheckSum       = atOptional + 64
	sectionHeaderLen = 40

	readableData = 0x40000040 // characteristics of a section with readable initialized data
	page         = 4096       // alignment of sections in memory, a multiple of the alignment of every stub
)

// machineAMD64 is the only supported architecture.
const machineAMD64 = pe.IMAGE_FILE_MACHINE_AMD64

// section is a section to add.
type section struct {
	name string
	data []byte
	size uint32 // size in memory, if larger than the data
}

// Build returns the image. Equal parts produce equal images.
func Build(p Parts) ([]byte, error) {
	version, err := KernelVersion(p.Kernel)
	if err != nil {
		return nil, err
	}
	kernel, err := pe.NewFile(bytes.NewReader(p.Kernel))
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "the kernel is not a UEFI program: %v", err).
			WithHint("it needs CONFIG_EFI_STUB, which Debian's kernels have")
	}
	optional, ok := kernel.OptionalHeader.(*pe.OptionalHeader64)
	if kernel.Machine != machineAMD64 || !ok {
		return nil, writ.Errorf(writ.CodeUsage, "the kernel is not for amd64").
			WithHint("other architectures have no image yet")
	}
	if strings.ContainsAny(p.Cmdline, "\x00\n") {
		return nil, writ.Errorf(writ.CodeUsage, "the kernel command line must be a single line")
	}
	return addSections(p.Stub, []section{
		{name: ".osrel", data: []byte(p.OSRelease)},
		{name: ".cmdline", data: []byte(p.Cmdline)},
		{name: ".uname", data: []byte(version)},
		{name: ".initrd", data: p.Initrd},
		// The kernel comes last: the kernel runs in place and needs space after its data.
		{name: ".linux", data: p.Kernel, size: optional.SizeOfImage},
	})
}

// addSections appends sections to a PE file.
func addSections(file []byte, more []section) ([]byte, error) {
	image, err := pe.NewFile(bytes.NewReader(file))
	if err != nil {
		return nil, badStub("it is not a PE file: %v", err)
	}
	optional, ok := image.OptionalHeader.(*pe.OptionalHeader64)
	switch {
	case image.Machine != machineAMD64 || !ok:
		return nil, badStub("it is not for amd64")
	case optional.NumberOfRvaAndSizes > pe.IMAGE_DIRECTORY_ENTRY_SECURITY &&
		optional.DataDirectory[pe.IMAGE_DIRECTORY_ENTRY_SECURITY].Size != 0:
		return nil, badStub("it is signed, and the signature would become invalid")
	}
	end, first := uint32(0), uint32(math.MaxUint32) // end of the stub in memory; first section in the file
	for _, s := range image.Sections {
		end = max(end, s.VirtualAddress+max(s.VirtualSize, s.Size))
		if s.Size > 0 {
			first = min(first, s.Offset)
		}
		for _, m := range more {
			if s.Name == m.name {
				return nil, badStub("it already has a section %s", s.Name)
			}
		}
	}
	head := binary.LittleEndian.Uint32(file[atPointer:]) // debug/pe has validated it
	headers := head + atOptional + uint32(binary.LittleEndian.Uint16(file[head+atOptionalSize:])) +
		sectionHeaderLen*uint32(len(image.Sections))
	if room := min(first, optional.SizeOfHeaders); headers+sectionHeaderLen*uint32(len(more)) > room {
		return nil, badStub("its header has no room for %d more sections", len(more))
	}

	out := bytes.Clone(file)
	put16 := func(at uint32, v uint16) { binary.LittleEndian.PutUint16(out[at:], v) }
	put32 := func(at, v uint32) { binary.LittleEndian.PutUint32(out[at:], v) }
	initialized := optional.SizeOfInitializedData
	for i, s := range more {
		out = pad(out, optional.FileAlignment)
		begin := alignUp(uint64(end), page)
		offset := len(out)
		inFile := alignUp(uint64(len(s.data)), uint64(optional.FileAlignment))
		size := max(uint64(s.size), uint64(len(s.data)))
		if begin+size > math.MaxInt32 || uint64(offset)+inFile > math.MaxInt32 {
			return nil, writ.Errorf(writ.CodeTooLarge, "the image would be more than 2 GiB")
		}
		out = pad(append(out, s.data...), optional.FileAlignment)
		at := headers + sectionHeaderLen*uint32(i)
		copy(out[at:at+8], append([]byte(s.name), make([]byte, 8-len(s.name))...))
		put32(at+8, uint32(size))
		put32(at+12, uint32(begin))
		put32(at+16, uint32(inFile))
		put32(at+20, uint32(offset))
		put32(at+36, readableData)
		end = uint32(begin + size)
		initialized += uint32(inFile)
	}
	put16(head+atSections, uint16(len(image.Sections)+len(more)))
	put32(head+atInitialized, initialized)
	put32(head+atImageSize, uint32(alignUp(uint64(end), max(page, uint64(optional.SectionAlignment)))))
	put32(head+atCheckSum, 0) // firmware ignores it
	return out, nil
}

func badStub(format string, args ...any) error {
	return writ.Errorf(writ.CodeUsage, "the stub cannot be used: "+format, args...).
		WithHint("use linuxx64.efi.stub of Debian's package systemd-boot-efi")
}

// alignUp rounds n up to a multiple of `to`.
func alignUp(n, to uint64) uint64 { return (n + to - 1) / to * to }

func pad(b []byte, to uint32) []byte {
	return append(b, make([]byte, alignUp(uint64(len(b)), uint64(to))-uint64(len(b)))...)
}

// Fields of the Linux boot protocol.
const (
	atMagic   = 0x202
	magic     = "HdrS"
	atVersion = 0x20e // relative to 0x200
)

// KernelVersion returns the version of a kernel, as shown by `uname -r`.
func KernelVersion(kernel []byte) (string, error) {
	if len(kernel) < 0x400 || string(kernel[atMagic:atMagic+len(magic)]) != magic {
		return "", writ.Errorf(writ.CodeUsage, "the kernel is not a Linux bzImage").
			WithHint("it is the file /boot/vmlinuz-VERSION of a package linux-image-…")
	}
	at := int(binary.LittleEndian.Uint16(kernel[atVersion:])) + 0x200
	version, _, _ := strings.Cut(string(kernel[min(at, len(kernel)):min(at+256, len(kernel))]), "\x00")
	name, _, _ := strings.Cut(version, " ")
	if name == "" {
		return "", writ.Errorf(writ.CodeUsage, "the kernel contains no version")
	}
	return name, nil
}

// Cmdline returns the kernel command line in an image.
func Cmdline(image []byte) (string, error) {
	bad := writ.Errorf(writ.CodeUsage, "this is not a unified kernel image").WithHint("`writ efi build` creates one")
	file, err := pe.NewFile(bytes.NewReader(image))
	if err != nil || file.Section(".linux") == nil || file.Section(".cmdline") == nil {
		return "", bad
	}
	section := file.Section(".cmdline")
	text, err := section.Data()
	if err != nil {
		return "", bad
	}
	return string(text[:min(len(text), int(section.VirtualSize))]), nil
}
