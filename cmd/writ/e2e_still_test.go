package main

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
)

// TestAPausedSupervisorDeclaresNoNodeLost stops the process for longer than the silent timeout of nodes, like a pause
// of its machine or container. It waits in real time.
func TestAPausedSupervisorDeclaresNoNodeLost(t *testing.T) {
	testenv.Nightly(t, "TestSuspendedSupervisorLosesNoNode of supervisor, in virtual time")
	s := testcluster.New(t)
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: testenv.Redis(t).URL, Nodes: 1, Speed: "0.5"})
	s.Script("long.tengo", "herodb := import(\"herodb\")\nherodb.create(\"slow-3600-db\", {memory_mib: 64}, {timeout: \"2h\"})\n")
	s.Script("ping.tengo", "node := import(\"node\")\nnode.ping()\n")
	long := s.Submit("long.tengo", "--deadline", "3h")
	running := func(ctx context.Context) bool {
		calls, err := s.Client.Runs.Calls(ctx, long)
		return err == nil && len(calls) == 1 && calls[0].State == writ.CallRunning
	}
	s.Until("the node works on the job", running)
	p := s.Procs["dc1"]
	if err := p.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(75 * time.Second)
	if err := p.Cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for range 5 { // the supervisor may receive later beats only after several scans
		s.Succeeded(s.Follow(s.Submit("ping.tengo"), 0, func() {}))
		time.Sleep(time.Second)
	}
	if !running(t.Context()) || strings.Contains(p.Said(), "node is lost") {
		t.Errorf("the job runs no more:\n%s", p.Said())
	}
}
