package storm

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/coord/api"
	"writ/sal/catalog"
	"writ/sal/simulated"
	"writ/supervisor/journal"
)

// findings holds the counts after a storm.
type findings struct {
	runs    map[writ.RunState]int
	resumes int
	calls   int
	unknown int // calls that ended as OUTCOME_UNKNOWN
	events  int64
	effects int
	doubled int           // repeated effects
	missing int           // missing effects of successful calls
	lost    int           // accepted runs that do not exist
	stuck   int           // runs that did not end
	last    time.Duration // from the last kill to the end of the last run
}

func (f *findings) String() string {
	var ends []string
	for _, state := range slices.Sorted(maps.Keys(f.runs)) {
		ends = append(ends, fmt.Sprintf("%d %s", f.runs[state], state))
	}
	return fmt.Sprintf("runs: %s, after %d resumes; %d calls, %d of them of unknown outcome; %d events; %d effects, %d doubled, %d missing; "+
		"runs lost %d, stuck %d; the last run ended %.1f s after the last kill",
		strings.Join(ends, ", "), f.resumes, f.calls, f.unknown, f.events, f.effects, f.doubled, f.missing, f.lost, f.stuck, f.last.Seconds())
}

// check compares the results of clients, the contents of stores and the effects of simulated drivers.
func (s *storm) check(f *findings) {
	for _, e := range s.work {
		f.runs[e.summary.State]++
		f.resumes += e.resumes
		f.last = max(f.last, time.UnixMilli(e.summary.Ended).Sub(s.lastKill))
	}
	var err error
	if s.records, err = journal.Open(s.t.Context(), s.journal); err != nil {
		s.t.Fatal(err)
	}
	defer s.records.Close()
	s.awaitAgreement(f)
	s.checkLists(f)
	s.checkJournal(f)
	s.checkEffects(f)
	s.checkLogs()
	s.checkProcesses()
}

// awaitAgreement waits until all components have all events. Until then, stores may differ.
func (s *storm) awaitAgreement(f *findings) {
	ledger := filepath.Join("cluster", "ledger.db")
	s.cluster.Until("the coordinator has every event", func(ctx context.Context) bool {
		err := s.read(func(tx *journal.Tx) error {
			return tx.QueryRowContext(ctx, `SELECT seq FROM event_counter`).Scan(&f.events)
		})
		return err == nil && s.count(ledger, `SELECT MAX(seq) FROM events WHERE journal <> ''`) == f.events
	})
	for _, node := range s.nodes {
		s.cluster.Until("each result of "+node+" is acknowledged", func(context.Context) bool {
			return s.count(filepath.Join(node, "journal.db"), `SELECT COUNT(*) FROM jobs WHERE result IS NOT NULL AND acked = FALSE`) == 0
		})
	}
	s.cluster.Until("nodes are ready", func(ctx context.Context) bool {
		nodes, err := s.cluster.Client.Nodes.List(ctx, api.ListNodesParams{})
		return err == nil && len(nodes) == len(s.nodes) &&
			!slices.ContainsFunc(nodes, func(n writ.Node) bool { return n.Liveness != writ.LivenessReady })
	})
	s.checkEvents(ledger, f.events)
}

// checkEvents fails the test unless the ledger has all events of one journal from the first on, once each and in order.
func (s *storm) checkEvents(ledger string, least int64) {
	db := s.open(ledger)
	defer db.Close()
	rows, err := db.QueryContext(s.t.Context(), `SELECT journal, seq FROM events WHERE journal <> '' ORDER BY id`)
	if err != nil {
		s.t.Fatal(err)
	}
	defer rows.Close()
	seen := int64(0)
	journals := map[string]bool{}
	for rows.Next() {
		var name string
		var seq int64
		if err := rows.Scan(&name, &seq); err != nil {
			s.t.Fatal(err)
		}
		journals[name] = true
		if seq != seen+1 {
			s.t.Errorf("the coordinator has event %d after event %d", seq, seen)
		}
		seen = seq
	}
	if err := rows.Err(); err != nil {
		s.t.Fatal(err)
	}
	if seen < least || len(journals) != 1 {
		s.t.Errorf("the coordinator has %d events of %d journals, the journal has %d", seen, len(journals), least)
	}
}

// open opens a store for reading while its process is using it.
func (s *storm) open(name string) *sql.DB {
	s.t.Helper()
	path := filepath.Join(s.cluster.Dir, name)
	if _, err := os.Stat(path); err != nil {
		s.t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro&_pragma=busy_timeout(10000)")
	if err != nil {
		s.t.Fatal(err)
	}
	return db
}

func (s *storm) count(name, query string) (n int64) {
	s.t.Helper()
	db := s.open(name)
	defer db.Close()
	if err := db.QueryRowContext(s.t.Context(), query).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// read reads the journal of the supervisor, which may still be writing.
func (s *storm) read(do func(tx *journal.Tx) error) error {
	return s.records.Read(s.t.Context(), do)
}

// checkLists compares the coordinator's lists with the clients' results of each run.
func (s *storm) checkLists(f *findings) {
	ctx := s.t.Context()
	want := map[writ.RunID]*errand{}
	for _, e := range s.work {
		want[e.id] = e
	}
	runs, err := client.All(func(cursor string) ([]api.Run, string, error) {
		page, err := api.Answer[api.RunPage](s.cluster.Client.API.ListRuns(ctx, &api.ListRunsParams{Limit: api.Given(client.PageSize), Cursor: api.Given(cursor)}))
		return page.Items, page.NextCursor, err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	states := map[string]int{}
	for _, r := range runs {
		e := want[r.ID]
		delete(want, r.ID)
		if e == nil {
			s.t.Errorf("run %s is listed twice, or was not submitted", r.ID)
			continue
		}
		states[string(r.State)]++
		if e.summary.Run != "" && string(r.State) != string(e.summary.State) {
			s.t.Errorf("%s is listed as %s, state in its summary = %s", e, r.State, e.summary.State)
		}
	}
	for _, e := range want {
		f.lost++
		s.t.Errorf("%s is in no list", e)
	}
	queues, err := api.Answer[api.QueueList](s.cluster.Client.API.ListQueues(ctx, &api.ListQueuesParams{}))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, d := range queues.Items {
		if d.Error != nil {
			s.t.Errorf("queues: %v", d.Error)
		}
		for _, q := range d.Queues {
			if q.Planned+q.Queued+q.Running > 0 {
				s.t.Errorf("open work on %s: %+v", q.NodeName, q)
			}
		}
	}
	s.checkDashboard(states)
}

// checkDashboard compares the counts on the first page.
func (s *storm) checkDashboard(states map[string]int) {
	response, err := (&http.Client{Transport: s.cluster.Client.LoggedIn(http.DefaultTransport)}).Get(s.cluster.URL + "/")
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		s.t.Fatalf("the dashboard: %s, %v", response.Status, err)
	}
	shown := countsShown(string(page))
	for _, state := range []string{"waiting", "refused", "accepted", "running", "succeeded", "failed", "cancelled", "expired"} {
		if shown[state] != states[state] {
			s.t.Errorf("the dashboard counts %d runs %s, want %d", shown[state], state, states[state])
		}
	}
}

// checkJournal compares the supervisor's journal with the summaries that clients verified.
func (s *storm) checkJournal(f *findings) {
	ctx := s.t.Context()
	err := s.read(func(tx *journal.Tx) error {
		var runs int
		if err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM runs`).Scan(&runs); err != nil {
			return err
		}
		if runs != len(s.work) {
			s.t.Errorf("the journal has %d runs, %d were handed in", runs, len(s.work))
		}
		open, err := tx.OpenRuns()
		if err != nil {
			return err
		}
		for project, n := range open {
			if n != 0 {
				s.t.Errorf("%d runs of project %s are open", n, project)
			}
		}
		for _, e := range s.work {
			if err := s.checkRun(tx, f, e); err != nil {
				return err
			}
		}
		return s.checkLoads(tx)
	})
	if err != nil {
		s.t.Error(err)
	}
}

// checkRun compares a run with its summary.
func (s *storm) checkRun(tx *journal.Tx, f *findings, e *errand) error {
	run, err := tx.Run(e.id)
	if err != nil {
		return err
	}
	if run == nil {
		f.lost++
		s.t.Errorf("%s is not in the journal", e)
		return nil
	}
	if e.summary.Run == "" {
		return nil // it could not be verified, which was reported
	}
	if run.State != e.summary.State || !bytes.Equal(run.Summary, e.run.Summary) {
		s.t.Errorf("%s is %s in the journal, state in the client's summary = %s", e, run.State, e.summary.State)
	}
	calls, err := tx.Calls(e.id)
	if err != nil {
		return err
	}
	results, err := tx.ResultsDigest(e.id, calls)
	if err != nil {
		return err
	}
	// A cancelled run does not wait longer than 30 s for late results.
	if results != e.summary.Results && run.State != writ.RunCancelled {
		s.t.Errorf("%s: digest of its results = %s in the journal, %s in its summary", e, results, e.summary.Results)
	}
	listed, err := s.cluster.Client.Runs.Calls(s.t.Context(), e.id)
	if err != nil {
		return err
	}
	if len(calls) != e.summary.Calls || len(listed) != len(calls) {
		s.t.Errorf("%s has %d calls in the journal, %d at the coordinator and %d in its summary", e, len(calls), len(listed), e.summary.Calls)
		return nil
	}
	for i, c := range calls {
		if l := listed[i]; c.Seq != i+1 || l.Seq != c.Seq || l.State != c.State || l.Attempt != c.Attempt || !c.State.Ended() {
			s.t.Errorf("call %d of %s is %s (attempt %d) in the journal, %s (attempt %d) at the coordinator", c.Seq, e, c.State, c.Attempt, l.State, l.Attempt)
		}
	}
	return nil
}

// checkLoads compares reservations with existing resources.
func (s *storm) checkLoads(tx *journal.Tx) error {
	resources, err := tx.Resources()
	if err != nil {
		return err
	}
	want := map[writ.NodeID]writ.Capacity{}
	for _, r := range resources {
		want[r.Node] = want[r.Node].Plus(r.Need)
	}
	loads, err := tx.Loads()
	for node, load := range loads {
		if load.Open() != 0 || load.Reserved != want[node] {
			s.t.Errorf("node %s: %d open calls, reserved %+v, resources need %+v", node, load.Open(), load.Reserved, want[node])
		}
	}
	return err
}

// checkEffects counts the effects of simulated drivers.
func (s *storm) checkEffects(f *findings) {
	type place struct {
		uid        writ.UID
		generation int64
	}
	ofCall := map[string]int{} // by "run-seq"
	ofKey := map[string]int{}
	at := map[place]string{}
	made := map[writ.ResourceID]int{}
	for _, node := range s.nodes {
		effects, err := simulated.ReadEffects(filepath.Join(s.cluster.Dir, node, "host", "simulated"))
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range effects {
			f.effects++
			ofKey[e.Key]++
			ofCall[e.Key[:strings.LastIndexByte(e.Key, '-')]]++
			if before := at[place{e.UID, e.Generation}]; before != "" {
				f.doubled++
				s.t.Errorf("%s: the effect number %d on %s took place on %s and on %s", e.Key, e.Generation, e.UID, before, node)
			}
			at[place{e.UID, e.Generation}] = node
			if op, _ := catalog.Lookup(e.Operation); op.Effect == catalog.Make {
				made[e.Resource]++
			}
		}
	}
	for key, n := range ofKey {
		if n > 1 {
			f.doubled += n - 1
			s.t.Errorf("%s took effect %d times", key, n)
		}
	}
	for resource, n := range made {
		if n > 1 {
			f.doubled += n - 1
			s.t.Errorf("the %s was made %d times", resource, n)
		}
	}
	err := s.read(func(tx *journal.Tx) error {
		for _, e := range s.work {
			calls, err := tx.Calls(e.id)
			if err != nil {
				return err
			}
			for _, c := range calls {
				f.calls++
				s.checkCall(f, e, c, ofCall[fmt.Sprintf("%s-%d", c.Run, c.Seq)])
			}
		}
		return nil
	})
	if err != nil {
		s.t.Error(err)
	}
}

// checkCall compares the number of effects of a call with its end.
func (s *storm) checkCall(f *findings, e *errand, c *journal.Call, effects int) {
	op, _ := catalog.Lookup(c.Operation)
	least, most := 1, 1
	switch {
	case c.Error != nil && c.Error.Code == writ.CodeOutcomeUnknown:
		f.unknown++
		least = 0
		if op.Repeat == catalog.Safe {
			s.t.Errorf("call %d of %s, %s, may be repeated, and ended as %s", c.Seq, e, c.Operation, c.Error.Code)
		}
	case c.Error != nil && c.Error.Code == writ.CodeInjectedFinal:
		least, most = 0, 0
	case c.State != writ.CallSucceeded: // cancelled, possibly during execution
		least = 0
	case strings.HasPrefix(c.Name, "shared-") && op.Effect == catalog.Make: // another run may have made the resource
		least = 0
	}
	if op.Repeat != catalog.Safe && e.resumes > 0 { // each resume permits another execution
		most = c.Attempt
	}
	if effects < least {
		f.missing++
		s.t.Errorf("call %d of %s, %s %s, is %s and took no effect", c.Seq, e, c.Operation, c.Name, c.State)
	}
	if effects > most {
		f.doubled++
		s.t.Errorf("call %d of %s, %s %s, is %s after attempt %d and took effect %d times", c.Seq, e, c.Operation, c.Name, c.State, c.Attempt, effects)
	}
}

// checkLogs finds processes that exited for another reason than a kill.
func (s *storm) checkLogs() {
	for name, p := range s.cluster.Procs {
		if p.Ended() && !strings.HasPrefix(name, "add ") {
			s.t.Errorf("%s has ended: %v", name, p.Err)
		}
		said, err := os.ReadFile(filepath.Join(s.cluster.Dir, name+".log"))
		if err != nil {
			s.t.Fatal(err)
		}
		for line := range bytes.Lines(said) {
			if bytes.HasPrefix(line, []byte("panic:")) || bytes.HasPrefix(line, []byte("fatal error:")) || bytes.Contains(line, []byte("level=ERROR")) {
				s.t.Errorf("%s said: %s", name, line)
			}
		}
	}
}

// checkProcesses finds surviving children of killed processes.
func (s *storm) checkProcesses() {
	known := map[int]bool{}
	for _, p := range s.cluster.Procs {
		known[p.Cmd.Process.Pid] = true
	}
	binary := testcluster.Binary(s.t)
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, dir := range all {
		if path, err := os.Readlink(filepath.Join(dir, "exe")); err != nil || path != binary {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(dir))
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue // it has exited meanwhile
		}
		var state string
		var parent int
		if _, err := fmt.Sscan(string(stat[bytes.LastIndexByte(stat, ')')+1:]), &state, &parent); err != nil {
			s.t.Fatal(err)
		}
		if !known[pid] && !known[parent] {
			s.t.Errorf("process %d outlived its killed parent", pid)
		}
	}
}

// countOf matches the number of runs in a state on the first page of the dashboard.
var countOf = regexp.MustCompile(`<a class="count s-([a-z]+)[^>]*><b>([0-9]+)</b>`)

// countsShown returns all of these numbers.
func countsShown(page string) map[string]int {
	shown := map[string]int{}
	for _, m := range countOf.FindAllStringSubmatch(page, -1) {
		shown[m[1]], _ = strconv.Atoi(m[2])
	}
	return shown
}
