package supervisor_test

import (
	"testing"
	"time"

	"writ"
	"writ/internal/test/testenv"
)

// Promise: Limits and shares: A project has a limit of open runs; further runs are refused with the numbers before
// any record is written, and wait at their coordinator.
// How: Open runs are counted from the journal at the start and updated with each run that opens or ends.
func TestOpenRunsOfProjectAreLimited(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.halt()
		s.maxOpen = 2
		s.start()
		refused := func() {
			t.Helper()
			_, err := s.Submit(t.Context(), s.signPayload(s.payload(oneVolume)))
			if writ.CodeOf(err) != writ.CodeRateLimited || !testenv.Mentions(err.Error(), "2") {
				t.Fatalf("Submit = %v", err)
			}
		}
		first := s.submit(oneVolume) // without a node it stays open
		signed := s.signPayload(s.payload(oneVolume))
		for range 3 { // a repeated submission opens no run
			if _, err := s.Submit(t.Context(), signed); err != nil {
				t.Fatal(err)
			}
		}
		refused()
		s.halt()
		s.start()
		refused()
		if _, err := s.Submit(t.Context(), signed); err != nil {
			t.Errorf("repeated submission of an accepted run: %v", err)
		}
		if _, err := s.cancel(first); err != nil {
			t.Fatal(err)
		}
		s.wantState(first, writ.RunCancelled)
		s.submit(oneVolume)
		refused()
	})
}

func TestResumedRunCountsAsOpen(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.halt()
		s.maxOpen = 1
		s.start()
		s.join("n1", newBreaking(map[string]int{"v": 2}).join)
		id := s.submit(oneVolume)
		s.wantRest(id, writ.RunFailed)
		s.mustResume(id, writ.RunFailed)
		s.nodes[0].setSilent(true)
		time.Sleep(10 * time.Second)
		if err := s.resume(id); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Submit(t.Context(), s.signPayload(s.payload(oneVolume))); writ.CodeOf(err) != writ.CodeRateLimited {
			t.Errorf("Submit = %v", err)
		}
	})
}

// The fan-out of one script may exceed the limit. Open runs may add calls; otherwise they could wait for each other
// forever.
//
// Promise: Limits and shares: A project with too many open calls gets no new run, while its open runs continue with
// any number of calls.
// How: Open calls are counted as open runs are.
func TestCallLimitRefusesOnlyNewRuns(t *testing.T) {
	const fanOut = `
volume := import("volume")
for i := 0; i < 5; i++ { volume.create("v-" + i, {size_gib: 1}) }
`
	inSim(t, func(t *testing.T, s *sim) {
		s.halt()
		s.maxCalls = 3
		s.start()
		signed := s.signPayload(s.payload(oneVolume))
		refused := func(numbers ...string) {
			t.Helper()
			_, err := s.Submit(t.Context(), signed)
			if writ.CodeOf(err) != writ.CodeRateLimited || !testenv.Mentions(err.Error(), numbers...) {
				t.Fatalf("Submit = %v, want %q", err, numbers)
			}
		}
		id := s.submit(fanOut) // without a node its calls stay open
		time.Sleep(time.Second)
		refused("5", "3", "200")
		s.halt()
		s.start()
		refused("5")
		s.join("n1")
		s.wantState(id, writ.RunSucceeded)
		s.wantEffects(5)
		if _, err := s.Submit(t.Context(), signed); err != nil {
			t.Errorf("submission after all calls have ended: %v", err)
		}
	})
}
