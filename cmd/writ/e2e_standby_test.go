package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
)

// TestAStandbyTakesOver kills the active one of two supervisors in the middle of a run, and pauses its successor in the
// middle of the next run until the first serves again. At the end a supervisor starts while PostgreSQL is down, and
// waits for it.
//
// Promise: Failures: A standby takes over when the supervisor of a datacenter is killed or frozen, and each effect
// happens once.
// How: A lease of 10 s in the journal, by PostgreSQL's clock, renewed every 3 s. It ends early if the connections of its
// holder are closed.
// Also: TestALeaseHasOneHolder, TestLeaseOfAKilledProcessEndsEarly, TestALeaseEndsSoonEnoughForAStandby.
func TestAStandbyTakesOver(t *testing.T) {
	t.Parallel()
	testenv.Nightly(t, "TestALeaseHasOneHolder and TestOnlyLeaseHolderWrites of supervisor/journal")
	database := testenv.Postgres(t)
	broker := testenv.Redis(t)
	s := testcluster.New(t, "WRIT_JOURNAL="+database.Store())
	first, second := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t)), fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: broker.URL, Nodes: 1, Speed: "0.5", Listen: first, NodeURL: "http://" + first + ",http://" + second})
	s.Script("steps.tengo", steps)
	if err := os.CopyFS(filepath.Join(s.Dir, "dc1b"), os.DirFS(filepath.Join(s.Dir, "dc1"))); err != nil { // key and rosters
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(s.Dir, "dc1b", "supervisor.key"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Start("dc1b", "stands by", "supervisor", "--data", "dc1b", "--dc", "dc1", "--coordinator", s.URL, "--redis", broker.URL, "--listen", second)

	var since time.Time
	id := s.Submit("steps.tengo", "-p", "name=killed")
	run := s.Follow(id, 3, func() {
		s.Kill("dc1")
		since = time.Now()
		s.Await(s.Procs["dc1b"], "is listening")
		t.Logf("the standby serves %v after the kill", time.Since(since))
	})
	s.Succeeded(run)
	s.OnceEach(id, stepCount, "dc1-n1")

	s.Start("dc1", "stands by", "supervisor", "--data", "dc1", "--dc", "dc1", "--coordinator", s.URL, "--redis", broker.URL, "--listen", first)
	id = s.Submit("steps.tengo", "-p", "name=paused")
	run = s.Follow(id, 3, func() {
		paused := s.Procs["dc1b"].Cmd.Process
		_ = paused.Signal(syscall.SIGSTOP)
		since = time.Now()
		s.Await(s.Procs["dc1"], "is listening")
		t.Logf("the standby serves %v after the pause", time.Since(since))
		_ = paused.Signal(syscall.SIGCONT)
		s.Await(s.Procs["dc1b"], "has taken over")
	})
	s.Succeeded(run)
	s.OnceEach(id, stepCount, "dc1-n1")
	if said := s.Procs["dc1"].Said(); strings.Contains(said, "has taken over") {
		t.Errorf("the serving supervisor was replaced:\n%s", said)
	}

	s.Kill("dc1")
	s.Kill("dc1b")
	database.Kill()
	s.Start("dc1", "the journal does not answer", "supervisor", "--data", "dc1", "--dc", "dc1", "--coordinator", s.URL, "--redis", broker.URL, "--listen", first)
	database.Start()
	s.Await(s.Procs["dc1"], "is listening")
}
