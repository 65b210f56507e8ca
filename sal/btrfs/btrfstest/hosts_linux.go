//go:build cgo

// Package btrfstest creates btrfs file systems for the conformance suite of drivers.
package btrfstest

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/containerd/btrfs/v2"
	"golang.org/x/sys/unix"

	"writ/internal/test/testenv"
)

// Hosts creates directories for a suite on a separate btrfs file system; see saltest.Hosts.
type Hosts struct{ dir string }

// NewHosts creates the file system, with 4 GiB, or skips the test.
func NewHosts(t testing.TB) Hosts {
	return Hosts{testenv.NewBtrfs(t, filepath.Join(t.TempDir(), "btrfs"), 4<<10).Dir}
}

// New returns an empty directory.
func (h Hosts) New(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(h.dir, "host-")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Replace replaces the content of `to` by a copy of `from`. It copies subvolumes as subvolumes.
func (h Hosts) Replace(t testing.TB, to, from string) {
	t.Helper()
	if err := errors.Join(emptyDir(to), copyDir(to, from)); err != nil {
		t.Fatal(err)
	}
}

func emptyDir(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if isSubvolume(path) {
			err = errors.Join(err, btrfs.SubvolDelete(path))
			continue
		}
		if e.IsDir() {
			err = errors.Join(err, emptyDir(path))
		}
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

func copyDir(to, from string) error {
	entries, err := os.ReadDir(from)
	for _, e := range entries {
		source, path := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		switch {
		case isSubvolume(source):
			readOnly, e := isReadOnly(source)
			err = errors.Join(err, e, btrfs.SubvolSnapshot(path, source, readOnly))
		case e.IsDir():
			err = errors.Join(err, os.Mkdir(path, 0o700), copyDir(path, source))
		default:
			text, e := os.ReadFile(source)
			err = errors.Join(err, e, os.WriteFile(path, text, 0o600))
		}
	}
	return err
}

// isSubvolume reports whether path is the top of a subvolume, which always has the same inode.
func isSubvolume(path string) bool {
	info, err := os.Lstat(path)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.IsDir() && stat.Ino == 256
}

func isReadOnly(path string) (bool, error) {
	d, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer d.Close()
	const subvolumeFlags, readOnly = 2<<30 | 8<<16 | 0x94<<8 | 25, 2 // BTRFS_IOC_SUBVOL_GETFLAGS, BTRFS_SUBVOL_RDONLY
	flags, err := unix.IoctlGetInt(int(d.Fd()), subvolumeFlags)
	return flags&readOnly != 0, err
}
