package main

import (
	"context"
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
)

// While a run has no events, submit and run watch print why it waits and the command that ends the wait. They must do
// so within 8 s. The watches are longer, because the commands may start slowly on a loaded machine.
func TestWatcherNamesCommandThatEndsWait(t *testing.T) {
	t.Parallel()
	testenv.Nightly(t, "TestWatcherShowsWaitsWithTheirCommand, TestLookoutLooksOnlyWhileRunIsSilent")
	const timeout = "30s"
	s := testcluster.New(t)
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: testenv.Redis(t).URL, Nodes: 1, Speed: "0"})
	s.Writ("dc", "set", "dc1", "--silent-after", "3s", "--lost-after", "15s")
	const script = "machine := import(\"machine\")\nmachine.create(\"slow-600-NAME\", {cpus: 1, memory_mib: 64}, {on_loss: \"replace\"})\n"
	s.Script("machine.tengo", strings.Replace(script, "NAME", "box", 1))
	s.Script("other.tengo", strings.Replace(script, "NAME", "web", 1))
	s.Script("calm.tengo", strings.NewReplacer("slow-600-NAME", "calm", ", {on_loss: \"replace\"}", "").Replace(script))
	s.Writ("submit", "calm.tengo")
	id := s.Submit("machine.tengo", "--deployment", "web")
	// A call that has not started yet would move to another node.
	s.Until("the machine is being made", func(ctx context.Context) bool {
		calls, err := s.Client.Runs.Calls(ctx, id)
		return err == nil && len(calls) == 1 && calls[0].State == writ.CallRunning
	})
	s.Kill("dc1-n1")
	s.Until("the node is lost", func(context.Context) bool { return strings.Contains(s.Writ("node", "list"), string(writ.LivenessLost)) })

	const next, does = "next: writ node lost dc1-n1 --dc dc1", "if the machine never comes back: declares it lost"
	s.Says(0, []string{next, does}, "run", "explain", string(id))
	s.Start("logs", next, "logs", "machine/calm")
	ended := "has not ended in " + timeout
	s.Says(writ.ExitTimeout, []string{next, does, ended + "; call 1 machine.create slow-600-box: "}, "run", "watch", string(id), "--timeout", timeout)
	const again = "deployment web of project default: writ submit machine.tengo --project default --dc dc1 --deployment web"
	if _, said, code := s.Try("node", "lost", "--yes", "dc1-n1"); code != 0 || !strings.Contains(said, again) {
		t.Fatalf("node lost: exit %d, want 0 and %q\n%s", code, again, said)
	}
	s.Says(writ.ExitTimeout, []string{"… 1 machine.create slow-600-web: no node is ready", "next: writ node list", ended},
		"submit", "other.tengo", "--timeout", timeout)

	s.Kill("dc1")
	s.Says(writ.ExitTimeout, []string{"… its datacenter dc1 is away", "next: writ dc list"}, "run", "watch", string(id), "--timeout", timeout)
}
