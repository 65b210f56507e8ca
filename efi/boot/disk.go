package boot

import (
	"bytes"
	"encoding/binary"
	"io"
	"regexp"
	"strings"
)

// Where file systems have their mark and their label, counted in bytes from the beginning of the disk.
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

// fileSystem returns the kind of a disk's file system and its label; the kind is "" if it is none that data of a node can be on.
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

// partOfCard are block devices of an eMMC or SD card beside the card itself.
var partOfCard = regexp.MustCompile(`^mmcblk\d+(boot\d+|rpmb)$`)

// noData reports whether a block device is none that an operator attaches.
func noData(name string) bool {
	if partOfCard.MatchString(name) {
		return true
	}
	for _, prefix := range []string{"loop", "ram", "zram", "fd", "sr"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
