package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/coord/api"
	"writ/internal/test/testenv"
)

// TestTheLogOfANodeIsReadFromElsewhere requests the log of a node's runner, with real processes. It includes the lines
// of a runner that was killed.
//
// Promise: Commands and hosts: `writ node logs` shows the last lines of a node, also of a killed runner, to operators
// and admins of all projects.
// How: Rings of 1 MiB in the data directory; a request in a signed control message.
// Also: TestANodeAnswersWithLinesOfItsLog, TestNodeLogIsQueried, TestEveryRoleAtEveryRoute,
// TestTheLogOfANodePassesThrough, TestTheLogOfANodeIsAPage, TestTheKeptLogOfARunnerHasNoSecret,
// TestRingFileHasTheLastLinesInFixedSize, TestAQueryFindsItsLinesInTheirOrder.
func TestTheLogOfANodeIsReadFromElsewhere(t *testing.T) {
	t.Parallel()
	s := testcluster.New(t)
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: testenv.Redis(t).URL, Nodes: 1, Speed: "0"})
	s.Says(0, []string{" runner   INFO  msg=\"the node has joined\" name=dc1-n1", "msg=serving dc="}, "node", "logs", "dc1-n1")
	s.Says(writ.ExitNotFound, []string{`has no log of "kernel"; its logs are: runner`}, "node", "logs", "dc1-n1", "--source", "kernel")
	follower := s.Start("follower", "msg=serving ", "node", "logs", "dc1-n1", "--follow", "-o", "json", "-n", "1")
	s.Kill("dc1-n1")
	s.Restart("dc1-n1")
	s.Until("lines of the next runner at a follower", func(context.Context) bool {
		return strings.Count(follower.Said(), "msg=serving ") == 2 && strings.Contains(follower.Said(), "node has joined")
	})
	if err := follower.Cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if exit, ok := errors.AsType[*exec.ExitError](follower.Wait()); !ok || exit.ExitCode() != writ.ExitInterrupted {
		t.Errorf("an interrupted follower ends with %v", exit)
	}
	var log api.NodeLog
	s.Until("the node answers with the lines of both runners", func(context.Context) bool {
		out, _, code := s.Try("node", "logs", "dc1-n1", "-o", "json", "--source", "runner", "--since", "1h")
		return code == 0 && json.Unmarshal([]byte(out), &log) == nil && strings.Count(out, "msg=serving ") == 2
	})
	for i, l := range log.Lines {
		if l.Boot != log.Boot || l.Source != "runner" || i > 0 && l.Time.Before(log.Lines[i-1].Time) {
			t.Errorf("line %d is %+v", i, l)
		}
	}
	if out := s.Writ("node", "logs", "dc1-n1", "-n", "1", "--level", "error", "-o", "json"); strings.Contains(out, `"text"`) {
		t.Errorf("unexpected error: %s", out)
	}
}
