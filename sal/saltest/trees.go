package saltest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
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

// holds checks the content of a tree. It does not change the bound, because no tree here has a smaller one.
func (f *forest) holds(when, name, want string) {
	f.Helper()
	text, err := os.ReadFile(filepath.Join(f.make(name, mib), "nested", "file"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) || string(text) != want {
		f.Errorf("%s: content %q, want %q, %v", when, text, want, err)
	}
}

func (f *forest) lists(want ...string) {
	f.Helper()
	if all, err := f.List(f.Context()); err != nil || !slices.Equal(all, want) {
		f.Errorf("listed %q, want %q, %v", all, want, err)
	}
}

func (f *forest) checkNoSecret(name string, want ...string) {
	f.Helper()
	if all, err := f.Snapshots(f.Context(), name); err != nil || !slices.Equal(all, want) {
		f.Errorf("%s has the snapshots %q, want %q, %v", name, all, want, err)
	}
}

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
	f.checkNoSecret("a")
	f.write(dir, "first")
	f.must(f.Snapshot(ctx, "a", "one"))
	f.write(dir, "second")
	f.must(f.Snapshot(ctx, "a", "two"))
	f.must(f.Snapshot(ctx, "a", "one")) // must stay unchanged
	f.write(dir, "third")
	f.restart(nil)
	f.checkNoSecret("a", "one", "two")
	for _, back := range []struct{ snapshot, want string }{{"one", "first"}, {"two", "second"}, {"one", "first"}} {
		f.must(f.Restore(ctx, "a", back.snapshot))
		f.holds("put back to "+back.snapshot, "a", back.want)
		f.write(f.make("a", 0), "later")
		f.holds("then written", "a", "later")
	}
	f.must(f.RemoveSnapshot(ctx, "a", "one"))
	f.must(f.RemoveSnapshot(ctx, "a", "one"))
	f.checkNoSecret("a", "two")
	f.must(f.Restore(ctx, "a", "two"))
	f.holds("put back", "a", "second")
	f.must(f.Remove(ctx, "a"))
	f.checkNoSecret("a")
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
	f.checkNoSecret("none")
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

// repeats stops every call at each of its steps, like SIGKILL, and repeats it with new trees on the same host.
func (e TreesSuite) repeats(t *testing.T) {
	release := make(chan struct{})
	var dead sync.WaitGroup
	t.Cleanup(func() {
		close(release)
		dead.Wait()
	})
	hosts, f := hostsOr(e.Hosts), e.forest(t)
	saved := hosts.New(t)
	tried := 0
	for _, c := range treeCalls {
		hosts.Replace(t, saved, f.host)
		for at, reached := 0, true; reached; at++ {
			hosts.Replace(t, f.host, saved)
			stopped, finished, steps := make(chan struct{}), make(chan error, 1), 0
			f.restart(func(string) {
				if steps == at {
					close(stopped)
					<-release // blocked until the test ends
					runtime.Goexit()
				}
				steps++
			})
			ctx, interrupted := context.WithoutCancel(t.Context()), f.Trees
			dead.Go(func() { finished <- c.do(ctx, interrupted) })
			select {
			case <-stopped:
				tried++
			case err := <-finished:
				f.must(err)
				reached = false
			}
			f.restart(nil)
			if err := c.do(t.Context(), f); err != nil {
				t.Fatalf("%s, stopped at step %d, cannot be repeated: %v", c.name, at, err)
			}
			f.checkNoSecret("a", c.snapshots...)
			if c.gone {
				f.lists()
				continue
			}
			when := fmt.Sprintf("after %s, stopped at step %d", c.name, at)
			if drift, err := f.Keep(t.Context(), "a", sal.Bound{Bytes: 64 * mib}); err != nil || len(drift) > 0 {
				t.Errorf("%s: drift %+v, %v", when, drift, err)
			}
			f.holds(when, "a", c.want)
			f.write(f.make("a", 64*mib), c.after)
		}
	}
	t.Logf("stopped %d times", tried)
}

// treeCalls lists calls in a valid order, with the content of the tree after each call and the text that is written
// next.
var treeCalls = []struct {
	name        string
	do          func(ctx context.Context, trees sal.Trees) error
	want, after string
	snapshots   []string
	gone        bool
}{
	{name: "make", after: "first", do: func(ctx context.Context, trees sal.Trees) error {
		_, err := trees.Make(ctx, "a", sal.Bound{Bytes: 64 * mib})
		return err
	}},
	{name: "snapshot", want: "first", after: "second", snapshots: []string{"one"}, do: func(ctx context.Context,
		trees sal.Trees) error {
		return trees.Snapshot(ctx, "a", "one")
	}},
	{name: "another snapshot", want: "second", after: "third", snapshots: []string{"one", "two"},
		do: func(ctx context.Context, trees sal.Trees) error {
			return trees.Snapshot(ctx, "a", "two")
		}},
	{name: "restore", want: "first", after: "fourth", snapshots: []string{"one", "two"}, do: func(ctx context.Context,
		trees sal.Trees) error {
		return trees.Restore(ctx, "a", "one")
	}},
	{name: "remove a snapshot", want: "fourth", after: "fifth", snapshots: []string{"two"},
		do: func(ctx context.Context, trees sal.Trees) error {
			return trees.RemoveSnapshot(ctx, "a", "one")
		}},
	{name: "remove", gone: true, do: func(ctx context.Context,
		trees sal.Trees) error {
		return trees.Remove(ctx, "a")
	}},
}
