package saltest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ/internal/testenv"
	"writ/sal"
)

// Hosts makes directories that stand for hosts.
type Hosts interface {
	// New returns an empty directory, which is there until the test ends.
	New(t testing.TB) string
	// Replace makes to a copy of from. Nothing is under way in either.
	Replace(t testing.TB, to, from string)
}

func (e Suite) hosts() Hosts { return hostsOr(e.Hosts) }

func hostsOr(h Hosts) Hosts {
	if h == nil {
		return plain{}
	}
	return h
}

// plain are hosts that are nothing but files.
type plain struct{}

// New returns a directory in memory if the system has a place there: the suite is about processes that die, not about power cuts, and
// waiting for a busy disk would take most of its time.
func (plain) New(t testing.TB) string {
	t.Helper()
	return testenv.HomeInMemory(t, "host")
}

// OnDisk are plain hosts on a real disk. What is written to a disk in memory counts for whoever has written it, and is not given back: a process
// that is bounded, and writes its guest's memory there, is killed for it.
type OnDisk struct{ plain }

// New returns a directory on a disk. It skips the test on a machine that has its files in memory.
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
	testenv.Lack(t, "this machine has no file system on a disk: set TMPDIR to a directory on one")
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

// copyEntry copies a directory without its content, a link, or a file with its holes: disks of machines have little else.
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
		return nil // sockets and pipes mean nothing without their processes
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
