package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
)

// TestLostStoresComeBackFromTheirBackups deletes the data directory of a supervisor, then the one of the coordinator,
// and restores older backups. No job runs twice, no run stays open, and later events are reported.
//
// Promise: Recovery: A store restored from a backup catches up, and no run stays open forever: a run unknown to its
// datacenter restarts or ends as `RUN_LOST`.
// How: Both ends of a link compare the last event; a journal that cannot continue takes a new id and sends its whole
// state.
// Also: TestAGenerationHasOneSequenceOfEvents, TestRunsMissingInRestoredJournalRestartOrEnd.
func TestLostStoresComeBackFromTheirBackups(t *testing.T) {
	t.Parallel()
	s := testcluster.New(t)
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: testenv.Redis(t).URL, Nodes: 1, Speed: "0.5"})
	s.Script("steps.tengo", steps)
	lose := func(daemon, data, copied string) {
		s.Kill(daemon)
		if err := os.Rename(filepath.Join(s.Dir, data), filepath.Join(s.Dir, data+"-lost")); err != nil {
			t.Fatal(err)
		}
		if out, said, code := s.Try("restore", "--data", data, copied); code != 0 || !strings.Contains(said, "start it as before") {
			t.Fatalf("restore: exit %d\n%s%s", code, out, said)
		}
		s.Restart(daemon)
	}

	done := s.Submit("steps.tengo", "-p", "name=done")
	s.Writ("run", "watch", string(done))
	before := s.Submit("steps.tengo", "-p", "name=before")
	s.Follow(before, 3, func() { s.Writ("backup", "--data", "dc1", "dc1.tar") })
	ended := s.Submit("steps.tengo", "-p", "name=ended")
	s.Writ("run", "watch", string(ended))
	after := s.Submit("steps.tengo", "-p", "name=after")
	run := s.Follow(after, 3, func() { lose("dc1", "dc1", "dc1.tar") })
	s.Succeeded(run)
	for _, id := range []writ.RunID{done, before, ended, after} {
		s.Writ("run", "watch", string(id))
		s.OnceEach(id, stepCount, "dc1-n1")
	}

	s.Writ("backup", "--data", "cluster", "coord.tar")
	last := s.Submit("steps.tengo", "-p", "name=last")
	run = s.Follow(last, 3, func() { lose("coord", "cluster", "coord.tar") })
	s.Succeeded(run)
	s.OnceEach(last, stepCount, "dc1-n1")
	if open := s.Writ("run", "list", "--state", "accepted", "--state", "running", "--state", "waiting", "-o", "name"); open != "" {
		t.Errorf("still open:\n%s", open)
	}

	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"backup", "--data", "dc1-n1", "n1.tar"}, writ.ExitUsage, "a lost node joins again"},
		{[]string{"backup", "--data", ".", "x.tar"}, writ.ExitUsage, "not the data directory"},
		{[]string{"backup", "--data", "dc1", "dc1.tar"}, writ.ExitUsage, "never overwrites"},
		{[]string{"restore", "--data", "dc1", "dc1.tar"}, writ.ExitConflict, "is not empty"},
		{[]string{"restore", "--data", "new", "steps.tengo"}, writ.ExitUsage, "not a backup of writ"},
		{[]string{"restore", "--data", "new", "nothing.tar"}, writ.ExitUsage, "no such file"},
	} {
		if _, said, code := s.Try(tt.args...); code != tt.code || !strings.Contains(said, tt.want) {
			t.Errorf("writ %s: exit %d, want %d\n%s", strings.Join(tt.args, " "), code, tt.code, said)
		}
	}
	if info, err := os.Stat(filepath.Join(s.Dir, "dc1.tar")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup: %v, %v", info.Mode(), err)
	}
}

// A directory that was copied after a kill without journal.db-wal lacks the newest records, and the supervisor starts
// with it.
func TestIncompleteCopyOfJournalIsNamed(t *testing.T) {
	testenv.Nightly(t, "TestDoctorNamesIncompleteJournal of package doctor and TestListMarksOutdatedStates of package coord")
	t.Parallel()
	s := testcluster.New(t)
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: testenv.Redis(t).URL, Nodes: 1, Speed: "0"})
	s.Script("volume.tengo", "import(\"volume\").create(\"data\", {size_gib: 1})\n")
	s.Writ("submit", "volume.tengo")
	if out, _, _ := s.Try("doctor", "--journal", "dc1/journal.db"); strings.Contains(out, "journal.db-wal") {
		t.Errorf("before the loss, the doctor shows\n%s", out)
	}
	seen := func() (head struct{ Seq int64 }) {
		text, err := os.ReadFile(filepath.Join(s.Dir, "dc1", "journal.mark"))
		if err == nil {
			err = json.Unmarshal(text, &head)
		}
		if err != nil {
			t.Fatal(err)
		}
		return head
	}
	s.Until("the mark has the events of the run", func(context.Context) bool { return seen().Seq > 5 })
	s.Kill("dc1")
	whole := filepath.Join(s.Dir, "whole")
	if out, err := exec.Command("cp", "-a", filepath.Join(s.Dir, "dc1"), whole).CombinedOutput(); err != nil {
		t.Fatalf("copy the directory: %v: %s", err, out)
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Remove(filepath.Join(s.Dir, "dc1", "journal.db"+suffix)); err != nil {
			t.Fatal(err)
		}
	}
	if out, _, code := s.Try("doctor", "--journal", "dc1/journal.db"); code != writ.ExitFailed ||
		!strings.Contains(out, "is a backup, or a copy without journal.db-wal: it ends at event ") {
		t.Errorf("the doctor: exit %d\n%s", code, out)
	}
	s.Restart("dc1")
	const restored = "its journal is a backup, or a copy without its newest records: found at "
	s.Until("the datacenter is connected again", func(context.Context) bool {
		return strings.Contains(s.Writ("dc", "list"), restored)
	})
	if out, _, _ := s.Try("doctor"); !strings.Contains(out, "datacenter dc1: ") || !strings.Contains(out, restored) ||
		!strings.Contains(out, "fix: if the directory is a copy without journal.db-wal, stop the supervisor") {
		t.Errorf("the doctor shows\n%s", out)
	}

	// The coordinator lists the nodes and resources again if the supervisor gets the whole directory.
	s.Writ("submit", "volume.tengo", "--detach")
	s.Until("the coordinator has stored events of the incomplete journal", func(context.Context) bool {
		return !strings.Contains(s.Writ("resource", "list"), "data")
	})
	s.Kill("dc1")
	dir := filepath.Join(s.Dir, "dc1")
	if err := errors.Join(os.RemoveAll(dir), os.Rename(whole, dir)); err != nil {
		t.Fatal(err)
	}
	s.Restart("dc1")
	s.Until("the volume and its node are listed", func(context.Context) bool {
		return strings.Contains(s.Writ("resource", "list"), "data") && strings.Contains(s.Writ("node", "list"), "ready")
	})
}
