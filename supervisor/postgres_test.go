package supervisor_test

import (
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/internal/test/testenv"
	"writ/scripts/evaluator"
	"writ/supervisor"
	"writ/supervisor/journal"
)

func TestMain(m *testing.M) {
	if evaluator.IsChild(os.Args) {
		os.Exit(evaluator.Main())
	}
	code := m.Run()
	server.Stop()
	os.Exit(code)
}

// server is a PostgreSQL server for all tests of this package.
var server testenv.SharedPostgres

// inSimOnPostgreSQL is inSim with the journal on PostgreSQL.
func inSimOnPostgreSQL(t *testing.T, test func(t *testing.T, s *sim)) {
	t.Helper()
	place := server.Store(t) // started outside of the bubble, in real time
	synctest.Test(t, func(t *testing.T) { test(t, newSimAt(t, place, nil)) })
}

// The journal has its own tests on both engines. This test checks a supervisor on PostgreSQL.
func TestDatacenterWorksOnPostgreSQL(t *testing.T) {
	inSimOnPostgreSQL(t, func(t *testing.T, s *sim) { restartDuringRun(t, s) })
}

// The old supervisor was suspended for longer than its lease, and a new one has taken over. The old one resumes, and
// suspended believes that it holds the lease.
func TestResumedOldSupervisorCannotWrite(t *testing.T) {
	inSimOnPostgreSQL(t, func(t *testing.T, s *sim) {
		s.join("n1", slowly(5*time.Second))
		id := s.submit(webScript)
		s.awaitCall(id, 1, writ.CallQueued)
		records, err := journal.Open(t.Context(), s.place)
		if err != nil {
			t.Fatal(err)
		}
		config := s.Config
		config.Journal = records
		if _, err := supervisor.Open(t.Context(), config, s.rosters); !errors.Is(err, journal.ErrHeld) {
			t.Fatalf("open a standby beside an active supervisor: %v, want ErrHeld", err)
		}

		if err := s.journal.Release(t.Context()); err != nil { // equals ten seconds without renewal
			t.Fatal(err)
		}
		next, err := supervisor.Open(t.Context(), config, s.rosters)
		if err != nil {
			t.Fatal(err)
		}
		if next.Epoch() <= s.Epoch() {
			t.Errorf("epoch = %d, want more than %d", next.Epoch(), s.Epoch())
		}
		if _, err := s.Submit(t.Context(), s.signPayload(s.payload("run := import(\"run\")\n"))); !errors.Is(err, journal.ErrFenced) {
			t.Errorf("submission to the old supervisor: %v, want ErrFenced", err)
		}
		if err := <-s.ended; !errors.Is(err, journal.ErrFenced) {
			t.Errorf("the old supervisor ended with %v, want ErrFenced", err)
		}
		s.stop()
		if err := s.journal.Close(); err != nil {
			t.Error(err)
		}

		s.run(next, records)
		s.wantState(id, writ.RunSucceeded)
		s.wantEffects(2)
		s.halt()
	})
}
