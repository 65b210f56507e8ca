package supervisor_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"writ"
	"writ/identity"
	"writ/internal/test/testenv"
)

// TestAResourceGoesFromHandToHand lets many runs wait for the same resource: each gets it as soon as the one before it is done with it, and
// not when the watch looks.
func TestAResourceGoesFromHandToHand(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", slowly(100*time.Millisecond))
		const runs = 40
		var ids []writ.RunID
		for i := range runs {
			ids = append(ids, s.submit(fmt.Sprintf("volume := import(%q)\nvolume.create(%q, {size_gib: 1})\n// %d\n", "volume", "v", i)))
		}
		begun := time.Now()
		for _, id := range ids {
			s.wantState(id, writ.RunSucceeded)
		}
		if took := time.Since(begun); took > runs/2*time.Second {
			t.Errorf("%d runs that follow each other took %s: they waited for the watch", runs, took)
		}
	})
}

// leastHeap is how much memory is held for good: what is under way at a moment takes some, too, so it is the least of some looks.
func leastHeap() uint64 {
	least := uint64(math.MaxUint64)
	for range 20 {
		runtime.GC()
		runtime.GC() // what the first one found to be finalized is gone after the second
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		least = min(least, m.HeapAlloc)
		time.Sleep(20 * time.Millisecond)
	}
	return least
}

// TestAWaitingRunNeedsNoMemory holds that what a run needs in memory is gone when it waits: its program, its mail and its step. What is
// bounded and not by the number of runs is there before the first measure, which takes a thousand of them. What stays is 100 to 210 bytes: the
// digests of what was verified.
//
// Promise: Speed and storage: 100,000 waiting runs need less than 300 MB in their supervisor.
// How: A run is in memory only during its step; every query about open runs has a covering index.
// Also: TestBenchWaiting, TestNoQuestionReadsMoreThanItsAnswer.
func TestAWaitingRunNeedsNoMemory(t *testing.T) {
	testenv.Nightly(t, "TestBenchWaiting of cmd/writ and TestNoQuestionReadsMoreThanItsAnswer of supervisor/journal")
	const before, more, most = 1000, 4000, 400 // runs, and bytes for each of those that are more
	s := newSim(t)
	busy := make(chan struct{})
	s.join("n1", func(n *testNode) {
		n.slots = 1
		n.act = func(context.Context, writ.Job) writ.Result {
			<-busy
			return writ.Result{Error: writ.Errorf(writ.CodeInjectedFinal, "enough")}
		}
	})
	t.Cleanup(func() { close(busy) })
	wait := func(runs int) uint64 {
		t.Helper()
		planned := make(map[writ.RunID]bool)
		for i := range runs {
			p := s.payload(fmt.Sprintf("volume := import(%q)\nv := volume.create(%q + %q, {size_gib: 1})\nv.uid\n", "volume", "v", fmt.Sprint(runs, "-", i)))
			p.Deadline = identity.MaxDeadline
			run, err := s.Submit(t.Context(), s.signPayload(p))
			if err != nil {
				t.Fatal(err)
			}
			planned[run.ID] = true
		}
		for after := int64(0); len(planned) > 0; {
			events, err := s.journal.Events(t.Context(), after, 1000)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				after = e.Seq
				if e.Call != nil {
					delete(planned, e.Call.Run)
				}
			}
		}
		return leastHeap()
	}
	first := wait(before)
	second := wait(more)
	if grown := int64(second) - int64(first); grown > more*most {
		t.Errorf("%d more runs that wait need %d bytes each, want at most %d", more, grown/more, most)
	}
}
