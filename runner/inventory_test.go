package runner_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/sal"
)

func TestNodeReportsItsPartOfRunOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(nil)
		done, works := n.job(1, "volume.create", "data", nil), n.job(3, "volume.create", "more", nil)
		n.push(done)
		n.await(done.JobKey)
		other := writ.RunIDOf(writ.DigestOf([]byte("another")))
		n.host.pause = func(ctx context.Context, _ string, _ sal.Request) error { <-ctx.Done(); return ctx.Err() }
		n.push(works)
		quiet(time.Second)
		n.tell(writ.Control{Epoch: 9, Asked: []writ.RunID{done.Run, other, done.Run}})
		quiet(time.Second)
		want := []writ.Inventory{{Run: done.Run, Epoch: 9, Calls: []int{1, 3}}, {Run: other, Epoch: 9}}
		if diff := cmp.Diff(want, n.lastBeat().Inventories); diff != "" {
			t.Error(diff)
		}
		quiet(time.Second)
		if got := n.lastBeat().Inventories; got != nil {
			t.Errorf("the next beat repeats the inventory: %+v", got)
		}
	})
}
