package supervisor_test

import (
	"testing"

	"writ"
	"writ/supervisor/link"
)

// A supervisor answers exactly the verbs that its hello names.
func TestSupervisorAnswersVerbsOfItsHello(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		for _, verb := range link.ToSupervisor {
			if _, err := s.Ask(t.Context(), verb, struct{}{}); writ.CodeOf(err) == writ.CodeVerbUnsupported {
				t.Errorf("%s: %v", verb, err)
			}
		}
		for _, verb := range []link.Verb{"", "shutdown", "Submit"} {
			if _, err := s.Ask(t.Context(), verb, struct{}{}); writ.CodeOf(err) != writ.CodeVerbUnsupported {
				t.Errorf("%q: %v, want VERB_UNSUPPORTED", verb, err)
			}
		}
	})
}
