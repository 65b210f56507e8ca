package hardware

import (
	"os"
	"path/filepath"
	"testing"
)

func TestEachFileSystemIsMeasuredOnce(t *testing.T) {
	dir := t.TempDir()
	below := filepath.Join(dir, "pool")
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	got := Disks(dir, below, filepath.Join(dir, "missing"), "/proc")
	if len(got) != 2 || got[0].Path != dir || got[1].Path != "/proc" {
		t.Fatalf("of one directory with another below it, a missing one and /proc it measures %+v", got)
	}
	if d := got[0]; d.Free <= 0 || d.Bytes < d.Free {
		t.Errorf("the disk of %s: %+v", dir, d)
	}
	if d := got[1]; d.AlmostFull() {
		t.Errorf("/proc has no capacity and is almost full: %+v", d)
	}
}
