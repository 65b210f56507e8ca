package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/coord/api"
	"writ/internal/test/testenv"
)

// readyCluster is a cluster with the addresses of /readyz and the disks of a coordinator, a supervisor and a runner.
type readyCluster struct {
	*testcluster.Cluster
	at     map[string]string // by process
	disks  map[string]*testenv.Disk
	broker *testenv.RedisServer
}

func newReadyCluster(t *testing.T) *readyCluster {
	t.Helper()
	r := &readyCluster{Cluster: testcluster.Empty(t), at: map[string]string{}, disks: map[string]*testenv.Disk{}}
	for process, dir := range map[string]string{"coord": "cluster", "dc1": "dc1", "dc1-n1": "dc1-n1"} {
		r.disks[process] = testenv.NewDisk(t, filepath.Join(r.Dir, dir), 48)
	}
	r.broker = testenv.RedisIn(t, t.TempDir())
	r.Found()
	r.at["coord"] = r.URL
	listen := map[string]string{}
	for _, process := range []string{"dc1", "dc1-n1"} {
		listen[process] = fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
		r.at[process] = "http://" + listen[process]
	}
	r.Add(testcluster.Datacenter{
		Name: "dc1", Redis: r.broker.URL, Nodes: 1, Speed: "0", Node: []string{"--metrics-listen", listen["dc1-n1"]},
	})
	r.Kill("dc1")
	r.Await(r.Launch("dc1", "WRIT_METRICS_LISTEN="+listen["dc1"]), "is listening")
	return r
}

// becomes waits until a process is ready, or until the detail of a failed check contains the given words.
func (r *readyCluster) becomes(process string, ready bool, words string) {
	r.T.Helper()
	r.T.Logf("%s becomes ready: %v %s", process, ready, words)
	r.Until(fmt.Sprintf("%s is ready: %v %s", process, ready, words), func(ctx context.Context) bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.at[process]+"/readyz", nil)
		if err != nil {
			r.T.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		var said api.Readiness
		if err := json.NewDecoder(response.Body).Decode(&said); err != nil || said.Ready != ready ||
			(response.StatusCode == http.StatusOK) != ready {
			return false
		}
		for _, check := range said.Checks {
			if !check.OK && strings.Contains(check.Detail, words) {
				return true
			}
		}
		return ready
	})
}

// TestReadinessNamesFaults runs daemons with full disks, an unreachable Redis and a damaged store. /readyz names each
// fault, and omits it after its end.
func TestReadinessNamesFaults(t *testing.T) {
	testenv.Nightly(t, "TestReadinessReportsChecks of package metrics and TestFullDiskRefusesNewWorkAndContinues of package coord")
	t.Parallel()
	r := newReadyCluster(t)
	for process := range r.at {
		r.becomes(process, true, "")
	}
	for process, disk := range r.disks {
		disk.Fill()
		r.becomes(process, false, "disk")
		disk.Free()
		r.becomes(process, true, "")
	}
	r.broker.Kill()
	r.becomes("dc1", false, "Redis does not answer")
	r.becomes("dc1-n1", false, "Redis does not answer")
	r.becomes("coord", true, "")
	r.broker.Start()
	r.becomes("dc1", true, "")
	r.becomes("dc1-n1", true, "")
	r.damaged("dc1", "dc1/journal.db")
	r.startsOnlyWhole("coord", "cluster/ledger.db")
	r.startsOnlyWritable("dc1-n1")
}

// overwritePages overwrites all pages of a store but the first, and returns the content before.
func (r *readyCluster) overwritePages(store string) (before []byte) {
	r.T.Helper()
	const page = 4096
	path := filepath.Join(r.Dir, store)
	checkpoint(r.T, path)
	before, err := os.ReadFile(path)
	if err != nil || len(before) < 2*page {
		r.T.Fatalf("a store of %d bytes, %v", len(before), err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		r.T.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(bytes.Repeat([]byte("x"), len(before)-page), page); err != nil {
		r.T.Fatal(err)
	}
	return before
}

// checkpoint moves the content of a store's write-ahead log to its file.
func checkpoint(t testing.TB, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var busy, frames, moved int
	err = db.QueryRow("PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &moved)
	if err != nil || busy != 0 {
		t.Fatalf("checkpoint of %s: busy %d, %v", path, busy, err)
	}
}

// damaged overwrites the store of a running daemon. /readyz names the damage, and with the old file the daemon is
// ready again.
func (r *readyCluster) damaged(process, store string) {
	r.T.Helper()
	before := r.overwritePages(store)
	r.becomes(process, false, "damaged")
	r.Kill(process)
	r.restore(process, store, before)
}

// startsOnlyWhole damages the store of a stopped daemon. The daemon reports the damage and exits.
func (r *readyCluster) startsOnlyWhole(process, store string) {
	r.T.Helper()
	r.Kill(process)
	before := r.overwritePages(store)
	if said, code := r.RestartFails(process); code == 0 || !strings.Contains(said, string(writ.CodeStoreDamaged)) {
		r.T.Errorf("%s on a damaged store: exit %d\n%s", process, code, said)
	}
	r.restore(process, store, before)
}

func (r *readyCluster) restore(process, store string, content []byte) {
	r.T.Helper()
	if err := os.WriteFile(filepath.Join(r.Dir, store), content, 0o600); err != nil {
		r.T.Fatal(err)
	}
	if address := strings.TrimPrefix(r.at[process], "http://"); process == "coord" {
		r.Restart(process)
	} else {
		r.Await(r.Launch(process, "WRIT_METRICS_LISTEN="+address), "is listening")
	}
	r.becomes(process, true, "")
}

// startsOnlyWritable makes the disk of a stopped daemon read-only. The daemon reports that and exits.
func (r *readyCluster) startsOnlyWritable(process string) {
	r.T.Helper()
	r.Kill(process)
	r.disks[process].ReadOnly(true)
	if said, code := r.RestartFails(process); code == 0 || !strings.Contains(said, string(writ.CodeStoreReadOnly)) {
		r.T.Errorf("%s on a read-only disk: exit %d\n%s", process, code, said)
	}
	r.disks[process].ReadOnly(false)
	r.Restart(process)
	r.becomes(process, true, "")
}
