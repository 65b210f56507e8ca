package sqlstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/internal/sqldb"
	"writ/internal/test/testenv"
	"writ/ledger"
)

// A list of runs reads only the runs that it returns. A frequent query for a rare state must not scan all runs.
//
// Promise: Readers and roles: A list of runs reads only the runs that it shows if it is filtered by state, by project or
// signer, or by state and one of project, signer, datacenter, script and deployment.
// How: Each of them has an index in the order of the list.
//
// Promise: Operation: All pages of a list have the same size and cost, also in a large ledger.
// How: Keyset cursors, and an index for each order; the first page names 24 nodes and counts the others.
// Also: TestListsOfDeploymentsSortNothing, TestTheFirstPageNamesTheNodesWithMostCalls.
func TestRunListsReadOnlyListedRuns(t *testing.T) {
	s, err := Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	failed, both := []ledger.State{ledger.State(writ.RunFailed)}, []ledger.State{ledger.State(writ.RunFailed), ledger.State(writ.RunRunning)}
	shop, two := []writ.ProjectID{"p"}, []writ.ProjectID{"p", "q"}
	for name, tt := range map[string]struct {
		filter ledger.RunFilter
		index  string // of each part
		parts  int
	}{
		"all":                           {ledger.RunFilter{}, "runs_newest", 1},
		"of a project":                  {ledger.RunFilter{Projects: shop}, "runs_by_project (project=?", 1},
		"of two projects":               {ledger.RunFilter{Projects: two}, "runs_by_project (project=?", 2},
		"of a state":                    {ledger.RunFilter{States: failed}, "runs_ended_by_state (state=?", 1},
		"of an open state":              {ledger.RunFilter{States: both[1:]}, "runs_open_by_state (state=?", 1},
		"of two states":                 {ledger.RunFilter{States: both}, "_by_state (state=?", 2},
		"of a state of a project":       {ledger.RunFilter{States: failed, Projects: shop}, "runs_ended_by_project (project=? AND state=?", 1},
		"of two states of two projects": {ledger.RunFilter{States: both, Projects: two}, "state=?", 3},
		"of a state of a signer":        {ledger.RunFilter{States: failed, Signer: "alice"}, "runs_ended_by_signer (signer=? AND state=?", 1},
		"of a state of a datacenter":    {ledger.RunFilter{States: failed, Datacenter: "dc"}, "runs_ended_by_datacenter (datacenter=? AND state=?", 1},
		"of a state of a script":        {ledger.RunFilter{States: failed, Script: "s"}, "runs_ended_by_script (script=? AND state=?", 1},
		"of a deployment of a project":  {ledger.RunFilter{Deployment: "d", Datacenter: "dc", Projects: shop}, "runs_of_deployment (datacenter=? AND project=? AND deployment=?", 1},
		"of a deployment":               {ledger.RunFilter{Deployment: "d"}, "runs_by_deployment (deployment=?", 1},
		"of a state of a deployment":    {ledger.RunFilter{Deployment: "d", States: failed}, "runs_ended_by_deployment (deployment=? AND state=?", 1},
		"of a script":                   {ledger.RunFilter{Script: "s"}, "runs_by_script (", 1},
		"of a signer":                   {ledger.RunFilter{Signer: "alice"}, "runs_by_signer (", 1},
		"without readers of logs":       {ledger.RunFilter{WithoutLogs: true}, "runs_newest", 1},
		"of a state without them":       {ledger.RunFilter{States: failed, WithoutLogs: true}, "runs_ended_by_state (", 1},
		"silent":                        {ledger.RunFilter{Silent: time.Now(), WithoutLogs: true}, "runs_open_by_state (state=?", 3},
	} {
		for _, cursor := range []string{"", cursor(int64(1), "id")} {
			d, err := divisionOf(t.Context(), s.db, tt.filter)
			if err != nil || d.isSearch() {
				t.Fatalf("the list %s is a search: %+v, %v", name, d, err)
			}
			q, err := d.list(s.db, ledger.Page{Cursor: cursor}, nil)
			if err != nil {
				t.Fatal(err)
			}
			parts, plan := 0, strings.Join(planOf(t, s, q), "; ")
			for _, step := range planOf(t, s, q) {
				if strings.Contains(step, " runs ") {
					parts++
					if !strings.Contains(step, tt.index) {
						t.Errorf("the list %s is read by %s", name, step)
					}
				}
				if strings.Contains(step, "ORDER BY") {
					t.Errorf("the list %s is sorted: %s", name, plan)
				}
			}
			if parts != tt.parts {
				t.Errorf("the list %s has %d parts, want %d: %s", name, parts, tt.parts, plan)
			}
		}
	}
}

// A page of a search reads a bounded number of entries of one index, in their order. It reads the runs of these entries
// until the page is full.
//
// Promise: Readers and roles: A list of runs by any two of project, signer, datacenter, script and deployment reads at
// most 5,000 runs for a page.
// How: The index of the condition with the fewest runs gives the end of the page, without reading runs.
// Also: TestPagesOfASearchHaveEachRunOnce.
func TestSearchesReadOneIndexInOrder(t *testing.T) {
	s, _ := withRuns(t, 20) // signer-1 has the fewest runs, dc the most
	const script, deployment = "script-1.tengo", "web"
	failed, one, many := []ledger.State{ledger.State(writ.RunFailed)}, []writ.ProjectID{"p0"}, make([]writ.ProjectID, 100)
	for i := range many {
		many[i] = writ.ProjectID(fmt.Sprint("p", i))
	}
	for name, tt := range map[string]struct {
		filter       ledger.RunFilter
		index, ended string // without and with a state
	}{
		"a text":                     {ledger.RunFilter{Text: "x"}, "runs_newest", "runs_ended_by_state (state=?"},
		"a failure":                  {ledger.RunFilter{Failure: "X"}, "runs_newest", "runs_ended_by_state (state=?"},
		"an operation":               {ledger.RunFilter{Operation: "x.y"}, "runs_newest", "runs_ended_by_state (state=?"},
		"no operation":               {ledger.RunFilter{Operation: ledger.NoOperation}, "runs_newest", "runs_ended_by_state (state=?"},
		"a failure of a project":     {ledger.RunFilter{Failure: "X", Projects: one}, "runs_by_project (project=?", "runs_ended_by_project (project=? AND state=?"},
		"many projects":              {ledger.RunFilter{Projects: many}, "runs_newest", "runs_ended_by_state (state=?"},
		"project and signer":         {ledger.RunFilter{Projects: one, Signer: "signer-1"}, "runs_by_signer (signer=?", "runs_ended_by_signer (signer=? AND state=?"},
		"project and datacenter":     {ledger.RunFilter{Projects: one, Datacenter: "dc"}, "runs_by_project (project=?", "runs_ended_by_project (project=? AND state=?"},
		"many projects and signer":   {ledger.RunFilter{Projects: many, Signer: "signer-1"}, "runs_by_signer (signer=?", "runs_ended_by_signer (signer=? AND state=?"},
		"signer and datacenter":      {ledger.RunFilter{Signer: "signer-1", Datacenter: "dc"}, "runs_by_signer (signer=?", "runs_ended_by_signer (signer=? AND state=?"},
		"script and signer":          {ledger.RunFilter{Script: script, Signer: "signer-1"}, "runs_by_script (script=?", "runs_ended_by_script (script=? AND state=?"},
		"script and project":         {ledger.RunFilter{Script: script, Projects: one}, "runs_by_script (script=?", "runs_ended_by_script (script=? AND state=?"},
		"script and many projects":   {ledger.RunFilter{Script: script, Projects: many}, "runs_by_script (script=?", "runs_ended_by_script (script=? AND state=?"},
		"script and deployment":      {ledger.RunFilter{Script: script, Deployment: deployment}, "runs_by_deployment (deployment=?", "runs_ended_by_deployment (deployment=? AND state=?"},
		"deployment and project":     {ledger.RunFilter{Deployment: deployment, Projects: one}, "runs_by_deployment (deployment=?", "runs_ended_by_deployment (deployment=? AND state=?"},
		"all names of a project":     {ledger.RunFilter{Deployment: deployment, Datacenter: "dc", Signer: "alice", Projects: one}, "runs_of_deployment (", "runs_ended_by_deployment (deployment=? AND state=?"},
		"script and signer, a month": {ledger.RunFilter{Script: script, Signer: "signer-1", Since: time.UnixMicro(1)}, "runs_by_script (script=? AND created>?", "runs_ended_by_script (script=? AND state=? AND created>?"},
	} {
		for _, filter := range []ledger.RunFilter{tt.filter, withStates(tt.filter, failed)} {
			index := tt.index
			if len(filter.States) > 0 {
				index = tt.ended
			}
			for _, oldest := range []bool{false, true} {
				for _, cursor := range []string{"", cursor(int64(1), "id")} {
					filter.Oldest, filter.WithoutLogs = oldest, true
					d, err := divisionOf(t.Context(), s.db, filter)
					if err != nil || !d.isSearch() {
						t.Fatalf("%s: %+v is no search, %v", name, d, err)
					}
					last, err := d.lastExamined(s.db, ledger.Page{Cursor: cursor}, 5)
					if err != nil {
						t.Fatal(err)
					}
					if plan := planOf(t, s, last); len(plan) != 1 || !strings.Contains(plan[0], "COVERING INDEX "+index) {
						t.Errorf("%s: the end of a page is read by %q", name, plan)
					}
					list, err := d.list(s.db, ledger.Page{Cursor: cursor}, &place{1, "id"})
					if err != nil {
						t.Fatal(err)
					}
					plan := slices.DeleteFunc(planOf(t, s, list), func(step string) bool {
						return !strings.Contains(step, " runs ") && !strings.Contains(step, "ORDER BY")
					})
					if len(plan) != 1 || !strings.Contains(plan[0], "INDEX "+strings.TrimSuffix(index, " AND created>?")) || !strings.Contains(plan[0], "created") {
						t.Errorf("%s: a page is read by %q", name, plan)
					}
				}
			}
		}
	}
}

// PostgreSQL must not sort the runs of several states or projects. It does so if the parts of a query have no limits.
func TestPostgreSQLMergesParts(t *testing.T) {
	s, err := Open(t.Context(), testenv.Postgres(t).Store())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, text := range []string{
		`INSERT INTO runs (id, datacenter, project, project_name, signer, state, created, accepted, ended, body)
			SELECT 'r' || n, 'dc', 'p' || n % 2, '', 'alice', CASE WHEN n % 10 = 0 THEN 'failed' ELSE 'succeeded' END, n, n, n, '{}' FROM generate_series(1, 20000) AS n`,
		`ANALYZE runs`,
	} {
		if err := s.db.Write(t.Context(), func(tx *sqldb.Tx) error { _, err := tx.Exec(text); return err }); err != nil {
			t.Fatal(err)
		}
	}
	ended := []ledger.State{ledger.State(writ.RunFailed), ledger.State(writ.RunSucceeded)}
	for _, filter := range []ledger.RunFilter{{States: ended}, {States: ended, Projects: []writ.ProjectID{"p0", "p1"}}} {
		d, err := divisionOf(t.Context(), s.db, filter)
		if err != nil {
			t.Fatal(err)
		}
		list, err1 := d.list(s.db, ledger.Page{}, nil)
		last, err2 := d.lastExamined(s.db, ledger.Page{}, 500)
		count, err3 := d.newest(s.db, "project, state, COUNT(*)", "project, state", 500)
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		for name, q := range map[string]*query{"list": list, "end of a page": last, "count": count} {
			steps, err := column[string](s.db.Query(t.Context(), "EXPLAIN (COSTS off) "+q.String(), q.args...))
			plan := strings.Join(steps, "\n")
			if err != nil || !strings.Contains(plan, "Merge Append") || strings.Contains(plan, "Seq Scan") {
				t.Errorf("%s of %+v: %v\n%s", name, filter, err, plan)
			}
		}
	}
}

func withStates(filter ledger.RunFilter, states []ledger.State) ledger.RunFilter {
	filter.States = states
	return filter
}

// A group of failures reads a bounded number of failed runs, from the newest.
func TestFailuresReadOnlyFailedRuns(t *testing.T) {
	s, _ := withRuns(t, 20)
	for name, tt := range map[string]struct {
		filter ledger.RunFilter
		index  string
		parts  int
	}{
		"all":          {ledger.RunFilter{WithoutLogs: true}, "COVERING INDEX runs_by_failure", 1},
		"of a month":   {ledger.RunFilter{Since: time.UnixMicro(1)}, "COVERING INDEX runs_by_failure (created>?", 1},
		"of a project": {ledger.RunFilter{Projects: []writ.ProjectID{"p0"}}, "COVERING INDEX runs_ended_by_project (project=? AND state=?", 4},
		"of a script":  {ledger.RunFilter{Script: "script-1.tengo", Signer: "signer-1"}, "COVERING INDEX runs_ended_by_script (script=? AND state=?", 4},
	} {
		q, err := groupFailures(t.Context(), s.db, tt.filter, 5)
		if err != nil {
			t.Fatal(err)
		}
		parts := 0
		for _, step := range planOf(t, s, q) {
			if strings.Contains(step, " runs ") {
				parts++
			}
			if strings.Contains(step, "ORDER BY") || strings.Contains(step, " runs ") && !strings.Contains(step, tt.index) {
				t.Errorf("the failures %s are read by %s", name, step)
			}
		}
		if parts != tt.parts {
			t.Errorf("the failures %s have %d parts", name, parts)
		}
	}
}

// Every page counts runs each second. A count reads an index of open runs, and the stored numbers of ended runs or a
// bounded number of entries of an index.
//
// Promise: Operation: The first page and the metrics take the same time with any number of ended runs.
// How: The transaction that ends a run changes the stored numbers of ended runs.
// Also: TestLedgerInMemory, TestLedgerOnPostgreSQL.
func TestCountsOfRunsReadNoRuns(t *testing.T) {
	s, err := Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, filter := range map[string]ledger.RunFilter{
		"all": {}, "without readers of logs": {WithoutLogs: true},
		"of a project":    {Projects: []writ.ProjectID{"p"}, WithoutLogs: true},
		"of a datacenter": {Datacenter: "dc", WithoutLogs: true}, "of a signer": {Signer: "alice", WithoutLogs: true},
		"of two projects": {Projects: []writ.ProjectID{"p", "q"}, Signer: "alice", States: []ledger.State{ledger.State(writ.RunFailed), ledger.StateWaiting}},
		"silent":          {Silent: time.Now(), WithoutLogs: true}, "silent, of a deployment": {Silent: time.Now(), Deployment: "d"},
	} {
		counted := 0
		for _, step := range planOf(t, s, countOpen(filter)) {
			if strings.Contains(step, " runs ") {
				counted++
				if !strings.Contains(step, "COVERING INDEX") {
					t.Errorf("%s: they are counted by %s", name, step)
				}
			}
		}
		if counted != 1 {
			t.Errorf("%s: %d counts of open runs, want 1", name, counted)
		}
		if _, ended := split(statesOf(filter)); len(ended) > 0 && !isCounted(filter) {
			t.Errorf("%s: the ended runs are read", name)
		}
	}
}

// A page of the events of a run reads the entries of an index in their order.
func TestEventsOfRunsSortNothing(t *testing.T) {
	s, err := Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for number, index := range []string{"events_of_run (run=?", "events_of_numbered_run (run_number=?"} {
		q := listEvents(5, ledger.EventFilter{Run: "r1", Topics: []string{"call"}}, int64(number), 10)
		if steps := planOf(t, s, q); len(steps) != 1 || !strings.Contains(steps[0], index+" AND id>?") {
			t.Errorf("a run with the number %d: %q", number, steps)
		}
	}
}

// The first page counts resources with a problem every second. Few resources have one.
func TestTroubledResourcesAreReadByTheirIndex(t *testing.T) {
	s, err := Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, filter := range map[string]ledger.ResourceFilter{
		"all": {Troubled: true}, "of a project": {Troubled: true, Projects: []writ.ProjectID{"p"}},
		"of two": {Troubled: true, Projects: []writ.ProjectID{"p", "q"}},
	} {
		list, err := listResources(filter, ledger.Page{})
		if err != nil {
			t.Fatal(err)
		}
		count := selectFrom(`SELECT kind, COUNT(*) FROM resources`)
		selectResources(count, filter)
		count.add("\nGROUP BY kind")
		for _, q := range []*query{list, count} {
			if plan := planOf(t, s, q); !strings.Contains(plan[0], "resources_troubled") {
				t.Errorf("%s: %q", name, plan)
			}
		}
	}
}

// A page of deployments reads resources in index order, without sorting. The last page reads no more rows than the
// first.
func TestListsOfDeploymentsSortNothing(t *testing.T) {
	s, err := Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, page := range map[string]ledger.Page{"first": {}, "deeper": {Cursor: cursor("d", "p", "web")}} {
		for _, filter := range []ledger.ResourceFilter{{}, {Datacenter: "d"}, {Datacenter: "d", Projects: []writ.ProjectID{"p"}}} {
			q, err := listDeployments(filter, page)
			if err != nil {
				t.Fatal(err)
			}
			if steps := planOf(t, s, q); len(steps) != 1 || !strings.Contains(steps[0], "resources_by_deployment") {
				t.Errorf("the %s page of %+v is read by %q", name, filter, steps)
			}
		}
	}
}

// A page of monthly usage reads only its own rows, in index order.
func TestUsageOfAMonthSortsNothing(t *testing.T) {
	s, err := Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	march := ledger.UsageFilter{From: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)}
	ofShop := march
	ofShop.Projects = []writ.ProjectID{"shop"}
	for _, filter := range []ledger.UsageFilter{march, ofShop} {
		resources, err := listUsage(filter, ledger.Page{})
		if err != nil {
			t.Fatal(err)
		}
		projects, err := listUsageOfProjects(filter, ledger.Page{})
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range []*query{resources, projects} {
			if steps := planOf(t, s, q); len(steps) != 1 || !strings.Contains(steps[0], "usage_of_months") || !strings.Contains(steps[0], "month=?") {
				t.Errorf("it is read by %q", steps)
			}
		}
	}
}

// Pruning reads old runs in steps, and for each run only the newer ones of its deployment.
func TestPruningReadsOnlyOldRuns(t *testing.T) {
	s, err := Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	q := selectFrom(oldRuns)
	q.args = []any{1, 0, "", "", 1}
	plan := strings.Join(planOf(t, s, q), "; ")
	for _, want := range []string{"SEARCH runs USING INDEX runs_ended", "SEARCH newer USING INDEX runs_of_deployment (datacenter=? AND project=? AND deployment=? AND created>? AND created<?)"} {
		if !strings.Contains(plan, want) {
			t.Errorf("old runs are read by %s; want %s", plan, want)
		}
	}
	if strings.Contains(plan, "SCAN") || strings.Contains(plan, "TEMP B-TREE") {
		t.Errorf("old runs are read by %s", plan)
	}
}

// planOf returns the steps of a query plan.
func planOf(t *testing.T, s *Store, q *query) (steps []string) {
	t.Helper()
	rows, err := s.db.Query(t.Context(), "EXPLAIN QUERY PLAN "+q.String(), q.args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, step)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return steps
}
