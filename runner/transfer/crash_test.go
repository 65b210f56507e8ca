package transfer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/sal/btrfs/btrfstest"
	"writ/sal/saltest"
)

// crash is the panic value of a driver that stops.
type crash struct{}

// crashAt stops a node at step number at, counted from now: it makes no later changes and sends no messages.
func (n *node) crashAt(at int64) {
	var steps atomic.Int64
	n.onStep = func() {
		if steps.Add(1) > at {
			n.dead.Store(true)
			panic(crash{})
		}
	}
}

// copied copies the volume "data". It makes no copy if the node crashes.
func (n *node) copied(from *node, name string) (err error) {
	n.Helper()
	defer func() {
		if p := recover(); p == (crash{}) {
			err = errors.New("the node crashed")
		} else if p != nil {
			panic(p)
		}
	}()
	_, err = n.do(n.Context(), "volume.copy", name, copies("data"), n.origin(from, "data", func(w *writ.TransferGrant) { w.Transfer = name }))
	return err
}

// Each of the two nodes crashes before each single change of its disk for a copy. After a restart, the same copy
// succeeds and no other data is left on either node. If the giving node crashed after the copy was complete, its data
// is deleted when it expires.
func TestACopyOutlivesACrashAtEachStepOfEitherEnd(t *testing.T) {
	t.Parallel()
	for kind, trees := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if kind == "btrfs" {
				dir = btrfstest.NewHosts(t).New(t)
			}
			s := &fixture{supervisor: newKey()}
			from, to := s.node(t, "n1", filepath.Join(dir, "n1"), trees), s.node(t, "n2", filepath.Join(dir, "n2"), trees)
			values, err := from.do(t.Context(), "volume.create", "data", map[string]any{"size_gib": int64(1)}, nil)
			must(t, err)
			must(t, os.WriteFile(filepath.Join(values["path"].(string), "file"), []byte("little"), 0o640))
			want := from.shape("data")
			for _, victim := range []*node{from, to} {
				at := int64(0)
				for reached := true; reached; at++ {
					name := fmt.Sprintf("copy-%s-%d", victim.name, at)
					from.restart()
					to.restart()
					from.give(nil)
					victim.crashAt(at)
					first := to.copied(from, name)
					if reached = victim.dead.Load(); !reached {
						must(t, first)
					}
					from.restart()
					to.restart()
					from.give(nil)
					if err := to.copied(from, name); err != nil {
						t.Fatalf("after a crash of %s at step %d: %v", victim.name, at, err)
					}
					if diff := cmp.Diff(want, to.shape(name)); diff != "" {
						t.Fatalf("after a crash of %s at step %d the copy (+) differs:\n%s", victim.name, at, diff)
					}
					if first == nil && reached { // the release failed, and is not repeated
						from.driver.Now = func() time.Time { return time.Now().Add(3 * time.Hour) }
					}
					_, err := from.driver.Keep(t.Context(), saltest.Resource(writ.KindVolume, "data"))
					must(t, err)
					_, err = to.driver.Keep(t.Context(), saltest.Resource(writ.KindVolume, name))
					must(t, err)
					from.clean()
					to.clean()
					_, err = to.do(t.Context(), "volume.delete", name, nil, nil)
					must(t, err)
					if t.Failed() {
						t.Fatalf("that is after a crash of %s at step %d", victim.name, at)
					}
				}
				if at < 5 {
					t.Errorf("%s has %d steps", victim.name, at)
				}
			}
		})
	}
}
