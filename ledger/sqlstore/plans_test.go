package sqlstore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"writ"
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
		"of many projects":              {ledger.RunFilter{Projects: make([]writ.ProjectID, 100)}, "runs_newest", 1},
		"of a state":                    {ledger.RunFilter{States: failed}, "runs_ended_by_state (state=?", 1},
		"of an open state":              {ledger.RunFilter{States: both[1:]}, "runs_open_by_state (state=?", 1},
		"of two states":                 {ledger.RunFilter{States: both}, "_by_state (state=?", 2},
		"of a state of a project":       {ledger.RunFilter{States: failed, Projects: shop}, "runs_ended_by_project (project=? AND state=?", 1},
		"of two states of two projects": {ledger.RunFilter{States: both, Projects: two}, "state=?", 4},
		"of a state of a signer":        {ledger.RunFilter{States: failed, Signer: "alice"}, "runs_ended_by_signer (signer=? AND state=?", 1},
		"of a state of a datacenter":    {ledger.RunFilter{States: failed, Datacenter: "dc"}, "runs_ended_by_datacenter (datacenter=? AND state=?", 1},
		"of a state of a script":        {ledger.RunFilter{States: failed, Script: "s"}, "runs_ended_by_script (script=? AND state=?", 1},
		"of a deployment of a project":  {ledger.RunFilter{Deployment: "d", Datacenter: "dc", Projects: shop}, "runs_by_deployment (", 1},
		"of a state of such a one":      {ledger.RunFilter{Deployment: "d", Datacenter: "dc", Projects: shop, States: failed}, "runs_ended_by_deployment (deployment=? AND state=?", 1},
		"of a script of a project":      {ledger.RunFilter{Script: "s", Signer: "alice", Projects: shop}, "runs_by_script (", 1},
		"of a script of two projects":   {ledger.RunFilter{Script: "s", Projects: two}, "runs_by_script (", 1},
		"of a signer":                   {ledger.RunFilter{Signer: "alice"}, "runs_by_signer (", 1},
		"without readers of logs":       {ledger.RunFilter{WithoutLogs: true}, "runs_newest", 1},
		"of a state without them":       {ledger.RunFilter{States: failed, WithoutLogs: true}, "runs_ended_by_state (", 1},
		"silent":                        {ledger.RunFilter{Silent: time.Now(), WithoutLogs: true}, "runs_open_by_state (state=?", 3},
	} {
		for i := range tt.filter.Projects {
			if tt.filter.Projects[i] == "" {
				tt.filter.Projects[i] = writ.ProjectID(fmt.Sprint("p", i))
			}
		}
		for _, cursor := range []string{"", cursor(int64(1), "id")} {
			q, err := listRuns(tt.filter, ledger.Page{Cursor: cursor})
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
				// A merge of parts is sorted: it has at most a page of each.
				if strings.Contains(step, "TEMP B-TREE") && tt.parts == 1 {
					t.Errorf("the list %s is sorted: %s", name, plan)
				}
			}
			if parts != tt.parts {
				t.Errorf("the list %s has %d parts, want %d: %s", name, parts, tt.parts, plan)
			}
		}
	}
}

// Every page counts runs each second, so a count reads an index and no runs.
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
		"silent": {Silent: time.Now(), WithoutLogs: true}, "silent, of a deployment": {Silent: time.Now(), Deployment: "d"},
	} {
		counted := 0
		open, ended := countRuns(filter)
		for _, q := range []*query{open, ended} {
			if q == nil {
				continue
			}
			for _, step := range planOf(t, s, q) {
				if strings.Contains(step, " runs ") {
					counted++
					if !strings.Contains(step, "COVERING INDEX") {
						t.Errorf("%s: they are counted by %s", name, step)
					}
				}
			}
		}
		if want := map[bool]int{true: 2, false: 1}[filter.Silent.IsZero()]; counted != want { // open and ended runs
			t.Errorf("%s: %d counts, want %d", name, counted, want)
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
