package config

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"writ"
	"writ/internal/confine"
)

func TestUnsafeDisksAreNamed(t *testing.T) {
	t.Parallel()
	for kind, want := range map[uint32]string{
		unix.TMPFS_MAGIC: "in memory (tmpfs)", unix.NFS_SUPER_MAGIC: "network file system (NFS)",
		unix.SMB2_SUPER_MAGIC: "network file system (SMB)", unix.EXT4_SUPER_MAGIC: "", unix.BTRFS_SUPER_MAGIC: "",
		unix.XFS_SUPER_MAGIC: "", unix.OVERLAYFS_SUPER_MAGIC: "", 0: "",
	} {
		err := unsafeDisk("/data", kind)
		if want == "" && err != nil || want != "" && (writ.CodeOf(err) != writ.CodeDataUnsafe || !strings.Contains(err.Error(), want) ||
			!strings.Contains(writ.AsError(err).Hint, "--data")) {
			t.Errorf("%#x: %v, want %q", kind, err, want)
		}
	}
}

func TestDirectoryOfAnotherUserIsNamed(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	data, made := filepath.Join(t.TempDir(), "data"), make(chan error)
	go func() {
		runtime.LockOSThread() // this thread, which lost its rights, ends with the function
		_, err := unix.SetfsuidRetUid(confine.DefaultFirst)
		made <- cmp.Or(err, MakeData(data))
	}()
	err := <-made
	if hint := writ.AsError(err).Hint; writ.CodeOf(err) != writ.CodeStoreReadOnly || !strings.Contains(hint, "may not write to "+data) || !strings.Contains(hint, "--data") {
		t.Errorf("error %v, hint %q", err, hint)
	}
}

// The directory is missing: its parent is a real tmpfs.
func TestDirectoryInMemoryIsUnsafe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("writ-test", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("mounting a file system in memory needs root: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, 0) })
	if err := UnsafeData(filepath.Join(dir, "writ", "n1")); writ.CodeOf(err) != writ.CodeDataUnsafe {
		t.Errorf("error %v", err)
	}
}
