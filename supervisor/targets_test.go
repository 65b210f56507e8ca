package supervisor_test

import (
	"testing"

	"writ"
)

const cleaningScript = `
volume := import("volume")
for name in ["web-0", "data-0"] {
	volume.create(name, {size_gib: 1}).err
}
volume.delete("web-0").err
volume.delete("data-0").err
`

func TestRunDestroysOnlyNamedTargets(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.realNode("n1")
		p := s.payload(cleaningScript)
		p.Targets = []string{"herodb/data-0", "volume/web-*"}
		accepted, err := s.Submit(t.Context(), s.signPayload(p))
		if err != nil {
			t.Fatal(err)
		}
		_, calls := s.wantState(accepted.ID, writ.RunSucceeded)
		for i, want := range []writ.Code{"", "", "", writ.CodeDestructiveDenied} {
			code := writ.Code("")
			if calls[i].Error != nil {
				code = calls[i].Error.Code
			}
			if code != want {
				t.Errorf("call %d, %s %s: %+v, want %q", i+1, calls[i].Operation, calls[i].Name, calls[i].Error, want)
			}
		}
		s.wantResources("volume data-0")
	})
}
