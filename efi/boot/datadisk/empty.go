package datadisk

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"writ"
	"writ/internal/diskserial"
)

// makingLabel is the label of a file system under construction. No setting can name it. The file system gets its final
// label last, once it is complete and mountable. A file system with this label therefore never held data and may be
// made again.
const makingLabel = "being made by writ"

// checkedPart is the number of bytes at the start and at the end of a disk that must be zero for the disk to count as
// empty.
const checkedPart = 1 << 20

// The first super block of btrfs, and the magic number of an unfinished file system.
const (
	btrfsSuper      = 0x10000
	btrfsSuperSize  = 4 << 10
	btrfsUnfinished = "!BHRfS_M"
)

// Offsets of the backup super blocks of btrfs, and of ext4 with blocks of 4 KiB and of 1 KiB. These copies survive if
// only the start of a disk is cleared.
var (
	btrfsCopies = []int64{64 << 20, 256 << 30}
	ext4Copies  = []int64{128 << 20, 8<<20 + 1<<10}
)

// content describes the content of a disk. It returns "" if the disk is empty or holds only an unfinished data file
// system (begun). An unreadable part is an error, because it may hold data.
func content(disk io.ReaderAt, size int64) (what string, begun bool, err error) {
	noting := &noting{ReaderAt: disk, size: size}
	what, begun = contentOf(noting, size)
	if noting.failed != nil {
		return "", false, fmt.Errorf("read the disk: %w", noting.failed)
	}
	return what, begun, nil
}

// noting wraps a disk and remembers the last read error.
type noting struct {
	io.ReaderAt
	size   int64
	failed error
}

func (n *noting) ReadAt(b []byte, at int64) (int, error) {
	got, err := n.ReaderAt.ReadAt(b, at)
	if err != nil && (err != io.EOF || at+int64(len(b)) <= n.size) { // reads past the end are not failures
		n.failed = err
	}
	return got, err
}

func contentOf(disk io.ReaderAt, size int64) (what string, begun bool) {
	if size < 2*checkedPart {
		return fmt.Sprintf("space for only %d bytes", size), false
	}
	first, last := make([]byte, checkedPart), make([]byte, checkedPart)
	_, _ = disk.ReadAt(first, 0)
	_, _ = disk.ReadAt(last, size-checkedPart)
	beside := slices.Clone(first)
	clear(beside[btrfsSuper : btrfsSuper+btrfsSuperSize])
	switch {
	case isZero(beside) && isBegun(disk, btrfsSuper):
		return "", true
	case !isZero(first):
		return named(disk), false
	// mkfs.btrfs writes this copy before the first super block. If only the copy exists, the power failed between the two
	// writes.
	case isBegun(disk, btrfsCopies[0]):
		return "", true
	case !isZero(last):
		return "data in its last MiB", false
	}
	for _, at := range btrfsCopies {
		if has(disk, at+btrfsMark-btrfsSuper, btrfsMagic) {
			return "a copy of the super block of btrfs", false
		}
	}
	for _, at := range ext4Copies {
		if has(disk, at+ext4Mark-1<<10, ext4Mark16) {
			return "a copy of the super block of ext4", false
		}
	}
	return "", false
}

// ext4Mark16 is ext4Magic in the byte order of the disk.
var ext4Mark16 = string(binary.LittleEndian.AppendUint16(nil, ext4Magic))

func isZero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

// has reports whether disk contains text at the offset `at`.
func has(disk io.ReaderAt, at int64, text string) bool {
	b := make([]byte, len(text))
	n, _ := disk.ReadAt(b, at)
	return n == len(b) && string(b) == text
}

// isBegun reports whether a super block belongs to an unfinished data file system.
func isBegun(disk io.ReaderAt, super int64) bool {
	magic := super + btrfsMark - btrfsSuper
	return (has(disk, magic, btrfsMagic) || has(disk, magic, btrfsUnfinished)) &&
		has(disk, super+btrfsLabel-btrfsSuper, makingLabel+"\x00")
}

// marks lists the magic numbers of partition tables and file systems.
var marks = []struct {
	at         int64
	mark, what string
	label      int64 // offset of the label, if labelSize is not 0
	labelSize  int
}{
	{512, "EFI PART", "a partition table (GPT)", 0, 0},
	{4096, "EFI PART", "a partition table (GPT)", 0, 0},
	{0, "LUKS\xba\xbe", "an encrypted disk (LUKS)", 0, 0},
	{0, "XFSB", "a file system (xfs)", 108, 12},
	{3, "NTFS    ", "a file system (NTFS)", 0, 0},
	{3, "EXFAT   ", "a file system (exFAT)", 0, 0},
	{54, "FAT1", "a file system (FAT)", 43, 11},
	{82, "FAT32", "a file system (FAT)", 71, 11},
	{512, "LABELONE", "a physical volume of LVM", 0, 0},
	{4096, "\xfc\x4e\x2b\xa9", "a part of a RAID (md)", 0, 0},
	{0, "\xfc\x4e\x2b\xa9", "a part of a RAID (md)", 0, 0},
	{4086, "SWAPSPACE2", "swap space", 1052, 16},
	{1024, "\x10\x20\xf5\xf2", "a file system (f2fs)", 0, 0},
	{0x8001, "CD001", "an image of a CD (ISO 9660)", 0x8028, 32},
	{0, "bluestore block device", "data of Ceph", 0, 0},
	// Last, because other formats also have this mark.
	{510, "\x55\xaa", "a partition table or a boot sector (MBR)", 0, 0},
}

// named describes the content of the first MiB of a disk.
func named(disk io.ReaderAt) string {
	if kind, label := fileSystem(disk); kind != "" {
		return fmt.Sprintf("a file system (%s) with the label %q", kind, label)
	}
	if what, _ := marked(disk); what != "" {
		return what
	}
	return "data of an unknown kind in its first MiB"
}

// marked returns the kind and label of a disk's content, by its magic number. Both are "" if no magic number matches.
func marked(disk io.ReaderAt) (what, label string) {
	for _, m := range marks {
		if !has(disk, m.at, m.mark) {
			continue
		}
		b := make([]byte, m.labelSize)
		_, _ = disk.ReadAt(b, m.label)
		text, _, _ := bytes.Cut(b, []byte{0})
		return m.what, strings.TrimRight(string(text), " ")
	}
	return "", ""
}

// serialOf returns the serial number of a disk in the form of a setting, with underscores for spaces.
func serialOf(block fs.FS, name string) string {
	return strings.Join(strings.Fields(diskserial.Of(block, name)), "_")
}

// withSerial returns the name of the only disk with a serial number. It returns NOT_FOUND for no disk, and CONFLICT for
// several disks. block is /sys/block.
func withSerial(block fs.FS, serial string) (string, error) {
	entries, err := fs.ReadDir(block, ".")
	if err != nil {
		return "", fmt.Errorf("list the disks: %w", err)
	}
	var found, seen []string
	for _, e := range entries {
		name := e.Name()
		if hidden, _ := fs.ReadFile(block, path.Join(name, "hidden")); noData(name) ||
			strings.TrimSpace(string(hidden)) == "1" {
			continue // a hidden device is one path of a multipath disk and repeats its number
		}
		has := serialOf(block, name)
		seen = append(seen, fmt.Sprintf("%s (%s)", name, cmp.Or(has, "no serial number")))
		if has == serial {
			found = append(found, name)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", writ.Errorf(writ.CodeNotFound, "no disk has the serial number %s; there are %d disks: %s", serial,
			len(seen), strings.Join(seen, " ")).
			WithHint("attach the disk, or set writ.disk to its number as shown here")
	}
	return "", writ.Errorf(writ.CodeConflict, "several disks have the serial number %s: %s", serial,
		strings.Join(found, " ")).
		WithHint("detach all but one. If they are one disk with two paths, make its file system yourself, and set writ.data to its label")
}

// checkNamed returns an error if the data file system is not on the disk with the serial number. block is /sys/block.
func checkNamed(block fs.FS, device, label, serial string) error {
	disk, err := withSerial(block, serial)
	if err != nil && writ.CodeOf(err) != writ.CodeNotFound {
		return err
	}
	name := path.Base(device)
	if _, gone := fs.Stat(block, path.Join(disk, name)); err == nil && (name == disk || gone == nil) {
		return nil
	}
	whose := "belongs to another disk"
	if err != nil {
		whose = "belongs to no disk"
	}
	return writ.Errorf(writ.CodeConflict, "the file system with the label %s is on %s, and the serial number %s %s",
		label, device, serial, whose).
		WithHint("set writ.disk to the number of this disk, or detach it: it may be a copy")
}
