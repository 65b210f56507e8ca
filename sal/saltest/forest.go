package saltest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"writ"
	"writ/sal"
)

// forest is a host with trees under test.
type forest struct {
	testing.TB
	suite TreesSuite
	host  string
	sal.Trees
}

func (e TreesSuite) forest(t testing.TB) *forest {
	f := &forest{TB: t, suite: e, host: hostsOr(e.Hosts).New(t)}
	f.restart(nil)
	return f
}

func (f *forest) restart(step func(string)) {
	if step == nil {
		step = func(string) {}
	}
	f.Trees = f.suite.Open(f, f.host, step)
}

func (f *forest) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatalf("%s: %v", writ.CodeOf(err), err)
	}
}

func (f *forest) make(name string, size int64) string {
	f.Helper()
	dir, err := f.Make(f.Context(), name, sal.Bound{Bytes: size})
	f.must(err)
	return dir
}

func (f *forest) write(dir, text string) {
	f.Helper()
	f.must(os.MkdirAll(filepath.Join(dir, "nested"), 0o755))
	f.must(os.WriteFile(filepath.Join(dir, "nested", "file"), []byte(text), 0o640))
}

// holds checks the content of a tree. It gets the directory with make, which does not shrink the tree.
func (f *forest) holds(when, name, want string) {
	f.Helper()
	text, err := os.ReadFile(filepath.Join(f.make(name, mib), "nested", "file"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) || string(text) != want {
		f.Errorf("%s: content %q, want %q, %v", when, text, want, err)
	}
}

// files returns the sorted paths of all files and directories on the host.
func (f *forest) files() (all []string) {
	f.Helper()
	f.must(filepath.WalkDir(f.host, func(path string, _ fs.DirEntry, err error) error {
		all = append(all, path)
		return err
	}))
	return all
}

func (f *forest) lists(want ...string) {
	f.Helper()
	if all, err := f.List(f.Context()); err != nil || !slices.Equal(all, want) {
		f.Errorf("listed %q, want %q, %v", all, want, err)
	}
}

func (f *forest) hasSnapshots(name string, want ...string) {
	f.Helper()
	if all, err := f.Snapshots(f.Context(), name); err != nil || !slices.Equal(all, want) {
		f.Errorf("%s has the snapshots %q, want %q, %v", name, all, want, err)
	}
}
