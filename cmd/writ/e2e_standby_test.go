package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"writ/internal/testenv"
)

// TestAStandbyTakesOver kills the active one of two supervisors in the middle of a run, and lets the one that took over stand still in the
// middle of the next until the first serves again.
func TestAStandbyTakesOver(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts many processes")
	}
	database := testenv.Postgres(t)
	broker := testenv.Redis(t)
	s := newSite(t, "WRIT_JOURNAL="+database.Store())
	s.datacenter("dc1", broker.URL, 1, "0.5")
	s.script("steps.tengo", steps)
	if err := os.CopyFS(filepath.Join(s.dir, "dc1b"), os.DirFS(filepath.Join(s.dir, "dc1"))); err != nil { // key and rosters
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(s.dir, "dc1b", "supervisor.key"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start("dc1b", "stands by", "supervisor", "--data", "dc1b", "--dc", "dc1", "--coordinator", s.url, "--redis", broker.URL, "--listen", "127.0.0.1:0")

	var since time.Time
	id := s.submit("steps.tengo", "-p", "name=killed")
	run := s.follow(id, 3, func() {
		s.kill("dc1")
		since = time.Now()
		s.await(s.procs["dc1b"], "is listening")
		t.Logf("the standby serves %v after the kill", time.Since(since))
	})
	s.succeeded(run)
	s.onceEach(id, stepCount, "dc1-n1")

	s.start("dc1", "stands by", "supervisor", "--data", "dc1", "--dc", "dc1", "--coordinator", s.url, "--redis", broker.URL, "--listen", "127.0.0.1:0")
	id = s.submit("steps.tengo", "-p", "name=paused")
	run = s.follow(id, 3, func() {
		paused := s.procs["dc1b"].cmd.Process
		_ = paused.Signal(syscall.SIGSTOP)
		since = time.Now()
		s.await(s.procs["dc1"], "is listening")
		t.Logf("the standby serves %v after the pause", time.Since(since))
		_ = paused.Signal(syscall.SIGCONT)
		s.await(s.procs["dc1b"], "has taken over")
	})
	s.succeeded(run)
	s.onceEach(id, stepCount, "dc1-n1")
	if said := s.procs["dc1"].said(); strings.Contains(said, "has taken over") {
		t.Errorf("the one that serves was put out:\n%s", said)
	}
}
