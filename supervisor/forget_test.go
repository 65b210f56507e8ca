package supervisor_test

import (
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/identity"
)

// Both engines: the journal's own tests look at every table; this is what people see of it.
func TestForgottenRunLeavesItsResources(t *testing.T) {
	inSim(t, forgetsAndKeeps)
	inSimOnPostgreSQL(t, forgetsAndKeeps)
}

func forgetsAndKeeps(t *testing.T, s *sim) {
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
	later := func(d time.Duration) { // without a supervisor, which would look around every second of it
		s.halt()
		s.nodes[0].setSilent(true)
		time.Sleep(d)
		s.nodes[0].setSilent(false)
		s.start()
		time.Sleep(2 * time.Minute)
	}

	later(5 * time.Hour)
	if again, err := s.Submit(t.Context(), signed); err != nil || again.ID != first.ID || again.State != writ.RunSucceeded {
		t.Errorf("within its validity, long after its end: %+v, %v", again, err)
	}
	later(49 * time.Hour)
	s.wantState(s.submit(webScript), writ.RunSucceeded) // so much time has passed, as its signature shows
	later(0)
	if _, err := s.Submit(t.Context(), signed); writ.CodeOf(err) != writ.CodeExpired {
		t.Errorf("two days later: %v", err)
	}
	if run, calls := s.look(first.ID); run != nil || len(calls) > 0 {
		t.Errorf("the run is still there: %+v, %d calls", run, len(calls))
	}
	next := s.payload(oneVolume)
	next.Deployment = identity.Deployment{Name: "web", Base: 1}
	synctest.Wait() // for what nodes say
	if plan, err := s.Preview(t.Context(), s.proposal(next)); err != nil || plan.Calls[0].Action != writ.ActionUnchanged {
		t.Errorf("the volume is planned anew: %+v, %v", plan.Calls, err)
	}
	if _, err := s.Submit(t.Context(), revision(0)); writ.CodeOf(err) != writ.CodeConflict {
		t.Errorf("against a revision that is gone: %v", err)
	}
	second, err := s.Submit(t.Context(), revision(1))
	if err != nil {
		t.Fatal(err)
	}
	s.wantState(second.ID, writ.RunSucceeded)
	s.wantEffects(2 + 2) // each asked for the volume once, and the one in between for two things
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
		time.Sleep(2 * time.Minute) // it forgets a minute after it began
		s.clock.set(0)
		time.Sleep(time.Second)
		if again, err := s.Submit(t.Context(), signed); err != nil || again.State != writ.RunSucceeded {
			t.Errorf("the same submission, when the clock is right again: %+v, %v", again, err)
		}
		s.wantEffects(1)
	})
}
