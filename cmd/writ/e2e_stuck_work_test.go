package main

import (
	"context"
	"database/sql"
	"html"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
)

// stuckRun is a waiting run and the information that a user must find.
type stuckRun struct {
	id      writ.RunID
	why     string // text in the reason
	command string // command that helps
}

// A user finds the cause of each kind of stuck work and the command against it within two links of the first page, and
// with `writ run list --stuck`. The test types the commands exactly as shown.
func TestEachKindOfStuckWorkIsFoundWithItsCommand(t *testing.T) {
	testenv.Nightly(t, "TestWhyNamesTheFailingNode of coord, TestCommandFollowsFromTheReason of coord/remedy and TestStuckRunsAreListedWithWhatHelps of coord/dashboard")
	t.Parallel()
	s := testcluster.New(t)
	redis := testenv.Redis(t).URL
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: redis, Nodes: 3, Speed: "0"})
	s.Add(testcluster.Datacenter{Name: "dc2", Redis: testenv.Redis(t).URL, Nodes: 1, Speed: "0"})
	stuck := stuckWork(s)
	dateBack(s, 10*time.Minute)

	for name, run := range stuck {
		s.Until(name+": the reason on the page", func(context.Context) bool { return walk(s, run) })
		s.Says(writ.ExitDone, []string{run.why, run.command}, "run", "list", "--stuck", "1m")
	}
	for _, name := range []string{"no node fits", "on hold"} {
		s.Writ(strings.Fields(stuck[name].command)[1:]...)
		s.Succeeded(s.Follow(stuck[name].id, -1, func() {}))
	}
	s.Restart("dc2")
	s.Restart("dc1-n3")
	for _, name := range []string{"the supervisor is gone", "the node is gone"} {
		id := stuck[name].id
		s.Until(name+": the next calls", func(ctx context.Context) bool {
			calls, err := s.Client.Runs.Calls(ctx, id)
			return err == nil && len(calls) == 1 && calls[0].State == writ.CallRunning && !strings.Contains(s.Writ("run", "explain", string(id)), "writ node")
		})
	}
	s.Writ("run", "cancel", strings.Fields(stuck["the deployment is taken"].command)[3])
	s.Succeeded(s.Follow(stuck["the deployment is taken"].id, -1, func() {}))
}

// stuckWork creates work that waits for five causes, and returns the information that a user must find about each.
func stuckWork(s *testcluster.Cluster) map[string]stuckRun {
	s.Script("ping.tengo", "node := import(\"node\")\nnode.ping()\n")
	slow := func(name, more string) string {
		file := name + ".tengo"
		s.Script(file, "herodb := import(\"herodb\")\nherodb.create(\"slow-3600-"+name+"\", {memory_mib: 64}, {timeout: \"2h\""+more+"})\n")
		return file
	}
	begun := func(id writ.RunID) writ.RunID {
		s.Until("the work has begun", func(ctx context.Context) bool {
			calls, err := s.Client.Runs.Calls(ctx, id)
			return err == nil && len(calls) == 1 && calls[0].State == writ.CallRunning
		})
		return id
	}
	all := map[string]stuckRun{}

	s.Writ("node", "label", "dc1-n2", "gpu=h100", "--dc", "dc1")
	s.Writ("node", "cordon", "dc1-n2", "--dc", "dc1", "--reason", "the fan is loud")
	s.Script("gpu.tengo", "herodb := import(\"herodb\")\nherodb.create(\"gpu\", {memory_mib: 64}, {labels: {gpu: \"h100\"}})\n")
	all["no node fits"] = stuckRun{s.Submit("gpu.tengo", "--dc", "dc1"), "dc1-n2: is cordoned", "writ node uncordon dc1-n2 --dc dc1"}

	pinned := begun(s.Submit(slow("pinned", `, node: "dc1-n3"`), "--dc", "dc1", "--deadline", "3h"))
	all["the node is gone"] = stuckRun{pinned, "on dc1-n3, which is ", "writ node show dc1-n3 --dc dc1"}

	first := begun(s.Submit(slow("web", `, node: "dc1-n1"`), "--dc", "dc1", "--deadline", "3h", "--deployment", "web"))
	s.Script("next.tengo", "herodb := import(\"herodb\")\nherodb.create(\"next\", {memory_mib: 64})\n")
	next := s.Submit("next.tengo", "--dc", "dc1", "--deployment", "web")
	all["the deployment is taken"] = stuckRun{next, "waits for run " + string(first) + ", an earlier one of the deployment web", "writ run explain " + string(first)}

	gone := begun(s.Submit(slow("far", ""), "--dc", "dc2", "--deadline", "3h"))
	all["the supervisor is gone"] = stuckRun{gone, "its datacenter is away", "writ dc list"}

	s.Writ("hold", "--dc", "dc1", "--operation", "node.ping", "--reason", "the disks fail")
	held := s.Submit("ping.tengo", "--dc", "dc1")
	all["on hold"] = stuckRun{held, "alice has held the operation node.ping since", "writ release --dc dc1 --operation node.ping"}

	s.Kill("dc2")
	s.Kill("dc1-n3")
	return all
}

// dateBack moves the coordinator's records into the past and restarts it.
func dateBack(s *testcluster.Cluster, by time.Duration) {
	s.Until("the wait reasons of all runs", func(context.Context) bool {
		return strings.Count(s.Writ("run", "list", "--why"), "writ run explain") <= 2 && strings.Contains(s.Writ("run", "list", "--why"), "dc1-n3, which is")
	})
	s.Kill("coord")
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.Dir, "cluster", "ledger.db"))
	if err != nil {
		s.T.Fatal(err)
	}
	for _, statement := range []string{"UPDATE runs SET created = created - $1", "UPDATE events SET stored = stored - $1"} {
		if _, err := db.ExecContext(s.T.Context(), statement, by.Microseconds()); err != nil {
			s.T.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		s.T.Fatal(err)
	}
	s.Restart("coord")
}

var links = regexp.MustCompile(`href="(/[^"]*)"`)

// walk reports whether a page within two links of the first page has the reason why a run waits, and the command that
// helps.
func walk(s *testcluster.Cluster, run stuckRun) bool {
	seen := map[string]bool{"/": true}
	at := []string{"/"}
	for range 2 {
		var next []string
		for _, path := range at {
			for _, link := range links.FindAllStringSubmatch(pageOf(s, path), -1) {
				to := html.UnescapeString(link[1])
				if seen[to] || strings.HasPrefix(to, "/static/") {
					continue
				}
				seen[to] = true
				if (strings.HasPrefix(to, "/stuck") || to == "/runs/"+string(run.id)) && finds(pageOf(s, to), run) {
					return true
				}
				next = append(next, to)
			}
		}
		at = next
	}
	return false
}

// finds reports whether a page has a run with the reason and the command.
func finds(page string, run stuckRun) bool {
	if _, row, ok := strings.Cut(page, `<tr data-key="`+string(run.id)+`"`); ok {
		page, _, _ = strings.Cut(row, "</tr>")
	}
	page = html.UnescapeString(page)
	return strings.Contains(page, run.why) && strings.Contains(page, `data-copy="`+run.command+`"`)
}

func pageOf(s *testcluster.Cluster, path string) string {
	s.T.Helper()
	response, err := (&http.Client{Transport: s.Client.LoggedIn(http.DefaultTransport)}).Get(s.URL + path)
	if err != nil {
		s.T.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= http.StatusInternalServerError {
		s.T.Fatalf("%s: %s, %v", path, response.Status, err)
	}
	return string(page)
}
