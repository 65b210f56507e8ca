package saltest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ/internal/test/testenv"
	"writ/sal"
)

// Hosts creates directories that represent hosts.
type Hosts interface {
	// New returns an empty directory that exists until the test ends.
	New(t testing.TB) string
	// Replace makes `to` a copy of `from`. No driver uses the two directories meanwhile.
	Replace(t testing.TB, to, from string)
}

func hostsOr(h Hosts) Hosts {
	if h == nil {
		return plain{}
	}
	return h
}

// plain hosts consist only of files.
type plain struct{}

// New returns a directory in memory if the system has such a file system. The suite tests killed processes, not power
// cuts, and on a busy disk it would mostly wait.
func (plain) New(t testing.TB) string {
	t.Helper()
	return testenv.HomeInMemory(t, "host")
}

// OnDisk creates plain hosts on a real disk. Files in memory count towards the memory limit of the process that writes
// them and are not freed, so a limited process that writes its guest's memory there would be killed.
type OnDisk struct{ plain }

// New returns a directory on a disk. It skips the test if all file systems are in memory.
func (OnDisk) New(t testing.TB) string {
	t.Helper()
	const inMemory = 0x01021994 // TMPFS_MAGIC
	for _, parent := range []string{os.TempDir(), "/var/tmp", "."} {
		if fsType(parent) == inMemory {
			continue
		}
		dir, err := os.MkdirTemp(parent, "w") // paths of sockets must be short
		if err != nil {
			continue
		}
		t.Cleanup(func() {
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		})
		if dir, err = filepath.Abs(dir); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	testenv.Lack(t, "this machine has no file system on a disk: set TMPDIR to a directory on a disk")
	return ""
}

func (plain) Replace(t testing.TB, to, from string) {
	t.Helper()
	emptyDir(t, to)
	if err := filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == from {
			return err
		}
		return copyEntry(t.Context(), filepath.Join(to, strings.TrimPrefix(name, from)), name, d)
	}); err != nil {
		t.Fatal(err)
	}
}

// copyEntry copies a directory without its content, a link, or a file with its holes: disks of machines consist mostly
// of holes.
func copyEntry(ctx context.Context, to, from string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		return os.Mkdir(to, 0o700)
	case fs.ModeSymlink:
		target, err := os.Readlink(from)
		return errors.Join(err, os.Symlink(target, to))
	case 0:
		source, err := os.Open(from)
		if err != nil {
			return err
		}
		defer source.Close()
		f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
		if err != nil {
			return err
		}
		return errors.Join(sal.CopyFile(ctx, f, source), f.Close())
	default:
		return nil // sockets and pipes are useless without their processes
	}
}

func emptyDir(t testing.TB, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
}
