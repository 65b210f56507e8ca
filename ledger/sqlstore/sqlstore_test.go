package sqlstore_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"writ"
	"writ/internal/sqldb"
	"writ/internal/test/testenv"
	"writ/ledger"
	"writ/ledger/ledgertest"
	"writ/ledger/sqlstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Promise: Readers and roles: A reader of some projects receives all events of these projects, also after a pause,
// and no event of another project.
// How: The ledger records the project of each event; streams select by it.
// Subtest: an_event
// Also: TestEventsOfAnEarlierVersionGetTheirProject, TestReaderOfSomeProjectsResumesHisStream,
// TestStreamsReceiveEachEventOnce, TestQuietStreamSendsKeepAlivesOnly
//
// Promise: Operation: A list of deployments names the revision that the datacenter accepted last.
// How: The revision is in the events of the datacenter; a run page names its revision and the verified certificate of
// its signer.
// Also: TestScripts/submit, TestRunPageMarksTheFailedLine, TestResourcesAndDeploymentsShowTheirState.
func TestLedgerInMemory(t *testing.T) {
	ledgertest.Run(t, func(t testing.TB) ledger.Ledger { return counted{open(t, ":memory:"), t} })
}

// Promise: Repair and usage: A datacenter that reports impossible use stops neither its own events nor the sums of
// other datacenters.
// How: The coordinator limits the hourly use of each resource far above any machine; sums end at 2^60.
// Also: TestLedgerInMemory, TestLedgerOnPostgreSQL, TestSumsOfUsageEnd
//
// Promise: Operation: Runs are found by a text in their names, parameters and errors, and by prefixes of their
// resource names.
// How: The search reads each run; parameters come with the submission.
// Also: TestOldRunsAreFoundByScriptAndDeployment, TestSearchAcceptsSignerScriptAndRun.
func TestLedgerInFile(t *testing.T) {
	ledgertest.Run(t, func(t testing.TB) ledger.Ledger {
		dir, err := os.MkdirTemp(t.TempDir(), "") // one test may open several
		if err != nil {
			t.Fatal(err)
		}
		return counted{sqlstore.WithoutRecentEvents(open(t, filepath.Join(dir, "ledger.db"))), t}
	})
}

// Promise: Failures: Journal and ledger keep their promises on SQLite and on PostgreSQL.
// How: Both use the same queries and the same test suite.
// Also: TestDatacenterWorksOnPostgreSQL, TestRecordsComeBackAsTheyWereKept.
func TestLedgerOnPostgreSQL(t *testing.T) {
	server := testenv.Postgres(t)
	ledgertest.Run(t, func(t testing.TB) ledger.Ledger { return counted{open(t, server.Store()), t} })
}

// counted is a store that compares the stored numbers of ended runs with the runs at its end.
type counted struct {
	*sqlstore.Store
	t testing.TB
}

func (c counted) Close() error {
	wantEndedCounts(c.t, c.Store)
	return c.Store.Close()
}

func wantEndedCounts(t testing.TB, s *sqlstore.Store) {
	t.Helper()
	stored, want, err := sqlstore.EndedCounts(context.WithoutCancel(t.Context()), s)
	if diff := cmp.Diff(want, stored); err != nil || diff != "" {
		t.Errorf("numbers of ended runs: %v\n%s", err, diff)
	}
}

var update = flag.Bool("update", false, "rewrite the golden files")

// The golden file holds the schema after all migrations, so that a schema change is visible in a diff.
func TestSchemaIsTheGoldenOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	if err := open(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE '%goose%' AND name NOT LIKE 'sqlite%' ORDER BY tbl_name, name")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got strings.Builder
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		got.WriteString(text + ";\n\n")
	}
	golden := filepath.Join("testdata", "schema.sql")
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("the schema changed; if that is meant, run the test with -update:\n%s", diff)
	}
}

func open(t testing.TB, path string) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ofVersion creates the store of an earlier version and runs statements in it.
func ofVersion(t *testing.T, path, last string, statements ...string) {
	t.Helper()
	names, err := filepath.Glob("migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	earlier := make(fstest.MapFS)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if base := filepath.Base(name); base[:len(last)] <= last {
			earlier[base] = &fstest.MapFile{Data: text}
		}
	}
	db, err := sqldb.Open(t.Context(), path, earlier)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, text := range statements {
		if err := db.Write(t.Context(), func(tx *sqldb.Tx) error { _, err := tx.Exec(text); return err }); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRegistrationsOfAnEarlierVersionWaitOn(t *testing.T) {
	test := func(t *testing.T, path string) {
		ofVersion(t, path, "0005", `INSERT INTO registrations (key_text, token, name, nonce, proof, url, received)
			VALUES ('a2V5', 'a', 'north', '', '', 'http://10.0.0.7:7441', 1), ('a2V5', '', 'north', '', '', '', 2)`)
		s := open(t, path)
		defer s.Close()
		got, err := s.Registrations(t.Context())
		if err != nil || len(got) != 2 || string(got[0].Key) != "key" || got[0].Token != "a" || got[0].URL != "http://10.0.0.7:7441" {
			t.Errorf("%+v, %v", got, err)
		}
	}
	t.Run("SQLite", func(t *testing.T) { test(t, filepath.Join(t.TempDir(), "ledger.db")) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, testenv.Postgres(t).Store()) })
}

// An upgrade finds the resources with a problem by their last report, and no others.
func TestResourcesOfAnEarlierVersionAreTroubled(t *testing.T) {
	onBoth(t, func(t *testing.T, path string) {
		var rows []string
		for name, r := range map[string]writ.Resource{
			"good": {Standing: writ.Standing{State: "running", Health: "healthy"}},
			"gone": {Standing: writ.Standing{State: ledger.StateGone}}, "unclear": {Standing: writ.Standing{State: ledger.StateUnclear}},
			"drifted": {Drift: []string{"it is read-only"}}, "sick": {Standing: writ.Standing{State: "running", Health: ledger.Unhealthy}},
		} {
			r.Datacenter, r.Project, r.Kind, r.Name = "dc", "shop", writ.KindContainer, name
			body, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, fmt.Sprintf("('dc', 'shop', 'container', '%s', 'n', '', '%s')", name, body))
		}
		ofVersion(t, path, "0019", "INSERT INTO resources (datacenter, project, kind, name, node, deployment, body) VALUES "+strings.Join(rows, ", "))
		s := open(t, path)
		defer s.Close()
		var names []string
		list, err := s.Resources(t.Context(), ledger.ResourceFilter{Troubled: true}, ledger.Page{})
		for _, r := range list.Items {
			names = append(names, r.Name)
		}
		if want := []string{"drifted", "gone", "sick", "unclear"}; err != nil || !slices.Equal(names, want) {
			t.Errorf("%v, want %v, %v", names, want, err)
		}
	})
}

// A datacenter may have reported an end that contradicts the state of the run.
func TestRunsOfAnEarlierVersionAreListedByState(t *testing.T) {
	onBoth(t, func(t *testing.T, path string) {
		ofVersion(t, path, "0020", `INSERT INTO runs (id, datacenter, project, project_name, signer, state, created, accepted, ended, body) VALUES
			('r1', 'dc', 'shop', '', '', 'running', 1, 1, 5, '{}'), ('r2', 'dc', 'shop', '', '', 'failed', 2, 2, 0, '{}'),
			('r3', 'dc', 'shop', '', '', 'waiting', 3, 0, 0, '{}'), ('r4', 'dc', 'shop', '', '', 'succeeded', 4, 4, 9, '{}')`)
		s := open(t, path)
		defer s.Close()
		wantEndedCounts(t, s)
		for state, want := range map[ledger.State]writ.RunID{"running": "r1", "failed": "r2", "waiting": "r3", "succeeded": "r4"} {
			list, err := s.Runs(t.Context(), ledger.RunFilter{States: []ledger.State{state}}, ledger.Page{})
			if err != nil || len(list.Items) != 1 || list.Items[0].ID != want {
				t.Errorf("%s: %+v, %v", state, list.Items, err)
			}
		}
	})
}

// Readers of a project's events continue where they were after an upgrade. An event without a known owner belongs to no
// project.
func TestEventsOfAnEarlierVersionGetTheirProject(t *testing.T) {
	onBoth(t, func(t *testing.T, path string) {
		ofVersion(t, path, "0006",
			`INSERT INTO runs (id, datacenter, project, project_name, signer, state, created, accepted, ended, body) VALUES ('r1', 'dc', 'shop', '', '', 'running', 1, 1, 0, '{}')`,
			`INSERT INTO events (id, datacenter, journal, seq, stored, topic, run, body)
				VALUES (1, 'dc', 'j', 1, 1, 'log', 'r1', '{}'), (2, 'dc', 'j', 2, 1, 'log', 'r2', '{}'), (3, 'dc', 'j', 3, 1, 'node', '', '{}')`)
		s := open(t, path)
		defer s.Close()
		got, _, err := s.Events(t.Context(), 0, ledger.EventFilter{}, 10)
		if err != nil || len(got) != 3 || got[0].Project != "shop" || got[1].Project != "" || got[2].Project != "" {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// The list of a run has events from before and after an upgrade. The ids of events continue after the last reserved id,
// and the shares include earlier bytes.
func TestRunsOfAnEarlierVersionKeepTheirEvents(t *testing.T) {
	onBoth(t, func(t *testing.T, path string) {
		ofVersion(t, path, "0021",
			`INSERT INTO runs (id, datacenter, project, project_name, signer, state, created, accepted, ended, body) VALUES ('r1', 'dc', 'shop', '', '', 'running', 1, 1, 0, '{}')`,
			`INSERT INTO events (id, datacenter, journal, seq, stored, topic, run, body)
				VALUES (1, 'dc', 'j', 1, 1, 'call', 'r1', '{}'), (2, 'dc', 'j', 2, 1, 'log', 'r1', '{}'), (3, 'dc', 'j', 3, 1, 'node', '', '{}')`,
			`INSERT INTO journals (datacenter, journal, seq, at) VALUES ('dc', 'j', 4, 1)`, `UPDATE counters SET value = 4 WHERE name = 'event'`,
			`INSERT INTO shares (datacenter, kind, day, bytes) VALUES ('dc', 'events', 1, 5000000)`)
		s := open(t, path)
		defer s.Close()
		if heard, err := s.LastHeard(t.Context(), "r1"); err != nil || !heard["r1"].Equal(time.UnixMicro(1)) {
			t.Errorf("last heard: %v, %v", heard, err)
		}
		call := writ.Call{Run: "r1", Seq: 1, State: writ.CallRunning}
		if err := s.StoreEvents(t.Context(), "dc", []writ.Event{{Journal: "j", Seq: 5, Call: &call}}); err != nil {
			t.Fatal(err)
		}
		got, _, err := sqlstore.WithoutRecentEvents(s).Events(t.Context(), 0, ledger.EventFilter{Run: "r1"}, 10)
		if err != nil || len(got) != 3 || got[0].ID != 1 || got[1].ID != 2 || got[2].ID != 5 {
			t.Errorf("events of the run: %+v, %v", got, err)
		}
		if heard, err := s.LastHeard(t.Context(), "r1"); err != nil || time.Since(heard["r1"]) > time.Hour {
			t.Errorf("last heard: %v, %v", heard, err)
		}
		if shares, err := s.Shares(t.Context()); err != nil || shares["dc"] <= 5_000_000 || shares["dc"] > 5_010_000 {
			t.Errorf("shares: %v, %v", shares, err)
		}
	})
}

// An upgrade assigns each hour of usage to the month in which it starts, including month ends, leap years and
// centuries.
func TestUsageOfAnEarlierVersionIsInItsMonths(t *testing.T) {
	onBoth(t, func(t *testing.T, path string) {
		var rows []string
		first := time.Date(1999, 12, 31, 23, 0, 0, 0, time.UTC)
		for at := first; at.Year() < 2032; at = at.AddDate(0, 0, 13) {
			for _, hour := range []time.Time{at, time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC), time.Date(at.Year(), at.Month()+1, 0, 23, 0, 0, 0, time.UTC)} {
				rows = append(rows, fmt.Sprintf("('shop', %d, 'east', 'machine', 'm', 'u', 'n%d', 1, 0, 0, 0, 0)", hour.UnixMicro(), len(rows)))
			}
		}
		ofVersion(t, path, "0011", "INSERT INTO usage (project, hour, datacenter, kind, name, uid, node, cpu_seconds, memory_mib_seconds, disk_gib_seconds, received, sent) VALUES "+strings.Join(rows, ", "))
		s := open(t, path)
		defer s.Close()
		sum := func(from, until time.Time) (cpu int64) {
			list, err := s.Usage(t.Context(), ledger.UsageFilter{From: from, Until: until}, ledger.Page{})
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range list.Items {
				cpu += u.CPUSeconds
			}
			return cpu
		}
		total := int64(0)
		for month := time.Date(1999, 12, 1, 0, 0, 0, 0, time.UTC); month.Year() < 2033; month = month.AddDate(0, 1, 0) {
			next := month.AddDate(0, 1, 0)
			// Sums hour by hour.
			whole, hours := sum(month, next), sum(month.Add(-time.Microsecond), next.Add(-time.Microsecond))
			if total += whole; whole != hours {
				t.Errorf("%s: %d, and by the hour %d", month.Format("2006-01"), whole, hours)
			}
		}
		if total != int64(len(rows)) || sum(time.Time{}, time.Time{}) != total {
			t.Errorf("%d of %d are in some month", total, len(rows))
		}
	})
}

// A datacenter can report any number of resources, nodes and hours. Sums that overflow an integer are capped, and
// further events of the month are stored.
func TestSumsOfUsageEnd(t *testing.T) {
	onBoth(t, func(t *testing.T, path string) {
		hour := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		const most, half = 1 << 60, 1<<60 - 5 // cap of the store, and a sum of many hours
		var hours, months []string
		for i := range 20 {
			hours = append(hours, fmt.Sprintf("('shop', %d, 'east', 'machine', 'm', 'u', 'n%d', %[3]d, 0, 0, 0, 3)", hour.UnixMicro(), i, half))
			months = append(months, fmt.Sprintf("(%d, 'shop', 'machine', 'm%d', 'u', 'east', %d, %[3]d, %[4]d, 0, 0, 0, 3)", 12*2026+2, i, hour.UnixMicro(), half))
		}
		const columns = "cpu_seconds, memory_mib_seconds, disk_gib_seconds, received, sent"
		ofVersion(t, path, "0014", "INSERT INTO usage (project, hour, datacenter, kind, name, uid, node, "+columns+") VALUES "+strings.Join(hours, ", "),
			"INSERT INTO usage_of_months (month, project, kind, name, uid, datacenter, first, last, "+columns+") VALUES "+strings.Join(months, ", "))
		s := open(t, path)
		defer s.Close()
		used := func(n int64) writ.Event {
			return writ.Event{Journal: "j", Seq: n, Time: hour, Usage: &writ.Usage{
				ResourceID: writ.ResourceID{Project: "shop", Kind: "machine", Name: "m0"}, UID: "u", Node: "n1", Hour: hour, Used: writ.Used{CPUSeconds: 100 * n},
			}}
		}
		if err := s.StoreEvents(t.Context(), "east", []writ.Event{used(1), used(2), used(3)}); err != nil {
			t.Fatal(err)
		}
		whole, parts := ledger.UsageFilter{From: hour, Until: hour.AddDate(0, 1, 0)}, ledger.UsageFilter{From: hour.Add(-time.Minute)}
		list, err := s.Usage(t.Context(), whole, ledger.Page{Limit: 1})
		if err != nil || list.Items[0].CPUSeconds != most {
			t.Errorf("a resource in the month: %+v, %v", list.Items, err)
		}
		for name, filter := range map[string]ledger.UsageFilter{"a month": whole, "all months": {}, "hours": parts} {
			projects, err := s.UsageOfProjects(t.Context(), filter, ledger.Page{})
			if err != nil || len(projects.Items) != 1 || projects.Items[0].CPUSeconds != most || projects.Items[0].Sent != 60 {
				t.Errorf("projects, %s: %+v, %v", name, projects.Items, err)
			}
			if _, err := s.Usage(t.Context(), filter, ledger.Page{}); err != nil {
				t.Errorf("resources, %s: %v", name, err)
			}
		}
	})
}

func TestOldRunsAreFoundByScriptAndDeployment(t *testing.T) {
	row := func(n int, signer, body string) string {
		return fmt.Sprintf(`INSERT INTO runs (id, datacenter, project, project_name, signer, state, created, accepted, ended, body)
			VALUES ('%d', 'east', 'shop', 'web-shop', '%s', 'failed', %d, 1, 1, '{"id":"%d","datacenter":"east","project":"shop","project_name":"web-shop"%s')`, n, signer, n, n, body)
	}
	rest := `","payload":"` + strings.Repeat("0", 64) + `","state":"failed"}`
	onBoth(t, func(t *testing.T, path string) {
		ofVersion(t, path, "0007",
			row(1, "alice", `,"deployment":"web","signer":"alice","script":"web.tengo`+rest),
			row(2, "ci:shop/main", `,"deployment":"web-2 base 12","signer":"ci:shop/main","script":"Web_2.tengo`+rest),
			row(3, "alice", `,"signer":"alice","script":"web.tengo`+rest),
			row(4, "alice", `,"signer":"somebody else","script":"web.tengo`+rest))
		s := open(t, path)
		defer s.Close()
		for _, tt := range []struct {
			filter ledger.RunFilter
			want   string
		}{
			{ledger.RunFilter{Deployment: "web"}, "1"}, {ledger.RunFilter{Deployment: "web-2"}, "2"}, {ledger.RunFilter{Script: "web.tengo"}, "31"},
			{ledger.RunFilter{Script: "Web_2.tengo"}, "2"}, {ledger.RunFilter{Text: "WEB_2.t"}, "2"}, {ledger.RunFilter{Text: "ci:"}, "2"}, {ledger.RunFilter{}, "4321"},
		} {
			list, err := s.Runs(t.Context(), tt.filter, ledger.Page{})
			got := ""
			for _, run := range list.Items {
				got += string(run.ID)
			}
			if err != nil || got != tt.want {
				t.Errorf("%+v: %s, %v; want %s", tt.filter, got, err, tt.want)
			}
		}
	})
}

func TestEverythingIsThereAfterReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	payload := writ.DigestOf([]byte("payload"))
	in := ledger.Incoming{Submission: writ.Submission{
		Payload: payload, Run: writ.RunIDOf(payload), Datacenter: "dc", Signer: "alice", Script: "a.tengo",
		Received: time.Now(), Expires: time.Now().Add(time.Hour),
	}, Signed: []byte("signed")}
	s := open(t, path)
	if _, _, err := s.AddSubmission(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	node := &writ.Node{ID: "n1", Name: "node-1", Admission: writ.AdmissionApproved}
	if err := s.StoreEvents(t.Context(), "dc", []writ.Event{{Journal: "j", Seq: 1, Node: node}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = open(t, path)
	defer s.Close()
	waiting, err := s.Waiting(t.Context(), "dc", "", ledger.Position{}, 10)
	if err != nil || len(waiting) != 1 || waiting[0].Payload != payload {
		t.Errorf("waiting: %v, %v", waiting, err)
	}
	if last, _, err := s.LastEvent(t.Context(), "dc", "j"); err != nil || last != 1 {
		t.Errorf("last event of the journal = %d, %v", last, err)
	}
	if _, newest, err := s.EventRange(t.Context()); err != nil || newest != 2 {
		t.Errorf("newest event %d, %v", newest, err)
	}
}

// Rejected submissions cannot fill the ledger: their text is deleted, and only the newest of the signer are stored.
// Other signers are not affected.
func TestOldRejectedSubmissionsAreDeleted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	s := open(t, path)
	add := func(name, signer string) ledger.Incoming {
		payload := writ.DigestOf([]byte(name))
		in := ledger.Incoming{Submission: writ.Submission{
			Payload: payload, Run: writ.RunIDOf(payload), Datacenter: "dc", Signer: signer, Script: "a.tengo",
			Received: time.Now(), Expires: time.Now().Add(time.Hour),
		}, Signed: []byte("signed")}
		if _, _, err := s.AddSubmission(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		return in
	}
	for _, signer := range []string{"alice", "bob"} {
		in := add("the first of "+signer, signer)
		if err := s.Reject(t.Context(), in.Payload, writ.SubmissionRefused, writ.Errorf(writ.CodeConflict, "no")); err != nil {
			t.Fatal(err)
		}
	}
	waits := add("waits", "alice")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO submissions (payload, run, datacenter, project, signer, script, state, failure, received, expires)
		SELECT payload || i, run || i, datacenter, project, signer, script, state, failure, received + i, expires FROM submissions, n
		WHERE signer = 'alice' AND state = 'refused'`, ledger.MaxRejected); err != nil {
		t.Fatal(err)
	}
	last := add("the last", "alice")
	if err := s.Reject(t.Context(), last.Payload, writ.SubmissionExpired, nil); err != nil {
		t.Fatal(err)
	}
	var kept int
	if err := db.QueryRow(`SELECT COUNT(*) FROM submissions WHERE signer = 'alice' AND state IN ('refused', 'expired')`).Scan(&kept); err != nil || kept != ledger.MaxRejected {
		t.Errorf("%d are kept, %v", kept, err)
	}
	if text, err := s.Signed(t.Context(), waits.Payload); string(text) != "signed" || err != nil {
		t.Errorf("text of a waiting submission = %q, %v", text, err)
	}
	for name, want := range map[string]bool{"the first of alice": false, "the first of bob": true, "the last": true, "waits": true} {
		id := writ.DigestOf([]byte(name))
		if _, err := s.Submission(t.Context(), id); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := s.Run(t.Context(), writ.RunIDOf(id)); (err == nil) != want {
			t.Errorf("the run of %s: %v", name, err)
		}
	}
	wantEndedCounts(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
