package ledgertest

import (
	"bytes"
	"testing"
	"time"

	"writ"
	"writ/ledger"
)

// revision is the run of a submission to a deployment. It ends one minute after second n.
type revision struct {
	n          int
	datacenter writ.DatacenterID
	project    writ.ProjectID
	deployment string
	state      writ.RunState
	change     func(r *writ.Run) // nil for none
	kept       bool
	why        string
}

// testPruneRevisions prunes runs that ended before second 160.
func testPruneRevisions(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	lost := func(r *writ.Run) { r.Failure = &writ.Failure{Error: writ.Error{Code: writ.CodeRunLost}} }
	unaccepted := func(r *writ.Run) { r.Accepted, r.Revision = time.Time{}, 0 }
	revisions := []revision{
		{1, east, shop, "web", writ.RunSucceeded, nil, true, "no later revision succeeded"},
		{2, east, shop, "web", writ.RunFailed, nil, false, "a failed revision that another one replaced"},
		{3, east, shop, "web", writ.RunFailed, nil, true, "the newest revision"},
		{4, east, shop, "api", writ.RunSucceeded, nil, false, "a revision that another one replaced"},
		{5, east, shop, "api", writ.RunSucceeded, nil, true, "the newest revision, which succeeded"},
		{6, east, shop, "mail", writ.RunSucceeded, nil, true, "a revision that another one replaced recently"},
		{106, east, shop, "mail", writ.RunSucceeded, nil, true, "a recent revision"},
		{7, east, shop, "lost", writ.RunFailed, nil, true, "the newest revision that the datacenter knows"},
		{8, east, shop, "lost", writ.RunFailed, lost, false, "a run that the datacenter lost"},
		{9, east, bank, "web", writ.RunSucceeded, nil, true, "the newest revision in another project"},
		{10, west, shop, "web", writ.RunCancelled, nil, true, "the newest revision in another datacenter"},
		{11, east, shop, "", writ.RunSucceeded, nil, false, "a run without a deployment"},
		{12, east, shop, "cron", writ.RunFailed, nil, true, "the newest accepted revision"},
		{13, east, shop, "cron", writ.RunFailed, unaccepted, false, "a submission that the datacenter did not accept"},
		{14, east, shop, "busy", writ.RunFailed, nil, true, "the newest revision that has ended"},
		{15, east, shop, "busy", writ.RunRunning, nil, true, "an open run"},
	}
	next := map[writ.DatacenterID]int64{}
	numbers := map[string]int{}
	runs := make([]ledger.Incoming, len(revisions))
	for i, r := range revisions {
		in := incoming(r.n, r.datacenter)
		in.Project, in.Deployment = r.project, r.deployment
		runs[i] = in
		add(t, l, in)
		run := runOf(in, r.state)
		name := string(r.datacenter) + string(r.project) + r.deployment
		numbers[name]++
		run.Revision = numbers[name]
		if r.change != nil {
			r.change(&run)
		}
		next[r.datacenter] += 2
		store(t, l, r.datacenter, events(next[r.datacenter]-1, runEvent(run),
			callEvent(writ.Call{Run: run.ID, Seq: 1, State: writ.CallSucceeded})))
	}
	ghost := runOf(incoming(16, east), writ.RunSucceeded)
	ghost.Deployment, ghost.Revision = "ghost", 1
	store(t, l, east, events(next[east]+1, runEvent(ghost)))

	for range 2 { // the second call must have no effect
		ok(t, l.Prune(ctx, time.Time{}, at(160)))
		for i, r := range revisions {
			wantRevision(t, l, runs[i], r.kept, r.why)
		}
	}
	_, err := l.Run(ctx, ghost.ID)
	wantCode(t, "a run whose text is not stored here", err, writ.CodeNotFound)

	ok(t, l.Prune(ctx, time.Time{}, at(200)))
	for i, r := range revisions {
		wantRevision(t, l, runs[i], r.kept && r.n != 6, "later: "+r.why)
	}
}

// wantRevision checks that a revision is stored with its text and its call, or deleted with both.
func wantRevision(t *testing.T, l ledger.Ledger, in ledger.Incoming, kept bool, why string) {
	t.Helper()
	run, err := l.Run(t.Context(), in.Run)
	signed, textErr := l.Signed(t.Context(), in.Payload)
	calls, callsErr := l.Calls(t.Context(), in.Run, ledger.Page{})
	ok(t, callsErr)
	if kept {
		if err != nil || textErr != nil || !bytes.Equal(signed, in.Signed) || len(calls.Items) != 1 {
			t.Errorf("%s: run %q of %s: %v, text %q: %v, %d calls; want all of it", why, run.State, in.Deployment, err, signed,
				textErr, len(calls.Items))
		}
		return
	}
	wantCode(t, why, err, writ.CodeNotFound)
	wantCode(t, why+": the text", textErr, writ.CodeNotFound)
	if len(calls.Items) != 0 {
		t.Errorf("%s: %d calls are left", why, len(calls.Items))
	}
}
