package supervisor_test

import (
	"testing"
	"testing/synctest"
)

func TestSupervisorReportsUnreadableJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t)
		s.halt() // closes the journal
		if err := s.Supervisor.Run(t.Context()); err == nil {
			t.Error("Run returned nil with a closed journal")
		}
	})
}
