package diskspace_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"writ/internal/diskspace"
)

func TestHolesOccupyNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 64<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<30); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := diskspace.Occupied(info); got < 64<<10 || got > 1<<20 {
		t.Errorf("a file with 64 KiB and a hole occupies %d bytes", got)
	}
	if size, free, err := diskspace.Of(path); err != nil || free <= 0 || free > size {
		t.Errorf("its disk has %d bytes, %d of them free, %v", size, free, err)
	}
	if _, _, err := diskspace.Of(path + "/missing"); err == nil {
		t.Error("a missing path has a disk")
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(path, &disk); err != nil {
		t.Fatal(err)
	}
	got, err := diskspace.PerFile(path)
	if fixed := disk.Files > 0; err != nil || fixed != (got > 0) || got*int64(disk.Files) > int64(disk.Blocks)*int64(disk.Bsize) {
		t.Errorf("a disk with %d files has %d bytes for each, %v", disk.Files, got, err)
	}
	if _, err := diskspace.PerFile(path + "/missing"); err == nil {
		t.Error("a missing path has files")
	}
}

func TestImagesShareQuarterOfDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	size, _, err := diskspace.Of(dir)
	if err != nil {
		t.Fatal(err)
	}
	for fixed, want := range map[int64]int64{0: size / 4, 7: 7} {
		if got, err := diskspace.Share(dir, fixed); got != want || err != nil {
			t.Errorf("with %d it is %d, %v, want %d", fixed, got, err, want)
		}
	}
	if got, err := diskspace.Share(filepath.Join(dir, "missing"), 0); err == nil {
		t.Errorf("a missing path has %d bytes", got)
	}
}
