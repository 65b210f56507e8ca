package datadisk

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/internal/test/testenv"
)

// disks creates files with file systems instead of block devices.
func disks(t *testing.T, made map[string][]string) (class, dev string) {
	t.Helper()
	class, dev = t.TempDir(), t.TempDir()
	for name, mkfs := range made {
		for _, dir := range []string{class, dev} {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		disk := filepath.Join(dev, name)
		if err := os.Truncate(disk, 128<<20); err != nil {
			t.Fatal(err)
		}
		if len(mkfs) > 0 {
			if out, err := exec.Command(testenv.Need(t, mkfs[0]), append(mkfs[1:], disk)...).CombinedOutput(); err != nil {
				t.Fatalf("%q: %v\n%s", mkfs, err, out)
			}
		}
	}
	return class, dev
}

// Promise: Machines from an image: A machine with a missing or duplicate disk does not join as another node.
// How: It waits and shows the expected label or number.
// Also: TestADiskIsFoundByItsSerialNumber, TestDataOnAnotherDiskThanTheNamedOneAreRefused.
func TestTheDiskOfANodeIsFoundByItsLabel(t *testing.T) {
	ext4, btrfs := []string{"mkfs.ext4", "-q", "-L", "writ-data"}, []string{"mkfs.btrfs", "-q", "-L", "a-label-of-more-than-16-letters"}
	class, dev := disks(t, map[string][]string{"vda": nil, "vdb1": ext4, "nvme0n1": btrfs, "loop0": ext4})
	for label, want := range map[string]string{"writ-data": "vdb1 ext4", "a-label-of-more-than-16-letters": "nvme0n1 btrfs"} {
		device, kind, err := findData(class, dev, label)
		if got := filepath.Base(device) + " " + kind; got != want || err != nil {
			t.Errorf("%s is %s, %v; want %s", label, got, err, want)
		}
	}
	if _, _, err := findData(class, dev, "other"); writ.CodeOf(err) != writ.CodeNotFound || !strings.Contains(err.Error(), "vda (unknown content), vdb1 (ext4 with the label writ-data)") {
		t.Errorf("a label that no disk has: %v", err)
	}
	class, dev = disks(t, map[string][]string{"vda": ext4, "vdb": ext4})
	if _, _, err := findData(class, dev, "writ-data"); writ.CodeOf(err) != writ.CodeConflict {
		t.Errorf("two disks with one label: %v", err)
	}
}

func TestADiskWithoutAFileSystemHasNoLabel(t *testing.T) {
	for name, disk := range map[string][]byte{"empty": nil, "zeros": make([]byte, 1<<17), "cut": append(make([]byte, ext4Mark), 0x53, 0xef)} {
		if kind, label := fileSystem(bytes.NewReader(disk)); label != "" || kind != "" && name != "cut" {
			t.Errorf("%s is %s with the label %q", name, kind, label)
		}
	}
}
