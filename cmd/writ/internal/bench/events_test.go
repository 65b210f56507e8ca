package bench

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
)

func TestEventsAreAwaitedAndCountOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEvents()
		var state writ.RunState
		done := make(chan error, 1)
		go func() {
			done <- e.await(t.Context(), func(e *events) bool {
				state = e.ended["a"]
				return state != "" && e.isReady("n1")
			})
		}()
		events := []writ.Event{
			{Seq: 1, Run: &writ.Run{ID: "a", State: writ.RunRunning}},
			{Seq: 2, Run: &writ.Run{ID: "a", State: writ.RunSucceeded}},
			{Seq: 3, Node: &writ.Node{Name: "n1", Liveness: writ.LivenessReady}},
		}
		for _, sent := range [][]writ.Event{events[:2], events} { // a sender that is unsure of delivery repeats events
			synctest.Wait()
			if len(done) > 0 {
				t.Error("it did not wait for the node")
			}
			if err := e.StoreEvents(t.Context(), "", sent); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-done; err != nil || state != writ.RunSucceeded || e.begun != 1 || e.last != 3 {
			t.Errorf("%v, run a is %q, %d begun, up to %d", err, state, e.begun, e.last)
		}
	})
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	why := errors.New("enough")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(why)
	if err := newEvents().await(ctx, func(*events) bool { return false }); !errors.Is(err, why) {
		t.Error(err)
	}
}

func TestASpreadIsWithinWhatWasMeasured(t *testing.T) {
	for _, tt := range []struct {
		times []time.Duration
		want  Spread
	}{
		{nil, Spread{}},
		{[]time.Duration{time.Second}, Spread{P50: 1, P90: 1, P99: 1, Max: 1}},
		{[]time.Duration{4 * time.Second, 1 * time.Second, 3 * time.Second, 2 * time.Second}, Spread{P50: 3, P90: 4, P99: 4, Max: 4}},
	} {
		if diff := cmp.Diff(tt.want, spreadOf(tt.times)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.times, diff)
		}
	}
}
