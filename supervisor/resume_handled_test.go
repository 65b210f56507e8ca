package supervisor_test

import (
	"testing"

	"writ"
	"writ/identity/envelope"
)

// A script that has read the error of a call and then fails by that call fails in the same way after each resume.
func TestFailureReportsHandledError(t *testing.T) {
	for name, script := range map[string]string{
		"Read":   `a := volume.create("a", {size_gib: 1}); if a.err { volume.create("b", {size_gib: 1}).uid }; a.uid`,
		"Unread": `a := volume.create("a", {size_gib: 1}); a.uid`,
	} {
		t.Run(name, func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				s.join("n1", newBreaking(map[string]int{"a": 1}).join)
				id := s.submit("volume := import(\"volume\")\n" + script)
				run, _ := s.wantRest(id, writ.RunFailed)
				if handled := name == "Read"; run.Failure.Seq != 1 || run.Failure.Handled != handled {
					t.Errorf("failure = %+v, want handled = %v", run.Failure, handled)
				}
				summaries, _, err := envelope.Open[writ.Summary](envelope.Summary, run.Summary, s.nodes[0].supervisorKey)
				if err != nil || summaries[0].Failure.Seq != 1 || summaries[0].Failure.Handled {
					t.Errorf("summary = %+v, %v; earlier clients reject a summary with a handled error", summaries, err)
				}
				if err := s.resume(id); (writ.CodeOf(err) == writ.CodeConflict) != run.Failure.Handled {
					t.Errorf("resume = %v", err)
				}
			})
		})
	}
}
