package datadisk

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"writ/efi/progress"
)

func TestContentOfADiskIsReported(t *testing.T) {
	disk := func(parts map[int64]string) []byte {
		b := make([]byte, 1<<17)
		for at, text := range parts {
			copy(b[at:], text)
		}
		return b
	}
	for want, parts := range map[string]map[int64]string{
		"vda (a file system (xfs) with the label photos)":         {0: "XFSB", 108: "photos"},
		"vda (a file system (FAT) with the label USB)":            {82: "FAT32   ", 71: "USB        ", 510: "\x55\xaa"},
		"vda (a file system (NTFS))":                              {3: "NTFS    ", 510: "\x55\xaa"},
		"vda (an encrypted disk (LUKS))":                          {0: "LUKS\xba\xbe"},
		"vda (swap space with the label s1)":                      {4086: "SWAPSPACE2", 1052: "s1"},
		"vda (an image of a CD (ISO 9660) with the label DEBIAN)": {0x8001: "CD001", 0x8028: "DEBIAN   "},
		"vda (a partition table or a boot sector (MBR))":          {510: "\x55\xaa"},
		"vda (unknown content)":                                   {},
		"vda (btrfs with the label of the label)":                 {btrfsMark: btrfsMagic, btrfsLabel: "of the label"},
	} {
		if got, _, _ := describeDisk("vda", bytes.NewReader(disk(parts))); got != want {
			t.Errorf("it is %s, want %s", got, want)
		}
	}
}

// Promise: Machines from an image: A disk with foreign files, or of another computer or node, is reported and never
// written.
// How: The kernel refuses writes during the inspection, without the journal; marks of other file systems are known;
// `writ.name` is compared.
// Also: TestADiskIsLookedAtBeforeItsJournalIsWritten, TestLinkIsRefusedAsNodeDirectory, TestContentOfADiskIsReported,
// TestMachineReportsStartFaults.
func TestDiskOfAnotherNodeIsRefused(t *testing.T) {
	for _, tt := range []struct {
		err  error
		says string // "" if the disk is accepted
		next string
	}{
		{foreign(nil, "node"), "", ""},
		{foreign([]string{"lost+found"}, "node"), "", ""},
		{foreign([]string{"containerd", "lost+found", "node"}, "node"), "", ""},
		{foreign([]string{"a", "b", "c", "d", "e", "f"}, "node"), "files that do not belong to a node: a b c d e", "create the directory node on it"},
		{otherNode("", "n1"), "", ""},
		{otherNode("n1", ""), "", ""},
		{otherNode("n1", "n1"), "", ""},
		{otherNode("n1", "n2"), "belongs to the node n1, and this machine is configured as n2", "attach the disk of n2"},
		{full("/dev/vda", leastFree, 1<<30), "", ""},
		{full("/dev/vda", leastFree-1, 1<<30), "/dev/vda is full: 15 of 1024 MiB are free", "No file is deleted"},
		{noDisk("data", "", nil), "disks and partitions: none", "attach the disk"},
		{noDisk("data", "vfat on /dev/sda1", nil), "the label data belongs to vfat on /dev/sda1", "The disk was not changed"},
		{withLacking(noDisk("data", "", nil), "no driver"), "none; no driver", "build the image"},
		{withLacking(noDisk("data", "vfat on /dev/sda1", nil), "no driver"), "the label data belongs to vfat", "attach the right disk"},
	} {
		if fmt.Sprint(tt.err == nil) != fmt.Sprint(tt.says == "") || tt.err != nil && (!strings.Contains(tt.err.Error(), tt.says) || !strings.Contains(progress.HintOf(tt.err), tt.next)) {
			t.Errorf("it is %v, %s; want %q", tt.err, progress.HintOf(tt.err), tt.says)
		}
	}
}
