package sqlstore

import (
	"strings"
	"testing"

	"writ"
	"writ/ledger"
)

// A list of runs reads the runs that it shows. One that is asked for every few seconds, of a state that few runs have, must not look at all others.
func TestListsOfRunsReadWhatTheyShow(t *testing.T) {
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
	} {
		q, err := listRuns(tt.filter, ledger.Page{})
		if err != nil {
			t.Fatal(err)
		}
		rows, err := s.db.Query(t.Context(), "EXPLAIN QUERY PLAN "+q.String(), q.args...)
		if err != nil {
			t.Fatal(err)
		}
		var steps []string
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
		rows.Close()
		if plan := strings.Join(steps, "; "); len(steps) != 1 || !strings.Contains(plan, tt.index) {
			t.Errorf("the list %s is read by %s", name, plan)
		}
	}
}
