package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"writ"
	"writ/internal/test/testenv"
)

// TestLoadsEqualCountedCalls makes random changes to calls and resources, several per transaction, some of which
// roll back, and compares the loads with a count.
func TestLoadsEqualCountedCalls(t *testing.T) {
	testenv.CheckProperty(t, func(r *rapid.T) {
		j, err := Open(t.Context(), ":memory:")
		if err != nil {
			r.Fatal(err)
		}
		defer j.Close()
		if err := j.Write(t.Context(), func(tx *Tx) error {
			_, _, err := tx.AddRun(&Run{Run: writ.Run{ID: "r", State: writ.RunAccepted}}, 1, []byte("signed"))
			return err
		}); err != nil {
			r.Fatal(err)
		}
		nodes := rapid.SampledFrom([]writ.NodeID{"", "n1", "n2"})
		capacity := rapid.Custom(func(r *rapid.T) writ.Capacity {
			return writ.Capacity{CPUs: rapid.Int64Range(0, 3).Draw(r, "cpus"), Hundredths: rapid.Int64Range(0, 99).Draw(r, "hundredths"), DiskGiB: rapid.Int64Range(0, 3).Draw(r, "disk")}
		})
		for range rapid.IntRange(1, 6).Draw(r, "transactions") {
			undone := rapid.Bool().Draw(r, "undone")
			err := j.Write(t.Context(), func(tx *Tx) error {
				for seq := 1; seq <= 3; seq++ { // a call is written once per transaction
					if err := changeCall(r, tx, seq, nodes.Draw(r, "node"), capacity.Draw(r, "need")); err != nil {
						return err
					}
					id := writ.ResourceID{Project: "p", Kind: writ.KindVolume, Name: rapid.SampledFrom([]string{"a", "b"}).Draw(r, "name")}
					if err := changeResource(r, tx, id, nodes.Draw(r, "home"), capacity.Draw(r, "uses")); err != nil {
						return err
					}
				}
				if got, want := loadsOf(r, tx), counted(r, tx); !cmp.Equal(got, want) {
					r.Errorf("inside the transaction (-want +got):\n%s", cmp.Diff(want, got))
				}
				if undone {
					return context.Canceled
				}
				return nil
			})
			if (err != nil) != undone {
				r.Fatal(err)
			}
			if err := j.Read(t.Context(), func(tx *Tx) error {
				if got, want := loadsOf(r, tx), counted(r, tx); !cmp.Equal(got, want) {
					r.Errorf("after the commit (-want +got):\n%s", cmp.Diff(want, got))
				}
				return nil
			}); err != nil {
				r.Fatal(err)
			}
		}
	})
}

func changeCall(r *rapid.T, tx *Tx, seq int, node writ.NodeID, need writ.Capacity) error {
	calls, err := tx.calls(`SELECT place, body FROM calls WHERE run = 'r' AND seq = $1`, seq)
	if err != nil || rapid.Bool().Draw(r, "skip") {
		return err
	}
	c := &Call{Call: writ.Call{Run: "r", Seq: seq, Planned: time.Now()}}
	if len(calls) > 0 {
		c = calls[0]
	}
	c.State = rapid.SampledFrom([]writ.CallState{writ.CallPlanned, writ.CallQueued, writ.CallRunning, writ.CallSucceeded}).Draw(r, "state")
	c.Node, c.Need = node, need
	return tx.PutCall(c)
}

func changeResource(r *rapid.T, tx *Tx, id writ.ResourceID, node writ.NodeID, need writ.Capacity) error {
	if rapid.Bool().Draw(r, "remove") {
		return tx.RemoveResource(id)
	}
	return tx.PutResource(&Resource{Resource: writ.Resource{ResourceID: id, Node: node}, Need: need})
}

func loadsOf(r *rapid.T, tx *Tx) map[writ.NodeID]Load {
	all, err := tx.Loads()
	if err != nil {
		r.Fatal(err)
	}
	all = maps.Clone(all)
	for node, l := range all {
		one, err := tx.Load(node)
		if err != nil || one != l {
			r.Errorf("Load(%q) = %+v, %v; Loads has %+v", node, one, err, l)
		}
		if l == (Load{}) {
			delete(all, node)
		}
	}
	return all
}

// counted returns the expected loads.
func counted(r *rapid.T, tx *Tx) map[writ.NodeID]Load {
	all := make(map[writ.NodeID]Load)
	calls, err := tx.calls(`SELECT place, body FROM calls WHERE open`)
	if err != nil {
		r.Fatal(err)
	}
	for _, c := range calls {
		all[c.Node] = all[c.Node].plus(c.kept().load())
	}
	resources, err := tx.Resources()
	if err != nil {
		r.Fatal(err)
	}
	for _, res := range resources {
		all[res.Node] = all[res.Node].plus(res.load())
	}
	for node, l := range all {
		if l == (Load{}) {
			delete(all, node)
		}
	}
	return all
}

// The loads in memory are those on disk, whichever changes share a commit and whichever fail.
func TestKeptLoadsAreThoseOnDisk(t *testing.T) {
	j, err := Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if _, err := j.BeginEpoch(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	change := func(tx *Tx, draw *rand.Rand, worker int) error {
		if draw.IntN(2) == 0 {
			if _, err := tx.Loads(); err != nil {
				return err
			}
		}
		for range draw.IntN(3) {
			id := writ.ResourceID{Project: "p", Kind: writ.KindVolume, Name: fmt.Sprintf("%d-%d", worker, draw.IntN(3))}
			node := writ.NodeID(fmt.Sprint("n", draw.IntN(4)))
			err := tx.PutResource(&Resource{Resource: writ.Resource{ResourceID: id, Node: node}, Need: writ.Capacity{DiskGiB: draw.Int64N(5)}})
			if err != nil {
				return err
			}
		}
		if draw.IntN(8) == 0 {
			return refused
		}
		return nil
	}
	for round := range 10 {
		var group sync.WaitGroup
		for worker := range 8 {
			group.Go(func() {
				draw := rand.New(rand.NewPCG(uint64(round), uint64(worker)))
				for range 10 {
					seed := draw.Uint64()
					err := j.Write(t.Context(), func(tx *Tx) error { return change(tx, rand.New(rand.NewPCG(seed, 0)), worker) })
					if err != nil && !errors.Is(err, refused) {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		err := j.Write(t.Context(), func(tx *Tx) error {
			kept, err := tx.Loads()
			if err != nil {
				return err
			}
			stored, err := tx.readLoads("")
			if diff := cmp.Diff(stored, kept); diff != "" {
				t.Errorf("round %d (-on disk +kept):\n%s", round, diff)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if j.loads.loads == nil {
			t.Error("no loads are kept")
		}
	}
}
