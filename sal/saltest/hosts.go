package saltest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Hosts makes directories that stand for hosts.
type Hosts interface {
	// New returns an empty directory, which is there until the test ends.
	New(t testing.TB) string
	// Replace makes to a copy of from. Nothing is under way in either.
	Replace(t testing.TB, to, from string)
}

func (e Exam) hosts() Hosts { return hostsOr(e.Hosts) }

func hostsOr(h Hosts) Hosts {
	if h == nil {
		return plain{}
	}
	return h
}

// plain are hosts that are nothing but files.
type plain struct{}

// New returns a directory in memory if the system has a place there: the exam is about processes that die, not about power cuts, and
// waiting for a busy disk would take most of its time.
func (plain) New(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "writ-saltest-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func (plain) Replace(t testing.TB, to, from string) {
	t.Helper()
	emptyDir(t, to)
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
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
