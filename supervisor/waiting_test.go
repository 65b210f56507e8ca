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

// TestReleasedResourceWakesNextRun makes many runs wait for one resource. Each run continues as soon as the previous one
// releases it, not at the next scan of the watch.
func TestReleasedResourceWakesNextRun(t *testing.T) {
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
			t.Errorf("%d sequential runs took %s: they waited for the watch", runs, took)
		}
	})
}

// leastHeap returns the minimum heap size of several samples, because work in progress adds to each sample.
func leastHeap() uint64 {
	least := uint64(math.MaxUint64)
	for range 20 {
		runtime.GC()
		runtime.GC() // frees the objects that the first collection finalized
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		least = min(least, m.HeapAlloc)
		time.Sleep(20 * time.Millisecond)
	}
	return least
}

// TestWaitingRunNeedsNoMemory checks that a waiting run keeps no program, mail or step in memory. The first thousand
// runs fill the bounded caches before the first measurement. Each further run keeps 100 to 210 bytes: the digests of
// verified texts.
//
// Promise: Speed and storage: 100,000 waiting runs need less than 300 MB in their supervisor.
// How: A run is in memory only during its step; every query about open runs has a covering index.
// Also: TestBenchWaiting, TestNoQuestionReadsMoreThanItsAnswer.
func TestWaitingRunNeedsNoMemory(t *testing.T) {
	testenv.Nightly(t, "TestBenchWaiting of cmd/writ and TestNoQuestionReadsMoreThanItsAnswer of supervisor/journal")
	const before, more, most = 1000, 4000, 400 // numbers of runs, and the limit of bytes per additional run
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
		for range 2 { // as after two minutes
			s.Trim()
		}
		return leastHeap()
	}
	first := wait(before)
	second := wait(more)
	if grown := int64(second) - int64(first); grown > more*most {
		t.Errorf("%d additional waiting runs need %d bytes each, want at most %d", more, grown/more, most)
	}
}
