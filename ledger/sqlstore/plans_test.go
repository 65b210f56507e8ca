package sqlstore

import (
	"strings"
	"testing"
	"time"

	"writ"
	"writ/ledger"
)

// A list of runs reads only the runs that it returns. A frequent query for a rare state must not scan all runs.
//
// Promise: Readers and roles: A list of runs filtered by project or state reads only the runs that it shows.
// How: Each filter has an index in the order of the list.
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
	failed := []ledger.State{ledger.State(writ.RunFailed)}
	for name, tt := range map[string]struct {
		filter ledger.RunFilter
		index  string
	}{
		"all":                          {ledger.RunFilter{}, "runs_newest"},
		"of a project":                 {ledger.RunFilter{Projects: []writ.ProjectID{"p"}}, "runs_by_project ("},
		"of a state":                   {ledger.RunFilter{States: failed}, "runs_by_state ("},
		"of both":                      {ledger.RunFilter{States: failed, Projects: []writ.ProjectID{"p"}}, "runs_by_project_state ("},
		"of a deployment of a project": {ledger.RunFilter{Deployment: "d", Datacenter: "dc", Projects: []writ.ProjectID{"p"}, States: failed}, "runs_by_deployment ("},
		"of a script of a project":     {ledger.RunFilter{Script: "s", Signer: "alice", Projects: []writ.ProjectID{"p"}}, "runs_by_script ("},
		"of a signer":                  {ledger.RunFilter{Signer: "alice"}, "runs_by_signer ("},
		"without readers of logs":      {ledger.RunFilter{WithoutLogs: true}, "runs_newest"},
		"of a state without them":      {ledger.RunFilter{States: failed, WithoutLogs: true}, "runs_by_state ("},
	} {
		q, err := listRuns(tt.filter, ledger.Page{})
		if err != nil {
			t.Fatal(err)
		}
		steps := planOf(t, s, q)
		if plan := strings.Join(steps, "; "); len(steps) != 1 || !strings.Contains(plan, tt.index) {
			t.Errorf("the list %s is read by %s", name, plan)
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
	} {
		q := selectFrom(`SELECT project, state, COUNT(*) FROM runs`)
		selectRuns(q, filter)
		q.add("\nGROUP BY project, state")
		if plan := strings.Join(planOf(t, s, q), "; "); !strings.Contains(plan, "COVERING INDEX") {
			t.Errorf("%s: they are counted by %s", name, plan)
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
