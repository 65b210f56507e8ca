package datadisk

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"writ"
	"writ/internal/test/testenv"
)

// diskSize is the size of the disks in these tests.
const diskSize = 192 << 20

// madeBy returns a disk with a file system that a program made.
func madeBy(t *testing.T, command ...string) *os.File {
	t.Helper()
	disk, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { disk.Close() })
	if err := disk.Truncate(diskSize); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command(testenv.Need(t, command[0]), append(command[1:], disk.Name())...).CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", command, err, said)
	}
	return disk
}

// with writes text to a disk at an offset.
func with(t *testing.T, disk *os.File, at int64, text string) *os.File {
	t.Helper()
	if _, err := disk.WriteAt([]byte(text), at); err != nil {
		t.Fatal(err)
	}
	return disk
}

// cleared zeroes the disk up to end.
func cleared(t *testing.T, disk *os.File, end int) *os.File {
	t.Helper()
	return with(t, disk, 0, strings.Repeat("\x00", end))
}

// sparse is a disk with texts at some offsets. A negative offset counts from the end.
type sparse map[int64]string

func (s sparse) ReadAt(b []byte, off int64) (int, error) {
	clear(b)
	for at, text := range s {
		if at < 0 {
			at += diskSize
		}
		for i := range len(text) {
			if to := at + int64(i) - off; to >= 0 && to < int64(len(b)) {
				b[to] = text[i]
			}
		}
	}
	return len(b), nil
}

// broken is a disk with one unreadable place.
type broken struct {
	sparse
	at   int64
	with error
}

func (b broken) ReadAt(into []byte, off int64) (int, error) {
	if b.at >= off && b.at < off+int64(len(into)) {
		return 0, b.with
	}
	return b.sparse.ReadAt(into, off)
}

// An unreadable part may hold data, so such a disk is not empty.
func TestADiskThatCannotBeReadIsNotEmpty(t *testing.T) {
	for name, at := range map[string]int64{
		"the beginning": 0, "the end": diskSize - 1, "a copy of btrfs": btrfsCopies[0] + btrfsMark - btrfsSuper, "a copy of ext4": ext4Copies[0] + ext4Mark - 1<<10, "another of ext4": ext4Copies[1] + ext4Mark - 1<<10,
	} {
		if what, begun, err := content(broken{sparse{}, at, syscall.EIO}, diskSize); !errors.Is(err, syscall.EIO) || what != "" || begun {
			t.Errorf("without %s: it has %q, begun %t, %v", name, what, begun, err)
		}
	}
	if what, _, err := content(broken{sparse{}, diskSize - 1, io.EOF}, diskSize); err == nil {
		t.Errorf("a disk that ends before its end has %q", what)
	}
	if what, _, err := content(broken{sparse{}, btrfsCopies[1] + btrfsMark - btrfsSuper, io.EOF}, diskSize); what != "" || err != nil {
		t.Errorf("a disk that ends before the last copy of btrfs has %q, %v", what, err)
	}
}

// Data in an unchecked part of a disk survives mkfs, except where the file system needs the space.
func TestAnEmptyDiskIsNotDiscarded(t *testing.T) {
	const middle, text = diskSize - 9<<20, "the only copy"
	disk, err := os.Create(filepath.Join(testenv.Home(t, "disk"), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	if err := disk.Truncate(diskSize); err != nil {
		t.Fatal(err)
	}
	with(t, disk, middle, text)
	if err := disk.Sync(); err != nil {
		t.Fatal(err)
	}
	d := dataDisk{device: testenv.Attach(t, disk.Name())}
	if said, err := exec.Command(testenv.Need(t, "mkfs.btrfs"), d.mkfs()...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if !has(disk, middle, text) {
		t.Error("it is gone")
	}
}

// Promise: Machines from an image: A machine formats a disk only if its serial number was named and it is empty;
// another disk stays unchanged to the byte.
// How: The first and last MiB must be zero without copies of super blocks; unreadable parts may be data; of two disks
// with one number neither is used.
// Also: TestADiskThatCannotBeReadIsNotEmpty, TestAnEmptyDiskIsNotDiscarded, TestADiskIsFoundByItsSerialNumber,
// TestTheFirstProcessPreparesAMachine, TestAMachineFromAnImageRunsContainers.
func TestTheContentOfADiskIsNamed(t *testing.T) {
	btrfs, ext4 := []string{"mkfs.btrfs", "-q", "-L", "others"}, []string{"mkfs.ext4", "-q", "-L", "others"}
	for name, tt := range map[string]struct {
		disk io.ReaderAt
		want string
	}{
		"zeros":                    {sparse{}, ""},
		"btrfs":                    {madeBy(t, btrfs...), `a file system (btrfs) with the label "others"`},
		"ext4":                     {madeBy(t, ext4...), `a file system (ext4) with the label "others"`},
		"btrfs without beginning":  {cleared(t, madeBy(t, btrfs...), 2<<20), "a copy of the super block of btrfs"},
		"ext4 without beginning":   {cleared(t, madeBy(t, ext4...), 2<<20), "a copy of the super block of ext4"},
		"GPT":                      {sparse{510: "\x55\xaa", 512: "EFI PART"}, "a partition table (GPT)"},
		"GPT of large sectors":     {sparse{4096: "EFI PART"}, "a partition table (GPT)"},
		"MBR":                      {sparse{510: "\x55\xaa"}, "a partition table or a boot sector (MBR)"},
		"FAT":                      {sparse{82: "FAT32   ", 510: "\x55\xaa"}, "a file system (FAT)"},
		"LUKS":                     {sparse{0: "LUKS\xba\xbe"}, "an encrypted disk (LUKS)"},
		"LVM":                      {sparse{512: "LABELONE"}, "a physical volume of LVM"},
		"md":                       {sparse{4096: "\xfc\x4e\x2b\xa9"}, "a part of a RAID (md)"},
		"one byte":                 {sparse{777777: "x"}, "data of an unknown kind in its first MiB"},
		"the last byte":            {sparse{-1: "x"}, "data in its last MiB"},
		"the end of a GPT":         {sparse{-512: "EFI PART"}, "data in its last MiB"},
		"btrfs begun by others":    {sparse{btrfsMark: btrfsUnfinished, btrfsLabel: "others"}, "data of an unknown kind in its first MiB"},
		"our label and more of it": {sparse{btrfsMark: btrfsMagic, btrfsLabel: makingLabel + "!"}, `a file system (btrfs) with the label "being made by writ!"`},
	} {
		if what, begun, err := content(tt.disk, diskSize); what != tt.want || begun || err != nil {
			t.Errorf("%s: it has %q, begun %t, %v; want %q", name, what, begun, err, tt.want)
		}
	}
	if what, _, err := content(sparse{}, 1<<20); what == "" || err != nil {
		t.Errorf("a disk of one MiB has %q, %v", what, err)
	}
}

// mkfs.btrfs writes another magic number until it is finished, and an unfinished file system has our label. Such a file
// system can be made again after a power failure, and no other can.
//
// Promise: Machines from an image: A power cut during formatting leaves a disk that is ready or is formatted again by
// the next start.
// How: The file system has a temporary label until complete and gets the data label last, in a transaction.
// Also: TestAMachineFromAnImageRunsContainers.
func TestIncompleteFileSystemIsRecreated(t *testing.T) {
	made := func() *os.File { return madeBy(t, "mkfs.btrfs", "-q", "-L", makingLabel) }
	for name, tt := range map[string]struct {
		disk  io.ReaderAt
		begun bool
	}{
		"made, and has no label yet":      {made(), true},
		"not ready":                       {with(t, made(), btrfsMark, btrfsUnfinished), true},
		"the first super block came last": {cleared(t, made(), 1<<20), true},
		// The disk still counts as empty.
		"no super block yet":          {sparse{1 << 20: "a block of a tree"}, false},
		"then others made a table":    {with(t, made(), 510, "\x55\xaa"), false},
		"then others gave it a label": {with(t, made(), btrfsLabel, "others\x00"), false},
	} {
		what, begun, err := content(tt.disk, diskSize)
		if begun != tt.begun || err != nil || begun && what != "" {
			t.Errorf("%s: begun %t, it has %q, %v", name, begun, what, err)
		}
		if strings.HasPrefix(name, "then others") && what == "" {
			t.Errorf("%s: the disk counts as empty", name)
		}
	}
}

// block returns a /sys/block with disks and their serial numbers.
func block(serials map[string]string) fstest.MapFS {
	root := fstest.MapFS{"loop0/serial": &fstest.MapFile{Data: []byte("S-1\n")}}
	for name, serial := range serials {
		root[name+"/serial"] = &fstest.MapFile{Data: []byte(serial + "\n")}
		root[name+"/ro"] = &fstest.MapFile{Data: []byte("0\n")}
	}
	return root
}

func TestADiskIsFoundByItsSerialNumber(t *testing.T) {
	_, dev := disks(t, map[string][]string{"vda": nil, "vdb": nil, "vdc": {"mkfs.ext4", "-q", "-L", "others"}, "vdd": nil})
	there := block(map[string]string{"vda": "", "vdb": "S-1", "vdc": "WD 40 EZ", "vdd": "S-2", "nvme0n1": "S-3", "nvme0c0n1": "S-3", "mmcblk0": "0x1", "mmcblk0boot0": "0x1", "sda": "TWICE", "sdb": "TWICE"})
	there["nvme0c0n1/hidden"] = &fstest.MapFile{Data: []byte("1\n")}
	there["vdd/ro"] = &fstest.MapFile{Data: []byte("1\n")}
	for serial, want := range map[string]string{"S-1": "vdb", "S-3": "nvme0n1", "0x1": "mmcblk0", "WD_40_EZ": "vdc"} {
		if name, err := withSerial(there, serial); name != want || err != nil {
			t.Errorf("disk with serial number %s = %q, %v; want %s", serial, name, err, want)
		}
	}
	if d, err := findEmpty(there, dev, "S-1"); err != nil || !d.empty || d.begun || filepath.Base(d.device) != "vdb" {
		t.Errorf("empty disk = %+v, %v", d, err)
	}
	for serial, tt := range map[string]struct {
		code writ.Code
		says string
	}{
		"S-9":      {writ.CodeNotFound, "no disk has the serial number S-9; there are 8 disks: mmcblk0 (0x1) "},
		"S":        {writ.CodeNotFound, "vda (no serial number)"},
		"TWICE":    {writ.CodeConflict, "sda sdb"},
		"WD_40_EZ": {writ.CodeConflict, `is not empty: it has a file system (ext4) with the label "others"`},
		"S-2":      {writ.CodeUsage, "is read-only"},
	} {
		_, err := findEmpty(there, dev, serial)
		if writ.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.says) || writ.AsError(err).Hint == "" {
			t.Errorf("%s: %v, want %q and a hint", serial, err, tt.says)
		}
	}
}

func TestDataOnAnotherDiskThanTheNamedOneAreRefused(t *testing.T) {
	there := block(map[string]string{"vda": "S-1", "vdb": "S-2", "vdc": "TWICE", "vdd": "TWICE"})
	there["vda/vda1/partition"] = &fstest.MapFile{Data: []byte("1\n")}
	for _, tt := range []struct {
		device, serial string
		says           string // "" if the file system is accepted
	}{
		{"/dev/vda", "S-1", ""}, {"/dev/vda1", "S-1", ""}, {"/dev/vda", "S-2", "S-2 belongs to another disk"}, {"/dev/vda1", "S-2", "S-2 belongs to another disk"},
		{"/dev/vdb", "S-9", "S-9 belongs to no disk"}, {"/dev/vdc", "TWICE", "several disks have"},
	} {
		err := checkNamed(there, tt.device, "writ-data", tt.serial)
		if (err == nil) != (tt.says == "") || err != nil && (writ.CodeOf(err) != writ.CodeConflict || writ.AsError(err).Hint == "" || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("data on %s, the disk %s is named: %v", tt.device, tt.serial, err)
		}
	}
}
