package supervisor_test

import (
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/identity"
)

// The tests of the journal check every table. This test checks the visible effects, with both database engines.
func TestForgottenRunLeavesItsResources(t *testing.T) {
	inSim(t, testForgetting)
	inSimOnPostgreSQL(t, testForgetting)
}

func testForgetting(t *testing.T, s *sim) {
	s.halt()
	s.keep = time.Hour
	s.start()
	s.join("n1")
	revision := func(base int) []byte {
		p := s.payload(oneVolume)
		p.Deployment = identity.Deployment{Name: "web", Base: base}
		p.Expires = p.Created.Add(identity.MaxValidity)
		return s.signPayload(p)
	}
	signed := revision(0)
	first, err := s.Submit(t.Context(), signed)
	if err != nil {
		t.Fatal(err)
	}
	s.wantState(first.ID, writ.RunSucceeded)
	later := func(d time.Duration) { // with the supervisor halted, because it would scan every simulated second
		s.halt()
		s.nodes[0].setSilent(true)
		time.Sleep(d)
		s.nodes[0].setSilent(false)
		s.start()
		time.Sleep(2 * time.Minute)
	}

	later(5 * time.Hour)
	if again, err := s.Submit(t.Context(), signed); err != nil || again.ID != first.ID || again.State != writ.RunSucceeded {
		t.Errorf("repeated submission within its validity: %+v, %v", again, err)
	}
	later(49 * time.Hour)
	s.wantState(s.submit(webScript), writ.RunSucceeded) // its signing time shows that the time has passed
	later(0)
	if _, err := s.Submit(t.Context(), signed); writ.CodeOf(err) != writ.CodeExpired {
		t.Errorf("repeated submission two days later: %v, want EXPIRED", err)
	}
	if run, calls := s.look(first.ID); run != nil || len(calls) > 0 {
		t.Errorf("the run still exists: %+v, %d calls", run, len(calls))
	}
	next := s.payload(oneVolume)
	next.Deployment = identity.Deployment{Name: "web", Base: 1}
	synctest.Wait() // receive the messages of nodes
	if plan, err := s.Preview(t.Context(), s.proposal(next)); err != nil || plan.Calls[0].Action != writ.ActionUnchanged {
		t.Errorf("plan = %+v, %v; want the volume unchanged", plan.Calls, err)
	}
	if _, err := s.Submit(t.Context(), revision(0)); writ.CodeOf(err) != writ.CodeConflict {
		t.Errorf("submission against an old revision: %v, want CONFLICT", err)
	}
	second, err := s.Submit(t.Context(), revision(1))
	if err != nil {
		t.Fatal(err)
	}
	s.wantState(second.ID, writ.RunSucceeded)
	s.wantEffects(2 + 2) // each run requested the volume once, and the run between them two resources
}

// Promise: Limits and shares: A clock set far ahead causes no deletion in a journal, so no submission runs twice.
// How: The signing time of the newest submission decides.
func TestClockFarAheadDeletesNoRecord(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1")
		p := s.payload(oneVolume)
		p.Expires = p.Created.Add(identity.MaxValidity)
		signed := s.signPayload(p)
		run, err := s.Submit(t.Context(), signed)
		if err != nil {
			t.Fatal(err)
		}
		s.wantState(run.ID, writ.RunSucceeded)
		s.halt()
		s.clock.set(200 * 24 * time.Hour)
		s.start()
		time.Sleep(2 * time.Minute) // the first cleanup is one minute after the start
		s.clock.set(0)
		time.Sleep(time.Second)
		if again, err := s.Submit(t.Context(), signed); err != nil || again.State != writ.RunSucceeded {
			t.Errorf("repeated submission with the correct clock: %+v, %v", again, err)
		}
		s.wantEffects(1)
	})
}
