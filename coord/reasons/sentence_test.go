package reasons

import (
	"testing"

	"writ"
)

func TestReasonBecomesASentence(t *testing.T) {
	t.Parallel()
	for why, want := range map[string]string{
		"": "",
		"is on hold (writ release --dc dc1): alice has held it": "it is on hold (writ release --dc dc1): alice has held it",
		"waits for its turn":                  "it waits for its turn",
		"takes over the volume v":             "it takes over the volume v",
		"resumed by alice":                    "it was resumed by alice",
		"no node is ready: n1: is silent":     "no node is ready: n1: is silent",
		"its node n1 is lost; the call waits": "its node n1 is lost; the call waits",
		"island is a name":                    "island is a name",
	} {
		if got := Sentence(why); got != want {
			t.Errorf("%q becomes %q, want %q", why, got, want)
		}
	}
}

func TestStateBecomesAClause(t *testing.T) {
	t.Parallel()
	for state, want := range map[writ.RunState]string{
		writ.RunSucceeded: "has succeeded", writ.RunFailed: "has failed", writ.RunExpired: "has expired", writ.RunCancelled: "was cancelled",
		"refused": "was refused", "waiting": "is waiting", writ.RunRunning: "is running",
	} {
		if got := State(state); got != want {
			t.Errorf("%s becomes %q, want %q", state, got, want)
		}
	}
}
