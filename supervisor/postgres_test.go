package supervisor_test

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/internal/testenv"
)

func TestMain(m *testing.M) {
	code := m.Run()
	server.Stop()
	os.Exit(code)
}

// server is the PostgreSQL of all tests of this package.
var server testenv.SharedPostgres

// inSiteOnPostgreSQL is inSite with the journal on PostgreSQL.
func inSiteOnPostgreSQL(t *testing.T, test func(t *testing.T, s *site)) {
	t.Helper()
	place := server.Store(t) // outside of the bubble: time goes on there
	synctest.Test(t, func(t *testing.T) { test(t, newSiteAt(t, place, nil)) })
}

// The journal has its own tests on both engines; this is the supervisor's way of using it.
func TestADatacenterWorksOnPostgreSQL(t *testing.T) {
	inSiteOnPostgreSQL(t, func(t *testing.T, s *site) {
		s.join("n1", slowly(3*time.Second))
		id := s.submit(webScript)
		s.awaitCall(id, 1, writ.CallQueued)
		epoch := s.Epoch()
		s.halt()
		time.Sleep(10 * time.Second) // the node finishes meanwhile
		s.start()
		if s.Epoch() <= epoch {
			t.Errorf("epoch %d after %d", s.Epoch(), epoch)
		}
		s.wantState(id, writ.RunSucceeded)
		s.wantEffects(2)
	})
}
