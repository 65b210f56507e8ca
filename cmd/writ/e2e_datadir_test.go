package main

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
)

// lostFiles maps each file of a data directory to the result of a start without it. With a code and a part of the hint,
// the daemon refuses to start. Without them, it creates the file again, as docs/manual/runbook.md documents.
var lostFiles = map[string]map[string][2]string{
	"coord": {
		"coordinator.key": {string(writ.CodeDataIncomplete), "writ restore"},
		"ledger.db":       {string(writ.CodeDataIncomplete), "writ restore"},
		"ledger.db.lock":  {},
		"client.yaml":     {}, // this and the next three belong to the operator
		"last":            {},
		"logins":          {},
		"root.key":        {},
		"rosters":         {}, // the ledger has them
	},
	"dc1": {
		"supervisor.key":  {string(writ.CodeDataIncomplete), "writ restore"},
		"supervisor.pub":  {},
		"journal.db":      {string(writ.CodeDataIncomplete), "writ restore"},
		"journal.db.lock": {},
		"journal.mark":    {},
		"rosters":         {}, // coordinators and the journal have them; --join or --cluster names the cluster
	},
	"dc1-n1": {
		"node.key":        {string(writ.CodeDataIncomplete), "writ node remove"},
		"age.key":         {string(writ.CodeDataIncomplete), "writ node remove"},
		"member.json":     {string(writ.CodeDataIncomplete), "writ node remove"},
		"journal.db":      {string(writ.CodeDataIncomplete), "writ node remove"},
		"journal.db.lock": {},
		"log":             {},
		"host":            {}, // records of drivers: docs/manual/nodes.md
	},
}

// TestDaemonsRefuseIncompleteDataDirectories removes each file of each data directory in turn and starts the daemon.
func TestDaemonsRefuseIncompleteDataDirectories(t *testing.T) {
	testenv.Nightly(t, "TestKeptFilesAreMissed of package cmd/writ/internal/daemon keeps each refusal")
	t.Parallel()
	s := testcluster.New(t)
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: testenv.Redis(t).URL, Nodes: 1, Speed: "0"})
	s.Script("x.tengo", "import(\"volume\").create(\"disk\", {size_gib: 1})\n")
	s.Writ("run", "watch", string(s.Submit("x.tengo")))
	for name, files := range lostFiles {
		for _, file := range contents(t, dataOf(s, name)) {
			want, known := files[file]
			if !known {
				t.Errorf("%s stores %s: describe the effect of its loss in lostFiles", name, file)
				continue
			}
			s.Kill(name)
			path := filepath.Join(dataOf(s, name), file)
			if err := os.Rename(path, path+".away"); err != nil {
				t.Fatal(err)
			}
			if want[0] == "" {
				s.Restart(name)
				continue
			}
			output, code := s.RestartFails(name)
			if code != writ.ExitConflict || !strings.Contains(output, want[0]) || !strings.Contains(output, want[1]) || !strings.Contains(output, file) {
				t.Errorf("%s without %s ends with %d:\n%s", name, file, code, output)
			}
			if err := os.Rename(path+".away", path); err != nil {
				t.Fatal(err)
			}
			s.Restart(name)
		}
	}
}

func dataOf(s *testcluster.Cluster, name string) string {
	if name == "coord" {
		name = "cluster"
	}
	return filepath.Join(s.Dir, name)
}

// contents lists the entries of a data directory that outlive its daemon. Files next to a store count as part of the
// store.
func contents(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := fs.ReadDir(os.DirFS(dir), ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), "-wal") && !strings.HasSuffix(e.Name(), "-shm") && !strings.HasSuffix(e.Name(), ".away") {
			names = append(names, e.Name())
		}
	}
	return names
}

// TestCoordinatorGetsANewKey follows docs/manual/runbook.md after the loss of the key and all backups.
func TestCoordinatorGetsANewKey(t *testing.T) {
	t.Parallel()
	s := testcluster.New(t)
	s.Kill("coord")
	if err := os.Remove(filepath.Join(s.Dir, "cluster", "coordinator.key")); err != nil {
		t.Fatal(err)
	}
	if output, code := s.RestartFails("coord"); code != writ.ExitConflict || !strings.Contains(output, string(writ.CodeDataIncomplete)) {
		t.Errorf("without its key it ends with %d:\n%s", code, output)
	}
	at := strings.TrimPrefix(s.URL, "http://")
	s.Start("coord", "is listening", "coord", "--data", "cluster", "--listen", at, "--keyless")
	secure := fmt.Sprintf("https://localhost:%d", testenv.FreePort(t))
	s.Writ("coordinator", "add", "coord2", "--url", secure, "--data", "cluster", "--no-wait")
	s.Kill("coord")
	s.Start("coord", "is listening", "coord", "--data", "cluster", "--listen", strings.TrimPrefix(secure, "https://localhost"))
	s.Writ("coordinator", "remove", "coord1", "--no-wait", "--server", secure)
	if out := s.Writ("coordinator", "list", "-o", "name", "--server", secure); strings.TrimSpace(out) != "coord2" {
		t.Errorf("there are\n%s", out)
	}
	if answer, err := http.Get(strings.Replace(secure, "https", "http", 1) + "/v1/runs"); err == nil {
		_ = answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			t.Error("it serves reads without a login")
		}
	}
}
