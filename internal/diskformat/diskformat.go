// Package diskformat recognises files that are not raw disks. It does not depend on the origin or the use of a file.
package diskformat

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// Format describes a file that is not a raw disk.
type Format struct {
	Name   string // with its article, "a gzip file"
	Remedy string // the command that makes a raw disk of it
	Boot   bool   // a kernel or initramfs may have the format
}

const (
	sector = 512
	// startBytes covers all bytes that Recognise compares at the start of a file. The last are in the volume descriptor
	// of ISO 9660.
	startBytes = 0x8006

	unpack   = "unpack it, and fetch the result with its own SHA-256: "
	convert  = "convert it, and fetch the result with its own SHA-256: qemu-img convert -O qcow2 FILE disk.qcow2"
	software = "packages are installed inside a machine; fetch an image of a disk"
	lookAtIt = "the server answered with something other than the image; open the URL in a browser, and look for a login or an error"
)

// signature is a text at a fixed offset in a file. A negative offset counts from the end of the file.
type signature struct {
	at   int64
	text string
	Format
}

var signatures = []signature{
	{0, "\x1f\x8b\x08", Format{"a gzip file", unpack + "gunzip FILE", true}},
	{0, "\xfd7zXZ\x00", Format{"an xz file", unpack + "unxz FILE", true}},
	{0, "\x28\xb5\x2f\xfd", Format{"a zstd file", unpack + "unzstd FILE", true}},
	{0, "BZh", Format{"a bzip2 file", unpack + "bunzip2 FILE", true}},
	{0, "\x5d\x00\x00", Format{"an lzma file", unpack + "unlzma FILE", true}},
	{0, "\x04\x22\x4d\x18", Format{"an lz4 file", unpack + "unlz4 FILE", true}},
	{0, "\x02\x21\x4c\x18", Format{"an lz4 file", unpack + "unlz4 FILE", true}},
	{0, "\x89LZO\x00\r\n\x1a\n", Format{"an lzop file", unpack + "lzop -d FILE", true}},
	{0, "LZIP", Format{"an lzip file", unpack + "lzip -d FILE", false}},
	{0, "070701", Format{"a cpio archive", "use it as the initramfs of a machine, not as a disk", true}},
	{0, "070702", Format{"a cpio archive", "use it as the initramfs of a machine, not as a disk", true}},
	{0x202, "HdrS", Format{"a Linux kernel", "use it as the kernel of a machine, not as a disk", true}},
	{0, "\x7fELF", Format{"an ELF program", "use it as the kernel of a machine, not as a disk", true}},
	{
		257, "ustar",
		Format{"a tar archive", "unpack it (tar xf FILE), and fetch the disk in it with its own SHA-256", false},
	},
	{
		0, "PK\x03\x04",
		Format{"a zip archive", "unpack it (unzip FILE), and fetch the disk in it with its own SHA-256", false},
	},
	{
		0, "7z\xbc\xaf\x27\x1c",
		Format{"a 7z archive", "unpack it (7z x FILE), and fetch the disk in it with its own SHA-256", false},
	},
	{
		0, "Rar!\x1a\x07",
		Format{"a rar archive", "unpack it (unrar x FILE), and fetch the disk in it with its own SHA-256", false},
	},
	{
		0, "MSCF\x00\x00\x00\x00",
		Format{"a cabinet archive", "unpack it (cabextract FILE), and fetch the disk in it with its own SHA-256", false},
	},
	{0, "!<arch>\n", Format{"a Debian package or an ar archive", software, false}},
	{0, "\xed\xab\xee\xdb", Format{"an RPM package", software, false}},
	{0, "%PDF-", Format{"a PDF document", lookAtIt, false}},
	{0, "MSWIM\x00\x00\x00", Format{"a Windows image (WIM)", "apply it to a disk (wimapply), and fetch that disk", false}},
	{0, "\x3a\xff\x26\xed", Format{"an Android sparse image", unpack + "simg2img FILE disk.raw", false}},
	{0, "partclone-image", Format{"a partclone image", unpack + "partclone.restore -s FILE -o disk.raw", false}},
	{0, "EVF\x09\x0d\x0a\xff\x00", Format{"an EnCase image", unpack + "ewfexport FILE", false}},
	{
		0, "VMA\x00",
		Format{
			"a backup of Proxmox", "extract it (vma extract FILE DIRECTORY), and fetch the disk in it with its own SHA-256",
			false,
		},
	},
	{0, "QFI\xfb", Format{"a qcow2 disk", `say format: "qcow2"`, false}},
	{0, "QED\x00", Format{"a QED disk", convert, false}},
	{0, "KDMV", Format{"a VMDK disk", convert, false}},
	{0, "COWD", Format{"a VMDK disk", convert, false}},
	{0, "# Disk DescriptorFile", Format{"the descriptor of a VMDK disk, whose data is in other files", convert, false}},
	{0, "vhdxfile", Format{"a VHDX disk", convert, false}},
	{0, "conectix", Format{"a VHD disk", convert, false}},
	{-sector, "conectix", Format{"a VHD disk", convert, false}},
	{-sector + 1, "conectix", Format{"a VHD disk", convert, false}}, // early versions of Virtual PC
	{0x40, "\x7f\x10\xda\xbe", Format{"a VDI disk", convert, false}},
	{0, "WithoutFreeSpace", Format{"a Parallels disk", convert, false}},
	{0, "WithouFreSpacExt", Format{"a Parallels disk", convert, false}},
	{0, "Bochs Virtual HD Image", Format{"a Bochs disk", convert, false}},
	{-sector, "koly", Format{"a DMG disk", convert, false}},
	{0, "version https://git-lfs", Format{"a pointer of Git LFS", "fetch the file that it points to", false}},
}

// Recognise returns the format of a file of size bytes, and false if it may be a raw disk.
func Recognise(file io.ReaderAt, size int64) (Format, bool, error) {
	if size == 0 {
		return Format{
			Name: "empty", Remedy: "check the URL and the SHA-256: this is the SHA-256 of an empty file",
		}, true, nil
	}
	start, err := read(file, 0, startBytes)
	if err != nil {
		return Format{}, false, err
	}
	end, err := read(file, max(0, size-sector), sector)
	if err != nil {
		return Format{}, false, err
	}
	for _, s := range signatures {
		if s.in(start, end) {
			return s.Format, true, nil
		}
	}
	if markup(start[:min(len(start), sector)]) {
		return Format{Name: "a web page or a message of a server", Remedy: lookAtIt}, true, nil
	}
	if last := lastSector(start); last >= 0 && (last+1)*sector > size {
		return Format{
			Name: fmt.Sprintf("a disk that was cut off: it has %d bytes, and its partition table (GPT) is for %d", size,
				(last+1)*sector),
			Remedy: "download it again from its origin, and compare the published SHA-256",
		}, true, nil
	}
	return Format{}, false, nil
}

func read(file io.ReaderAt, at int64, n int) ([]byte, error) {
	text := make([]byte, n)
	got, err := file.ReadAt(text, at)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return text[:got], nil
}

func (s signature) in(start, end []byte) bool {
	if s.at < 0 {
		at := int64(len(end)) + s.at
		return at >= 0 && bytes.HasPrefix(end[at:], []byte(s.text))
	}
	return s.at < int64(len(start)) && bytes.HasPrefix(start[s.at:], []byte(s.text))
}

// markup reports whether the start of a file is HTML, XML or JSON: a text, unlike a boot sector.
func markup(start []byte) bool {
	start = bytes.TrimLeft(bytes.TrimPrefix(start, []byte("\ufeff")), " \t\r\n")
	if len(start) < 2 || !bytes.ContainsRune([]byte("<{["), rune(start[0])) {
		return false
	}
	for utf8.FullRune(start) { // the last character may be cut
		r, n := utf8.DecodeRune(start)
		if r == utf8.RuneError && n == 1 || r < ' ' && r != '\t' && r != '\n' && r != '\r' {
			return false
		}
		start = start[n:]
	}
	return true
}

// lastSector returns the number of the last sector that a GPT covers, or -1 without a GPT. It ignores the GPT of
// optical disk images, which is often wrong although they boot.
func lastSector(start []byte) int64 {
	const header = sector // the table is in the second sector
	iso := len(start) >= startBytes && string(start[0x8001:]) == "CD001"
	if iso || len(start) < header+sector || !bytes.HasPrefix(start[header:], []byte("EFI PART")) {
		return -1
	}
	last := binary.LittleEndian.Uint64(start[header+32:])
	if last > 1<<53 { // nonsense, which the firmware rejects
		return -1
	}
	return int64(last)
}
