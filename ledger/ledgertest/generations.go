package ledgertest

import (
	"testing"

	"writ"
	"writ/ledger"
)

const otherJournal = "0192f6c2-0000-7000-8000-0000000000d2"

// of moves events to another journal.
func of(journal string, events []writ.Event) []writ.Event {
	for i := range events {
		events[i].Journal = journal
	}
	return events
}

func testAnotherJournal(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	node := writ.Node{
		ID: "n1", Name: "node-1", Admission: writ.AdmissionApproved, Scheduling: writ.SchedulingOpen,
		Liveness: writ.LivenessReady,
	}
	late, elsewhere := node, node
	late.ID, late.Name = "n2", "node-2"
	volume := writ.Resource{ResourceID: writ.ResourceID{Project: shop, Kind: writ.KindVolume, Name: "data"}, UID: "u1"}
	store(t, l, west, events(1, writ.Event{Node: &elsewhere}))
	store(t, l, east, events(1, writ.Event{Node: &node}, writ.Event{Node: &late}, writ.Event{Resource: &volume}))

	store(t, l, east, of(otherJournal, events(2, writ.Event{Node: &node}))) // node-2 and the volume are newer
	store(t, l, east, of(otherJournal, events(3, writ.Event{Node: &node})))
	nodes, err := l.Nodes(ctx, ledger.NodeFilter{}, ledger.Page{})
	if err != nil || len(nodes.Items) != 2 || nodes.Items[0].ID != "n1" || nodes.Items[1].Datacenter != west {
		t.Errorf("nodes: %+v, %v", nodes.Items, err)
	}
	resources, err := l.Resources(ctx, ledger.ResourceFilter{}, ledger.Page{})
	if err != nil || len(resources.Items) != 0 {
		t.Errorf("resources: %+v, %v", resources.Items, err)
	}
}

func testUnreported(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	told := incoming(1, east)
	ended := incoming(2, east)
	lost := incoming(3, east)
	answered := incoming(4, east)
	elsewhere := incoming(5, west)
	waiting := incoming(6, east)
	for _, in := range []ledger.Incoming{told, ended, lost, answered, elsewhere, waiting} {
		add(t, l, in)
	}
	store(t, l, west, events(1, runEvent(runOf(elsewhere, writ.RunRunning))))
	store(t, l, east, events(1, runEvent(runOf(told, writ.RunRunning)), runEvent(runOf(ended, writ.RunSucceeded)),
		runEvent(runOf(lost, writ.RunRunning)), callEvent(writ.Call{Run: lost.Run, Seq: 1, State: writ.CallSucceeded}),
		callEvent(writ.Call{Run: lost.Run, Seq: 2, State: writ.CallRunning})))
	ok(t, l.Deliver(ctx, answered.Payload, runOf(answered, writ.RunAccepted))) // no event follows

	unreported := func(journal string) map[writ.RunID]bool {
		t.Helper()
		found := map[writ.RunID]bool{}
		for after := writ.RunID(""); ; {
			runs, err := l.Unreported(ctx, east, journal, after, 1)
			ok(t, err)
			if len(runs) == 0 {
				return found
			}
			after = runs[0].ID
			found[after] = true
		}
	}
	if got := unreported(journal); len(got) != 1 || !got[answered.Run] {
		t.Errorf("unreported by the first journal: %v", got)
	}
	store(t, l, east, of(otherJournal, events(1, runEvent(runOf(told, writ.RunRunning)))))
	if got := unreported(otherJournal); len(got) != 2 || !got[answered.Run] || !got[lost.Run] {
		t.Errorf("unreported by another journal: %v", got)
	}

	failed := runOf(lost, writ.RunFailed)
	failed.Failure = &writ.Failure{Error: *writ.Errorf(writ.CodeRunLost, "lost")}
	_, newest, err := l.EventRange(ctx)
	ok(t, err)
	ok(t, l.Restate(ctx, east, otherJournal, failed))
	ok(t, l.Restate(ctx, east, otherJournal, runOf(answered, writ.RunRunning)))
	// The answer is older than the stored event.
	ok(t, l.Restate(ctx, east, otherJournal, runOf(told, writ.RunAccepted)))
	if got := unreported(otherJournal); len(got) != 0 {
		t.Errorf("after the answers: %v", got)
	}
	for in, want := range map[*ledger.Incoming]writ.RunState{
		&lost: writ.RunFailed, &answered: writ.RunRunning, &told: writ.RunRunning,
	} {
		if run, err := l.Run(ctx, in.Run); err != nil || run.State != ledger.State(want) {
			t.Errorf("run %s is %s, %v; want %s", in.Run, run.State, err, want)
		}
	}
	calls, err := l.Calls(ctx, lost.Run, ledger.Page{})
	if err != nil || len(calls.Items) != 2 || calls.Items[0].State != writ.CallSucceeded ||
		calls.Items[1].State != writ.CallFailed {
		t.Errorf("calls of the lost run: %+v, %v", calls.Items, err)
	}
	news, _, err := l.Events(ctx, newest, ledger.EventFilter{}, 10)
	if err != nil || len(news) != 2 || news[0].Run == nil || news[0].RunID() != lost.Run || news[0].Journal != "" {
		t.Errorf("events: %+v, %v", news, err)
	}
}
