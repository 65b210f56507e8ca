package supervisor_test

import (
	"testing"
	"testing/synctest"
)

func TestSupervisorReportsUnreadableJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t)
		s.halt() // the journal is closed
		if err := s.Supervisor.Run(t.Context()); err == nil {
			t.Error("it ended as if all were well")
		}
	})
}
