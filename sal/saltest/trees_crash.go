package saltest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ/sal"
)

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
		var left [][]string // files after the repetition, by the step at which the call stopped
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
			left = append(left, f.files())
			f.hasSnapshots("a", c.snapshots...)
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
		for at, files := range left {
			if diff := cmp.Diff(left[len(left)-1], files); diff != "" { // the last call was not stopped
				t.Errorf("%s, stopped at step %d and repeated, leaves other files than without the stop:\n%s", c.name, at, diff)
			}
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
