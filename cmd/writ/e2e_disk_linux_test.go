package main

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
)

// asked is a command and the output that it must eventually print while a fault lasts.
type asked struct {
	line []string
	exit int
	says []string
}

// sick is a part of a cluster whose disk has a fault.
type sick struct {
	name  string // name of the process, and of the directory on the disk
	store string // its database, or ""
	// refuses is true if submissions are refused, because the fault is on the coordinator's disk. Otherwise they wait.
	refuses bool
	asked   []asked // RUN is an open run, and WAITS a run that was submitted during the fault
}

var parts = []sick{
	{"cluster", "ledger.db", true, []asked{
		{[]string{"doctor"}, writ.ExitFailed, []string{"it is not ready", "disk is full"}},
	}},
	{"dc1", "journal.db", false, []asked{
		{[]string{"run", "explain", "RUN"}, 0, []string{"its datacenter dc1 cannot continue", "journal", "disk is full", "writ dc list"}},
		{[]string{"run", "explain", "WAITS"}, 0, []string{"the datacenter dc1 cannot take it yet", "disk is full"}},
		{[]string{"dc", "list"}, 0, []string{"its journal cannot be written", "disk is full"}},
		{[]string{"doctor"}, writ.ExitFailed, []string{"datacenter dc1", "its journal cannot be written"}},
		{[]string{"submit", "--detach", "--dc", "any", "steps.tengo", "-p", "name=any"}, writ.ExitUnreachable, []string{"its journal cannot be written"}},
	}},
	{"dc1-n1", "journal.db", false, []asked{
		{[]string{"node", "list"}, 0, []string{"the node's journal cannot be written", "disk is full"}},
		{[]string{"run", "explain", "RUN"}, 0, []string{"the node's journal cannot be written", "writ node show dc1-n1"}},
	}},
	{"redis", "", false, []asked{
		{[]string{"dc", "list"}, 0, []string{"its queue is unreachable", "MISCONF", "No space left"}},
		{[]string{"run", "explain", "RUN"}, 0, []string{"its datacenter dc1 cannot continue", "MISCONF"}},
	}},
}

// diskCluster starts a cluster with one node. Each part has its own disk.
func diskCluster(t *testing.T) (*testcluster.Cluster, map[string]*testenv.Disk) {
	t.Parallel()
	s := testcluster.Empty(t)
	disks := map[string]*testenv.Disk{}
	for _, p := range parts {
		disks[p.name] = testenv.NewDisk(t, filepath.Join(s.Dir, p.name), 48)
	}
	broker := testenv.RedisIn(t, disks["redis"].Dir)
	s.Found()
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: broker.URL, Nodes: 1, Speed: "0.5"})
	s.Script("steps.tengo", steps)
	return s, disks
}

// TestAFullDiskLosesNoDataAndIsNamed fills the disk of each part in turn while runs are open: new work is refused or
// waits, users see the reason, and work continues without help as soon as there is free space.
//
// Promise: Failures: On a full disk of ledger, journal, node or Redis, new work is refused or waits, commands name
// the disk, and later all runs continue.
// How: Temporary errors are never final; a store is healthy again only after a probe larger than ordinary writes;
// with space again runs continue within seconds.
func TestAFullDiskLosesNoDataAndIsNamed(t *testing.T) {
	testenv.Nightly(t, "TestProcessOnReadOnlyDiskReportsItAndEnds starts each process on a read-only disk, and internal/sqldb fills one")
	cluster, disks := diskCluster(t)
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) {
			s := cluster.In(t)
			runs := []writ.RunID{s.Submit("steps.tengo", "-p", "name=a-"+p.name), s.Submit("steps.tengo", "-p", "name=b-"+p.name)}
			s.Until("the first calls are done", func(context.Context) bool { return s.Done(runs[0], "dc1-n1") > 1 })
			disks[p.name].Fill()
			t.Cleanup(disks[p.name].Free)
			if p.refuses {
				s.Says(writ.ExitUnreachable, []string{string(writ.CodeStoreFull), "disk is full", "hint: free disk space"}, "submit", "steps.tengo", "-p", "name=refused")
			} else {
				runs = append(runs, s.Submit("steps.tengo", "-p", "name=c-"+p.name))
			}
			p.told(s, runs)
			disks[p.name].Free()
			freed := time.Now()
			for _, id := range runs {
				s.Succeeded(s.Follow(id, 0, func() {}))
				s.OnceEach(id, stepCount, "dc1-n1")
			}
			t.Logf("all runs ended %v after space was freed", time.Since(freed).Round(time.Millisecond))
			s.Runs("coord", "dc1", "dc1-n1")
			s.Says(0, []string{"healthy"}, "dc", "list")
			if out := s.Writ("dc", "list") + s.Writ("node", "list"); strings.Contains(out, "written") || strings.Contains(out, "away") {
				t.Errorf("with room again:\n%s", out)
			}
			p.isWhole(t, s.Dir)
		})
	}
}

// told waits until every command reports the fault.
func (p *sick) told(s *testcluster.Cluster, runs []writ.RunID) {
	s.T.Helper()
	for _, a := range p.asked {
		line := make([]string, len(a.line))
		for i, word := range a.line {
			line[i] = strings.NewReplacer("RUN", string(runs[0]), "WAITS", string(runs[len(runs)-1])).Replace(word)
		}
		s.Says(a.exit, a.says, line...)
	}
}

// isWhole runs SQLite's integrity check on the store of the part.
func (p *sick) isWhole(t *testing.T, dir string) {
	t.Helper()
	if p.store == "" {
		return
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, p.name, p.store)+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var verdict string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("%s of %s: %s, %v", p.store, p.name, verdict, err)
	}
}

// TestProcessOnReadOnlyDiskReportsItAndEnds starts each process on a read-only disk: it reports that and ends. When the
// disk is writable again, the process continues the open run.
func TestProcessOnReadOnlyDiskReportsItAndEnds(t *testing.T) {
	s, disks := diskCluster(t)
	for _, p := range []struct{ process, disk string }{{"coord", "cluster"}, {"dc1", "dc1"}, {"dc1-n1", "dc1-n1"}} {
		id := s.Submit("steps.tengo", "-p", "name="+p.process)
		s.Until("the first calls are done", func(context.Context) bool { return s.Done(id, "dc1-n1") > 1 })
		s.Kill(p.process)
		disks[p.disk].ReadOnly(true)
		if said, code := s.RestartFails(p.process); code != writ.ExitUnreachable || !strings.Contains(said, "read-only") || !strings.Contains(said, string(writ.CodeStoreReadOnly)) {
			t.Errorf("%s on a disk that is read-only: exit %d\n%s", p.process, code, said)
		} else {
			t.Logf("%s: exit %d\n%s", p.process, code, said)
		}
		disks[p.disk].ReadOnly(false)
		s.Restart(p.process)
		s.Succeeded(s.Follow(id, 0, func() {}))
		s.OnceEach(id, stepCount, "dc1-n1")
	}
	for _, p := range parts {
		p.isWhole(t, s.Dir)
	}
}
