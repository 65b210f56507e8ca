package main

import (
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
)

// At a terminal, a user must confirm before a working node is removed or signed as lost.
func TestWorkingNodeEndsAtAPersonsCommand(t *testing.T) {
	s := testcluster.Empty(t)
	s.Start("dev", "Ctrl-C ends it", "dev", "--data", "cluster", "--listen", "127.0.0.1:0", "--nodes", "2", "--simulate-speed", "0")
	t.Setenv("WRIT_CONFIG", filepath.Join(s.Dir, "cluster", "client.yaml"))
	for _, tt := range []struct {
		decision, question, answer string
		exit                       int
		listed                     bool // afterwards
	}{
		{"remove", "remove node n1 of local permanently? [y/N] ", "n\n", writ.ExitUsage, true},
		{"lost", "sign that node n1 of local is permanently lost? [y/N] ", ctrlC, writ.ExitInterrupted, true},
		{"lost", "sign that node n1 of local is permanently lost? [y/N] ", "y\n", writ.ExitDone, false},
	} {
		at := atTerminal(t, "node", tt.decision, "n1")
		at.answer(tt.question, tt.answer)
		if exit := at.end(); exit != tt.exit || !strings.Contains(at.shown, "node n1 is ready") {
			t.Errorf("%s, answered with %q: exit %d, want %d\n%s", tt.decision, tt.answer, exit, tt.exit, at.shown)
		}
		if listed := strings.Contains(s.Writ("node", "list"), "n1"); listed != tt.listed {
			t.Errorf("%s, answered with %q: it is listed: %v", tt.decision, tt.answer, listed)
		}
	}
}
