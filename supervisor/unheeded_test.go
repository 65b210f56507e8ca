package supervisor_test

import (
	"testing"
	"time"

	"writ"
	"writ/sal"
)

// slowVolume creates a volume on n1. With the driver hourly, it takes an hour.
const slowVolume = `import("volume").create("long", {size_gib: 1}, {node: "n1", timeout: "2h"})`

// withHourly starts node n1 with the driver hourly. The channel receives the end of each of its long jobs.
func withHourly(s *sim) <-chan error {
	ended := make(chan error, 1)
	s.realNode("n1", func(n *realNode) {
		n.way, n.drivers = s.queue.Attach(), []sal.Driver{hourly{simDriver{newSimHost(1), "volume"}, ended}}
	})
	return ended
}

// wantStopped fails the test unless a job of hourly is stopped within d.
func wantStopped(t *testing.T, ended <-chan error, d time.Duration) {
	t.Helper()
	select {
	case err := <-ended:
		if writ.CodeOf(err) != writ.CodeRunCancelled {
			t.Errorf("the job ended with %v", err)
		}
	case <-time.After(d):
		t.Errorf("the job is still running %s later", d)
	}
}

// Promise: Recovery: A cancel that Redis lost, or that could not be sent, stops the job once the node is reachable
// again, within 15 s if the run is still open and within two minutes afterwards.
// How: Beats name the jobs of a node. Every second, the supervisor compares them with its journal and repeats the
// orders to stop, with growing pauses.
// Also: TestUnsentWithdrawalIsRepeated, TestLostStopOrderIsRepeated.
func TestLostCancelStopsItsJob(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lose  func(s *sim, q *tap, lost bool)
		lasts time.Duration
		stops time.Duration // after the end of the fault
	}{
		{"Swallowed", func(_ *sim, q *tap, lost bool) { q.dropControls(lost) }, 5 * time.Second, 15 * time.Second},
		{"SwallowedUntilTheRunEnded", func(_ *sim, q *tap, lost bool) { q.dropControls(lost) }, 50 * time.Second, time.Minute},
		{"SwallowedForLong", func(_ *sim, q *tap, lost bool) { q.dropControls(lost) }, 20 * time.Minute, 2 * time.Minute},
		{"QueueAway", func(s *sim, _ *tap, lost bool) { s.queue.Cut(lost) }, 5 * time.Second, 15 * time.Second},
		{"QueueAwayUntilTheRunEnded", func(s *sim, _ *tap, lost bool) { s.queue.Cut(lost) }, 50 * time.Second, time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s, q := tapped(t)
				ended := withHourly(s)
				id := s.submit(slowVolume)
				s.awaitCall(id, 1, writ.CallRunning)
				tt.lose(s, q, true)
				if _, err := s.cancel(id); err != nil {
					t.Fatal(err)
				}
				time.Sleep(tt.lasts)
				tt.lose(s, q, false)
				wantStopped(t, ended, tt.stops)
				s.wantState(id, writ.RunCancelled)
			})
		})
	}
}

// A failing run lets its calls end by themselves. A cancel stops them, and no call is sent again.
func TestCancelOfFailingRunIsRepeated(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, q := tapped(t)
		ended := withHourly(s)
		id := s.submit(slowVolume + `
import("volume").create("short", {size_gib: 1}, {node: "n1"}).size_gib // takes a minute
import("run").fail("enough")
`)
		time.Sleep(2 * time.Minute)
		if run, calls := s.look(id); run.Stop == nil || calls[0].State != writ.CallRunning {
			t.Fatalf("stop of the run = %v, call is %s", run.Stop, calls[0].State)
		}
		q.dropControls(true)
		if _, err := s.cancel(id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		q.dropControls(false)
		wantStopped(t, ended, 15*time.Second)
		if s.wantState(id, writ.RunFailed); len(q.jobs()) != 2 {
			t.Errorf("%d jobs were sent, want 2", len(q.jobs()))
		}
	})
}

// The queue is unavailable while a run is cancelled whose job waits for a free slot.
func TestUnsentWithdrawalIsRepeated(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1", slowly(time.Hour), func(n *testNode) { n.slots = 1 })
		time.Sleep(2 * time.Second)
		s.awaitCall(s.submit(oneVolume), 1, writ.CallRunning)
		id := s.submit(`import("volume").create("w", {size_gib: 1})`)
		s.awaitCall(id, 1, writ.CallQueued)
		time.Sleep(time.Second)
		s.queue.Cut(true)
		began := time.Now()
		if _, err := s.cancel(id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		s.queue.Cut(false)
		_, calls := s.wantState(id, writ.RunCancelled)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("the run ended after %s, although its only job never started", took)
		}
		gone, err := s.queue.Missing(t.Context(), n.id, calls[0].Key().String()+"-1")
		if err != nil || len(gone) != 1 {
			t.Errorf("missing jobs of the queue = %v, %v; want the cancelled job", gone, err)
		}
	})
}

// A lost node returns, and the first cancel of its abandoned job is lost.
func TestAbandonedJobIsStoppedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, q := tapped(t)
		ended := make(chan error, 1)
		way := s.queue.Attach()
		s.realNode("n1", func(n *realNode) {
			n.way, n.drivers = way, []sal.Driver{hourly{simDriver{newSimHost(1), "volume"}, ended}}
		})
		id := s.submit(`
volume := import("volume")
long := volume.create("long", {size_gib: 1}, {node: "n1", timeout: "2h"})
if long.err != undefined { volume.create("short", {size_gib: 1}, {node: "n1"}) }
`)
		s.awaitCall(id, 1, writ.CallRunning)
		way.Cut(true)
		s.awaitCall(id, 1, writ.CallFailed)
		q.dropControls(true)
		way.Cut(false)
		time.Sleep(20 * time.Second)
		q.dropControls(false)
		wantStopped(t, ended, time.Minute)
		s.wantState(id, writ.RunSucceeded)
	})
}

// Each beat names a job that ignores its cancel. The cancel is repeated rarely.
func TestIgnoredCancelIsRepeatedRarely(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1", slowly(time.Hour))
		id := s.submit(slowVolume)
		s.awaitCall(id, 1, writ.CallRunning)
		if _, err := s.cancel(id); err != nil {
			t.Fatal(err)
		}
		s.wantState(id, writ.RunCancelled)
		before := n.heardControls()
		time.Sleep(30 * time.Minute)
		if heard := n.heardControls() - before; heard < 25 || heard > 40 {
			t.Errorf("the node received %d messages in 30 minutes, want one a minute", heard)
		}
	})
}
