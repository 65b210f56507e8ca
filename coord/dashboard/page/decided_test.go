package page

import (
	"testing"
	"time"

	"writ"
)

func TestNodeShowsItsDecisions(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for want, all := range map[string][]writ.Decision{
		"": nil,
		"cordon by alice at 2026-03-01T12:00:00Z":         {{Decision: "approve", Signer: "bob", Time: at}, {Decision: "cordon", Signer: "alice", Time: at}},
		`drain by bob at 2026-03-01T12:00:00Z: a \u202eb`: {{Decision: "drain", Signer: "bob", Reason: "a \u202eb", Time: at}},
	} {
		if got := Decided(all); got != want {
			t.Errorf("Decided = %q, want %q", got, want)
		}
	}
}
