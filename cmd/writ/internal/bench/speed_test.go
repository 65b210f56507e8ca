package bench

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ/cmd/writ/internal/bench/peer"
)

func TestOrdersAreDrivenWithAsManyRunsInFlightAsTheySay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		took, err := peer.Drive(t.Context(), peer.Order{Runs: 10, InFlight: 4}, func(context.Context, int) error {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Second)
			now.Add(-1)
			return nil
		})
		if err != nil || took.All != 3*time.Second || len(took.Runs) != 10 || most.Load() != 4 {
			t.Errorf("%v, %v, %d at a time", err, took, most.Load())
		}
		for i, one := range took.Runs {
			if one != time.Second {
				t.Errorf("run %d took %v", i, one)
			}
		}
	})
}

func TestASlowSystemIsHandedInFewerRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		took, err := peer.Drive(t.Context(), peer.Order{Runs: 1000, InFlight: 2, Within: 2500 * time.Millisecond}, func(context.Context, int) error {
			time.Sleep(time.Second)
			return nil
		})
		if err != nil || took.All != 3*time.Second || len(took.Runs) != 6 {
			t.Errorf("%v, %d runs in %v", err, len(took.Runs), took.All)
		}
	})
}

func TestAnOrderEndsWithItsFirstFailure(t *testing.T) {
	wrong := errors.New("wrong")
	var handedIn int
	_, err := peer.Drive(t.Context(), peer.Order{Runs: 10, InFlight: 1}, func(_ context.Context, i int) error {
		handedIn++
		if i == 2 {
			return wrong
		}
		return nil
	})
	if !errors.Is(err, wrong) || handedIn != 3 {
		t.Errorf("%v after %d runs", err, handedIn)
	}
}

func TestFiguresAreMediansOfRounds(t *testing.T) {
	o := peer.Order{Runs: 2, InFlight: 2, Calls: 5}
	round := func(all time.Duration, supervisor, redis time.Duration) sample {
		return sample{peer.Took{All: all, Runs: []time.Duration{all / 2, all}}, map[string]time.Duration{"supervisor": supervisor, "redis": redis}}
	}
	got := figuresOf(o, []sample{
		round(2*time.Second, 30*time.Millisecond, 10*time.Millisecond),
		round(1*time.Second, 20*time.Millisecond, 20*time.Millisecond),
		round(10*time.Second, 90*time.Millisecond, 0),
	})
	want := Figures{
		Runs: 6, InFlight: 2, Calls: 5, RunsPerSecond: 1, CallsPerSecond: 5, CPUPerCall: 4000,
		CPUOf: map[string]float64{"supervisor": 3000, "redis": 1000}, Time: Spread{P50: 2, P90: 10, P99: 10, Max: 10},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRatiosComparePerRound(t *testing.T) {
	rounds := func(all ...time.Duration) (samples []sample) {
		for _, d := range all {
			samples = append(samples, sample{took: peer.Took{All: d, Runs: make([]time.Duration, 5)}})
		}
		return samples
	}
	// The machine was ten times slower in the second round, for both systems.
	if got := ratio(peer.Order{Calls: 1}, rounds(2, 20, 4), rounds(1, 10, 1)); got != 0.5 {
		t.Errorf("%v", got)
	}
}
