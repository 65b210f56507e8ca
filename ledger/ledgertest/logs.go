package ledgertest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/ledger"
)

// testLogRuns lists and counts runs, without the runs that only read logs. For a run with a submission, LogsOnly is the
// value of the submission. The datacenter's value counts only for a run without a submission.
func testLogRuns(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	reader, other, unknown, late := incoming(1, east), incoming(2, east), incoming(3, east), incoming(4, east)
	reader.LogsOnly, late.LogsOnly = true, true
	for _, in := range []ledger.Incoming{reader, other} {
		_, _, err := l.AddSubmission(ctx, in)
		ok(t, err)
	}
	of := func(in ledger.Incoming, logsOnly bool) writ.Event {
		run := runOf(in, writ.RunRunning)
		run.LogsOnly = logsOnly
		return runEvent(run)
	}
	store(t, l, east, events(1, of(reader, false), of(other, true), of(unknown, true), of(late, false)))
	_, _, err := l.AddSubmission(ctx, late) // after its run
	ok(t, err)
	want := map[writ.RunID]bool{reader.Run: true, other.Run: false, unknown.Run: true, late.Run: true}
	for _, states := range [][]ledger.State{nil, {ledger.State(writ.RunRunning)}} {
		for _, without := range []bool{false, true} {
			filter := ledger.RunFilter{WithoutLogs: without, States: states, Projects: []writ.ProjectID{shop}}
			list, err := l.Runs(ctx, filter, ledger.Page{})
			ok(t, err)
			got := map[writ.RunID]bool{}
			for _, run := range list.Items {
				got[run.ID] = run.LogsOnly
			}
			wanted := want
			if without {
				wanted = map[writ.RunID]bool{other.Run: false}
			}
			if diff := cmp.Diff(wanted, got); diff != "" {
				t.Errorf("%+v selects (-want +got):\n%s", filter, diff)
			}
			counts, err := l.CountRuns(ctx, filter)
			ok(t, err)
			if n := counts[shop][ledger.State(writ.RunRunning)]; n != len(wanted) {
				t.Errorf("%+v counts %d runs, want %d", filter, n, len(wanted))
			}
		}
	}
	run, err := l.Run(ctx, late.Run)
	if ok(t, err); !run.LogsOnly {
		t.Errorf("the late submission has no effect on %+v", run)
	}
}
