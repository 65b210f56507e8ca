package saltest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"writ"
	"writ/sal"
)

// TreesSuite describes the tests for an implementation of sal.Trees.
type TreesSuite struct {
	// Open returns the trees on a host, as Suite.Open does.
	Open func(t testing.TB, host string, step func(name string)) sal.Trees
	// Hosts is as in Suite.
	Hosts Hosts
}

// RunTrees tests the trees. Every part is a subtest.
func RunTrees(t *testing.T, e TreesSuite) {
	t.Run("MakesATreeOnce", e.makesOnce)
	t.Run("KeepsAndRestores", e.keepsAndRestores)
	t.Run("KnowsNothingThatIsNotThere", e.knowsNothing)
	t.Run("RefusesNamesThatLeadElsewhere", e.refusesNames)
	t.Run("ClonesAFile", e.clones)
	t.Run("WorksOnManyAtOnce", e.manyAtOnce)
	t.Run("StopsWhenTheContextEnds", e.stops)
	t.Run("GoesOnAfterACrashAnywhere", e.repeats)
}

const mib = 1 << 20

func (e TreesSuite) makesOnce(t *testing.T) {
	f := e.forest(t)
	f.lists()
	dir := f.make("b", 64*mib)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() || !filepath.IsAbs(dir) {
		t.Fatalf("not a directory: %v, %v", dir, err)
	}
	f.write(dir, "text")
	f.restart(nil)
	for _, size := range []int64{64 * mib, mib, 128 * mib, 0} {
		if again := f.make("b", size); again != dir {
			t.Errorf("the repeated call returned %s instead of %s", again, dir)
		}
	}
	f.make("a", 0)
	f.holds("asked again", "b", "text")
	f.lists("a", "b")
	f.must(f.Remove(t.Context(), "b"))
	f.must(f.Remove(t.Context(), "b"))
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the tree exists after its removal: %v", err)
	}
	f.lists("a")
	f.make("b", mib)
	f.holds("made anew", "b", "")
}

func (e TreesSuite) keepsAndRestores(t *testing.T) {
	f := e.forest(t)
	ctx := t.Context()
	dir := f.make("a", 64*mib)
	f.hasSnapshots("a")
	f.write(dir, "first")
	f.must(f.Snapshot(ctx, "a", "one"))
	f.write(dir, "second")
	f.must(f.Snapshot(ctx, "a", "two"))
	f.must(f.Snapshot(ctx, "a", "one")) // must stay unchanged
	f.write(dir, "third")
	f.restart(nil)
	f.hasSnapshots("a", "one", "two")
	for _, back := range []struct{ snapshot, want string }{{"one", "first"}, {"two", "second"}, {"one", "first"}} {
		f.must(f.Restore(ctx, "a", back.snapshot))
		f.holds("put back to "+back.snapshot, "a", back.want)
		f.write(f.make("a", 0), "later")
		f.holds("then written", "a", "later")
	}
	f.must(f.RemoveSnapshot(ctx, "a", "one"))
	f.must(f.RemoveSnapshot(ctx, "a", "one"))
	f.hasSnapshots("a", "two")
	f.must(f.Restore(ctx, "a", "two"))
	f.holds("put back", "a", "second")
	f.must(f.Remove(ctx, "a"))
	f.hasSnapshots("a")
	f.lists()
}

func (e TreesSuite) knowsNothing(t *testing.T) {
	f := e.forest(t)
	ctx := t.Context()
	refuse := func(what string, err error) {
		t.Helper()
		if writ.CodeOf(err) != writ.CodeResourceUnknown {
			t.Errorf("%s: %v, want %s", what, err, writ.CodeResourceUnknown)
		}
	}
	refuse("a snapshot of no tree", f.Snapshot(ctx, "a", "one"))
	refuse("restoring no tree", f.Restore(ctx, "a", "one"))
	f.make("a", mib)
	refuse("restoring no snapshot", f.Restore(ctx, "a", "one"))
	f.hasSnapshots("none")
	f.must(f.RemoveSnapshot(ctx, "none", "one"))
	f.must(f.Remove(ctx, "none"))
	f.lists("a")
}

func (e TreesSuite) refusesNames(t *testing.T) {
	f := e.forest(t)
	for _, name := range []string{"", ".", "..", "../a", "a/b", "/a"} {
		_, made := f.Make(t.Context(), name, sal.Bound{})
		for what, err := range map[string]error{
			"make": made, "remove": f.Remove(t.Context(), name), "snapshot": f.Snapshot(t.Context(), "a", name),
		} {
			if writ.CodeOf(err) == writ.CodeInternal || err == nil {
				t.Errorf("%s %q: %v", what, name, err)
			}
		}
	}
	f.lists()
}

func (e TreesSuite) clones(t *testing.T) {
	f := e.forest(t)
	images, dir := f.make("images", 0), f.make("a", 64*mib)
	from := filepath.Join(images, "image")
	f.must(os.WriteFile(from, []byte("a disk"), 0o600))
	f.must(os.Truncate(from, mib)) // a hole
	f.must(os.Chmod(from, 0o400))
	for size, want := range map[int64]int64{0: mib, 4 * mib: 4 * mib} {
		to := filepath.Join(dir, fmt.Sprint("disk-", size))
		f.must(f.Clone(t.Context(), from, to, size))
		text, err := os.ReadFile(to)
		if err != nil || int64(len(text)) != want || string(text[:6]) != "a disk" || slices.Max(text[6:]) != 0 {
			t.Errorf("the clone of %d bytes has %d, %v", size, len(text), err)
		}
		f.must(os.WriteFile(to, []byte("own"), 0))
	}
	if text, _ := os.ReadFile(from); string(text[:6]) != "a disk" {
		t.Error("writing the clone changed the original")
	}
	if err := f.Clone(t.Context(), from, filepath.Join(dir, "disk-0"),
		0); writ.CodeOf(err) != writ.CodeResourceConflict {
		t.Errorf("a clone over a file: %v", err)
	}
	if err := f.Clone(t.Context(), from+"-none", filepath.Join(dir, "none"),
		0); writ.CodeOf(err) != writ.CodeDriverFailed {
		t.Errorf("a clone of a missing file: %v", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("the tree has %v, %v", left, err)
	}
}

func (e TreesSuite) manyAtOnce(t *testing.T) {
	f := e.forest(t)
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			name := fmt.Sprint("tree-", i)
			for range 2 {
				dir, err := f.Make(t.Context(), name, sal.Bound{Bytes: mib})
				err = errors.Join(err, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
				if err := errors.Join(err, f.Snapshot(t.Context(), name, "s"), f.Restore(t.Context(), name, "s"),
					f.Remove(t.Context(), name)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	f.lists()
}

func (e TreesSuite) stops(t *testing.T) {
	f := e.forest(t)
	f.make("a", mib)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, made := f.Make(ctx, "b", sal.Bound{Bytes: mib})
	for what, err := range map[string]error{
		"make": made, "snapshot": f.Snapshot(ctx, "a", "one"), "restore": f.Restore(ctx, "a", "one"),
		"remove": f.Remove(ctx, "a"),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s ignored its ended context: %v", what, err)
		}
	}
	f.lists("a")
}
