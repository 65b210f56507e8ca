package journal

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoQuestionReadsMoreThanItsAnswer checks that the frequent queries, every second or for every call, use an index
// in the order of the answer. Otherwise their cost would grow with the number of waiting runs.
func TestNoQuestionReadsMoreThanItsAnswer(t *testing.T) {
	j, err := Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	for _, tt := range []struct{ name, query, index string }{
		{"oldRuns", oldRuns, "runs_ended"},
		{"pendingRuns", pendingRuns, "runs_pending"},
		{"dueRuns", dueRuns, "runs_due"},
		{"uncheckedRuns", uncheckedRuns, "runs_judged"},
		{"openEngines", openEngines, "runs_engine"},
		{"runsOfEngine", runsOfEngine, "runs_engine"},
		{"earlierRun", earlierRun, "runs_deployment"},
		{"nextOf", nextOf, "runs_deployment"},
		{"callsOf", callsOf, "sqlite_autoindex_calls_1"},
		{"sentCalls", sentCalls, "calls_sent"},
		{"sentByProject", sentByProject, "calls_sent"},
		{"nextSendable", nextSendable, "calls_sendable"},
		{"sendable", sendable, "calls_sendable"},
		{"dueCalls", dueCalls, "calls_due"},
		{"heldCalls", heldCalls, "calls_held"},
		{"openCallOn", openCallOn, "calls_claimed"},
		{"openCallsOn", openCallsOn, "calls_claimed"},
		{"resourcesNamed", resourcesNamed, "sqlite_autoindex_resources_1"},
		{"runsWaitingFor", runsWaitingFor, "calls_waiting"},
		{"leftCalls", leftCalls, "calls_left"},
		{"runsSentTo", runsSentTo, "calls_sent"},
		{"runsPlacedOn", runsPlacedOn, "calls_placed"},
		{"oldestPlaced", oldestPlaced, "calls_placed"},
		{"oldestDue", oldestDue, "calls_due"},
		{"oldestHeld", oldestHeld, "calls_held"},
	} {
		plan := explain(t, j, tt.query)
		for i, step := range plan {
			scans := strings.HasPrefix(step, "SCAN") && (i > 0 || !strings.Contains(step, "INDEX "+tt.index))
			if scans || strings.Contains(step, "TEMP B-TREE") {
				t.Errorf("%s: %s", tt.name, step)
			}
		}
		if len(plan) == 0 || !strings.Contains(plan[0], "INDEX "+tt.index) {
			t.Errorf("%s does not begin with %s: %q", tt.name, tt.index, plan)
		}
	}
}

// explain returns the steps of the engine's plan for a query.
func explain(t *testing.T, j *Journal, query string) []string {
	t.Helper()
	var args []any // their values do not matter
	for strings.Contains(query, fmt.Sprintf("$%d", len(args)+1)) {
		args = append(args, "")
	}
	rows, err := j.db.Query(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		plan = append(plan, step)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan
}
