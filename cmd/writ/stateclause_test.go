package main

import (
	"testing"

	"writ"
	"writ/cmd/writ/internal/cli"
)

func TestStateBecomesAClause(t *testing.T) {
	t.Parallel()
	for state, want := range map[writ.RunState]string{
		writ.RunSucceeded: "has succeeded", writ.RunFailed: "has failed", writ.RunExpired: "has expired",
		writ.RunCancelled: "was cancelled", "refused": "was refused", "waiting": "is waiting", writ.RunRunning: "is running",
	} {
		if got := cli.StateClause(state); got != want {
			t.Errorf("%s becomes %q, want %q", state, got, want)
		}
	}
}
