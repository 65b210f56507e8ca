package doctor

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDoctorNamesUnsafeDataDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("writ-test", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("mounting a file system in memory needs root: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, 0) })
	if f := examineData(dir); f.State != suspect || !strings.Contains(f.Detail, "in memory (tmpfs)") || f.Fix == "" {
		t.Errorf("a directory in memory: %+v", f)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if f := examineData(dir + "/n1"); f.State != suspect || !strings.Contains(f.Detail, "read-only disk") {
		t.Errorf("a directory on a read-only disk: %+v", f)
	}
}
