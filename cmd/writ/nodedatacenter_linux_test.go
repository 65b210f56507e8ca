package main

import (
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
)

// Only the coordinator knows the datacenter of a node, and a signed decision names it. So the user confirms it.
func TestUserConfirmsDatacenterOfNode(t *testing.T) {
	t.Parallel()
	s := testcluster.Empty(t)
	s.Start("dev", "Ctrl-C ends it", "dev", "--data", "cluster", "--listen", "127.0.0.1:0", "--dcs", "2", "--nodes", "1",
		"--simulate-speed", "0")
	if _, said, code := s.Try("node", "cordon", "dc2-n1"); code != writ.ExitUsage || !strings.Contains(said, "add --dc dc2") {
		t.Errorf("without a terminal: exit %d\n%s", code, said)
	}
	scheduling := func() string { return s.Writ("node", "list", "--dc", "dc2") }
	config := filepath.Join(s.Dir, "cluster", "client.yaml")
	for _, tt := range []struct {
		answer string
		exit   int
		said   string
	}{
		{"n\n", writ.ExitUsage, "nothing was signed"},
		{"y\n", writ.ExitDone, "signing: cordon node dc2-n1 in dc2, key SHA256:"},
	} {
		at := atTerminal(t, "node", "cordon", "dc2-n1", "--config", config)
		at.answer("sign for node dc2-n1 of dc2, where the coordinator lists it? [y/N] ", tt.answer)
		if exit := at.end(); exit != tt.exit || !strings.Contains(at.shown, tt.said) {
			t.Errorf("answered with %q: exit %d, want %d\n%s", tt.answer, exit, tt.exit, at.shown)
		}
		if cordoned := strings.Contains(scheduling(), "cordoned"); cordoned != (tt.exit == writ.ExitDone) {
			t.Errorf("answered with %q: the node is cordoned: %v", tt.answer, cordoned)
		}
	}
	at := atTerminal(t, "node", "cordon", "dc3-n1", "--config", config)
	if exit := at.end(); exit != writ.ExitUsage || strings.Contains(at.shown, "[y/N]") {
		t.Errorf("an unknown node: exit %d\n%s", exit, at.shown)
	}
}
