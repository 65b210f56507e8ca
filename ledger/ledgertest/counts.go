package ledgertest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/ledger"
)

// testEndedCounts counts ended runs that are reported again.
func testEndedCounts(t *testing.T, l ledger.Ledger) {
	late, foreign, answered, resumed := incoming(1, east), incoming(2, east), incoming(3, east), incoming(4, east)
	late.LogsOnly = true
	for _, in := range []ledger.Incoming{foreign, answered, resumed} {
		add(t, l, in)
	}
	store(t, l, east, events(1,
		runEvent(runOf(late, writ.RunFailed)), runEvent(runOf(foreign, writ.RunSucceeded)),
		runEvent(runOf(resumed, writ.RunFailed))))
	add(t, l, late) // the submission of a run that the datacenter has reported
	store(t, l, west, events(1, runEvent(runOf(foreign, writ.RunRunning))))
	ok(t, l.Deliver(t.Context(), answered.Payload, runOf(answered, writ.RunCancelled)))
	store(t, l, east, events(4, runEvent(runOf(resumed, writ.RunRunning))))
	for _, tt := range []struct {
		filter ledger.RunFilter
		want   map[ledger.State]int
	}{
		{ledger.RunFilter{}, map[ledger.State]int{"failed": 1, "succeeded": 1, "cancelled": 1, "running": 1}},
		{ledger.RunFilter{WithoutLogs: true}, map[ledger.State]int{"succeeded": 1, "cancelled": 1, "running": 1}},
		{ledger.RunFilter{Datacenter: west}, map[ledger.State]int{}},
	} {
		counts, err := l.CountRuns(t.Context(), tt.filter)
		if diff := cmp.Diff(tt.want, counts.Total()); err != nil || diff != "" {
			t.Errorf("%+v: %v\n%s", tt.filter, err, diff)
		}
	}
}
