// Package datadisk finds the disk with a node's data by its label or serial number and mounts it. It makes a file system
// only on an empty disk that the settings name. It never mounts a disk that may belong to another node or machine. The
// package does not read the data.
package datadisk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"

	"writ"
	"writ/internal/lazyregexp"
)

// Offsets of magic numbers and labels, in bytes from the start of the disk.
const (
	ext4Mark       = 0x438
	ext4Label      = 0x478
	ext4LabelSize  = 16
	ext4Magic      = 0xef53
	btrfsMark      = 0x10040
	btrfsLabel     = 0x1012b
	btrfsLabelSize = 256
	btrfsMagic     = "_BHRfS_M"
)

// fileSystem returns the type and label of the file system on disk. The type is "" unless it is btrfs or ext4, the
// types for node data.
func fileSystem(disk io.ReaderAt) (kind, label string) {
	text := func(at int64, size int) string {
		b := make([]byte, size)
		if n, _ := disk.ReadAt(b, at); n < size {
			return ""
		}
		b, _, _ = bytes.Cut(b, []byte{0})
		return string(b)
	}
	mark := make([]byte, 2)
	if n, _ := disk.ReadAt(mark, ext4Mark); n == 2 && binary.LittleEndian.Uint16(mark) == ext4Magic {
		return "ext4", text(ext4Label, ext4LabelSize)
	}
	if text(btrfsMark, len(btrfsMagic)) == btrfsMagic {
		return "btrfs", text(btrfsLabel, btrfsLabelSize)
	}
	return "", ""
}

// partOfCard matches the special block devices of an eMMC or SD card.
var partOfCard = lazyregexp.New(`^mmcblk\d+(boot\d+|rpmb)$`)

// noData reports whether a block device cannot hold node data, such as a loop device or a CD drive.
func noData(name string) bool {
	return partOfCard.MatchString(name) || slices.ContainsFunc([]string{"loop", "ram", "zram", "fd", "sr"},
		func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// describeDisk describes the content of a disk for people. It also returns the kind of the content and its label.
func describeDisk(name string, disk io.ReaderAt) (text, what, label string) {
	what, label = fileSystem(disk)
	if what == "" {
		what, label = marked(disk)
	}
	switch {
	case what == "":
		return name + " (unknown content)", what, label
	case label == "":
		return name + " (" + what + ")", what, label
	}
	return name + " (" + what + " with the label " + label + ")", what, label
}

// noDisk returns the error for a missing data file system. other describes content that has the label but an
// unsupported type. seen describes the available disks.
func noDisk(label, other string, seen []string) error {
	if other != "" {
		return writ.Errorf(writ.CodeConflict, "the label %s belongs to %s, and node data must be on btrfs or ext4",
			label, other).
			WithHint("attach the right disk, or set another label with writ.data. The disk was not changed. If you do not need its content, make a file system: mkfs.btrfs -L %s DISK", label)
	}
	there := strings.Join(seen, ", ")
	if there == "" {
		there = "none"
	}
	return writ.Errorf(writ.CodeNotFound, "no disk has a file system with the label %s; disks and partitions: %s",
		label, there).
		WithHint("attach the disk, or name it by its serial number with writ.disk; or make its file system: mkfs.btrfs -L %s DISK, or mkfs.ext4 -L %s DISK", label, label)
}

// withLacking adds the drivers and firmware that the image lacks to the error of a missing disk, if they are known.
func withLacking(err error, lacks string) error {
	e, ok := errors.AsType[*writ.Error](err)
	if !ok || e.Code != writ.CodeNotFound || lacks == "" {
		return err
	}
	return writ.Errorf(e.Code, "%s; %s", e.Message, lacks).
		WithHint("%s; or build the image with the driver (--module), its firmware (--packages), or another kernel",
			e.Hint)
}

// foreign returns an error if the file system holds files, but not `own`, the directory of the node.
func foreign(names []string, own string) error {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "lost+found" })
	if len(names) == 0 || slices.Contains(names, own) {
		return nil
	}
	shown := names[:min(len(names), 5)]
	return writ.Errorf(writ.CodeConflict, "the disk has files that do not belong to a node: %s",
		strings.Join(shown, " ")).
		WithHint("attach the right disk, or set another label with writ.data. If this is the right disk, create the directory %s on it", own)
}

// otherNode returns an error if the disk belongs to another node than the configured node. A name is "" if unknown.
func otherNode(onDisk, configured string) error {
	if onDisk == "" || configured == "" || onDisk == configured {
		return nil
	}
	return writ.Errorf(writ.CodeConflict, "the disk belongs to the node %s, and this machine is configured as %s",
		onDisk, configured).
		WithHint("attach the disk of %s, or correct writ.name", configured)
}

// leastFree is the free space in bytes that a node needs on its disk to start.
const leastFree = 16 << 20

// full returns an error if the disk has less than leastFree free bytes.
func full(device string, free, size int64) error {
	if free >= leastFree {
		return nil
	}
	return writ.Errorf(writ.CodeStoreUnavailable, "the disk %s is full: %d of %d MiB are free", device, free>>20,
		size>>20).
		WithHint("delete files on it on another machine, or enlarge it. No file is deleted automatically")
}
