package supervisor_test

import (
	"fmt"
	"testing"

	"writ"
	"writ/scripts"
)

// submitLong submits a script that may make n calls.
func (s *sim) submitLong(script string, n int) writ.RunID {
	s.t.Helper()
	p := s.payload(script)
	p.MaxCalls = n
	run, err := s.Submit(s.t.Context(), s.signPayload(p))
	if err != nil {
		s.t.Fatal(err)
	}
	return run.ID
}

// mostOpen returns the maximum number of calls of a run that were open at once, by its events.
func (s *sim) mostOpen(id writ.RunID) (most int) {
	s.t.Helper()
	open := make(map[int]bool)
	for after := int64(0); ; {
		events, err := s.journal.Events(s.t.Context(), after, 1000)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range events {
			after = e.Seq
			switch {
			case e.Run != nil && e.Run.ID == id && e.Run.State.Ended():
				return most
			case e.Call == nil || e.Call.Run != id:
			case e.Call.State.Ended():
				delete(open, e.Call.Seq)
			default:
				open[e.Call.Seq] = true
				most = max(most, len(open))
			}
		}
	}
}

// Promise: Limits and shares: A run has at most 2,000 open calls, so that no step of a run is longer.
// How: A call is requested when all calls but the last 2,000 have ended. A pass then waits, as for a result.
func TestRunHasFewOpenCalls(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", func(n *testNode) { n.slots = 500 })
		const calls = scripts.MaxOpenCalls + 700
		id := s.submitLong(fmt.Sprintf("node := import(%q)\nfor i := 0; i < %d; i++ { node.ping() }\n", "node", calls), calls)
		run, all := s.wantState(id, writ.RunSucceeded)
		for i, c := range all {
			if c.Seq != i+1 || c.State != writ.CallSucceeded || c.Delivery != 1 {
				t.Fatalf("call %d is %s after %d deliveries", c.Seq, c.State, c.Delivery)
			}
		}
		if len(all) != calls || len(run.Handled) > 0 {
			t.Errorf("the run has %d calls, want %d", len(all), calls)
		}
		s.wantEffects(calls)
		if most := s.mostOpen(id); most != scripts.MaxOpenCalls {
			t.Errorf("%d calls were open at once, want %d", most, scripts.MaxOpenCalls)
		}
	})
}

// TestLongRunSurvivesRestarts restarts the supervisor several times while a run with more calls than it may have open
// waits for each of them.
func TestLongRunSurvivesRestarts(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1")
		const calls = scripts.MaxOpenCalls + 300
		script := fmt.Sprintf("node := import(%q)\nrun := import(%q)\nfor i := 0; i < %d; i++ { node.ping() }\nfor i := 0; i < 200; i++ { node.ping().err }\nrun.output({n: 1})\n", "node", "run", calls)
		id := s.submitLong(script, calls+200)
		for _, at := range []int{100, scripts.MaxOpenCalls + 10, calls + 100} {
			s.awaitCall(id, at, writ.CallSucceeded)
			s.halt()
			s.start()
		}
		run, all := s.wantState(id, writ.RunSucceeded)
		if len(all) != calls+200 || run.Output["n"] != int64(1) {
			t.Errorf("%d calls, output %v", len(all), run.Output)
		}
		s.wantEffects(calls + 200)
	})
}
