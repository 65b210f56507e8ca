package runner_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/runner"
	"writ/sal"
)

// hoarder is a driver that keeps data of deleted resources.
type hoarder struct {
	*watchful
	bytes func() (int64, error)
}

func (h hoarder) RemnantBytes(context.Context) (int64, error) { return h.bytes() }

func TestNodeOffersNoDiskOfRemnants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bytes, failure := int64(5<<30+1), error(nil)
		w := &watchful{look: func(context.Context, writ.ResourceID) ([]sal.Drift, error) { return nil, nil }}
		n := newFixture(t).fresh(func(r *runner.Runner) {
			r.Capacity.DiskGiB = 10
			w.put(r)
			r.Drivers[0] = hoarder{w, func() (int64, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				return bytes, failure
			}}
		})
		offers := func(want int64) {
			t.Helper()
			quiet(time.Minute)
			if got := n.lastBeat().Capacity.DiskGiB; got != want {
				t.Errorf("of 10 GiB with %d bytes of remnants it offers %d, want %d", bytes, got, want)
			}
		}
		offers(4)
		w.change(func() { bytes, failure = 0, errors.New("the disk does not answer") })
		offers(4)
		w.change(func() { failure = nil })
		offers(10)
		w.change(func() { bytes = 20 << 30 })
		offers(0)
	})
}
