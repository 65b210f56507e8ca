package supervisor_test

import (
	"testing"
	"time"

	"writ"
)

// Promise: Nodes and Redis: A node that has not begun with a run gets no script of it after its end.
// How: The node API returns no payload of an ended run, so a copied job of it fails.
func TestEndedRunsHaveNoPayload(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", slowly(20*time.Minute))
		run, err := s.Submit(t.Context(), s.signPayload(s.payload(webScript)))
		if err != nil {
			t.Fatal(err)
		}
		id := run.ID
		s.awaitCall(id, 1, writ.CallRunning)
		if _, err := s.Payload(t.Context(), run.Payload); err != nil {
			t.Errorf("payload of an open run: %v", err)
		}
		if _, err := s.Decide(t.Context(), s.sign(s.statement("run/"+string(id), "cancel"))); err != nil {
			t.Fatal(err)
		}
		s.wantState(id, writ.RunCancelled)
		if _, err := s.Payload(t.Context(), run.Payload); writ.CodeOf(err) != writ.CodeRunCancelled {
			t.Errorf("payload of a cancelled run: %v, want RUN_CANCELLED", err)
		}
	})
}
