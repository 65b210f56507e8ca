package supervisor_test

import (
	"testing"

	"writ/identity"
)

// The events of a run contain this mark, because a coordinator may not have the submission.
func TestRunHasTheMarkOfLogReaders(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		for name, tt := range map[string]struct {
			change func(p *identity.Payload)
			want   bool
		}{
			"Reader": {func(p *identity.Payload) { p.Allow = []string{"container.logs"} }, true},
			"Other":  {func(*identity.Payload) {}, false},
		} {
			p := s.payload("import(\"run\").log(\"hello\")\n")
			tt.change(p)
			run, err := s.Submit(t.Context(), s.signPayload(p))
			if err != nil || run.LogsOnly != tt.want {
				t.Errorf("%s: %+v, %v", name, run, err)
			}
		}
	})
}
