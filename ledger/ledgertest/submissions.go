package ledgertest

import (
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"writ"
	"writ/ledger"
)

func testSubmissionOnce(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	in := incoming(1, east)
	got, added, err := l.AddSubmission(ctx, in)
	if diff := cmp.Diff(in.Submission, got); err != nil || !added || diff != "" {
		t.Errorf("first: added %v, %v\n%s", added, err, diff)
	}
	again := in
	again.Signed, again.Received, again.Signer = []byte("another signature of the same text"), at(60), "mallory"
	got, added, err = l.AddSubmission(ctx, again)
	if diff := cmp.Diff(in.Submission, got); err != nil || added || diff != "" {
		t.Errorf("again: added %v, %v\n%s", added, err, diff)
	}
	if signed, err := l.Signed(ctx, in.Payload); err != nil || string(signed) != string(in.Signed) {
		t.Errorf("signed bytes: %q, %v", signed, err)
	}
	run, err := l.Run(ctx, in.Run)
	want := ledger.Run{
		Run: writ.Run{ID: in.Run, Datacenter: east, Project: shop, ProjectName: "web-shop", Deployment: "web",
			Signer: "alice", Script: "web.tengo", Payload: in.Payload},
		State: ledger.StateWaiting, Created: in.Received,
	}
	if diff := cmp.Diff(want, run); err != nil || diff != "" {
		t.Errorf("its run: %v\n%s", err, diff)
	}
	all, _, err := l.Events(ctx, 0, ledger.EventFilter{}, 10)
	if err != nil || len(all) != 1 || all[0].Topic() != ledger.TopicSubmission || all[0].RunID() != in.Run ||
		all[0].Datacenter != east {
		t.Errorf("events: %+v, %v; want one about the submission", all, err)
	}
	none := writ.DigestOf([]byte("none"))
	_, err = l.Submission(ctx, none)
	wantCode(t, "unknown submission", err, writ.CodeNotFound)
	_, err = l.Signed(ctx, none)
	wantCode(t, "unknown bytes", err, writ.CodeNotFound)
	_, err = l.Run(ctx, writ.RunIDOf(none))
	wantCode(t, "unknown run", err, writ.CodeNotFound)
}

func testWaiting(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	for _, n := range []int{3, 1, 2} {
		add(t, l, incoming(n, east))
	}
	add(t, l, incoming(4, west))
	gone := incoming(0, east)
	add(t, l, gone)
	ok(t, l.Reject(ctx, gone.Payload, writ.SubmissionRefused, nil))
	const blog, wiki writ.ProjectID = "blog", "wiki"
	for i, project := range []writ.ProjectID{blog, wiki} {
		in := incoming(10+i, []writ.DatacenterID{east, west}[i])
		in.Project = project
		add(t, l, in)
	}
	projects, err := l.WaitingProjects(ctx, east)
	slices.Sort(projects)
	if diff := cmp.Diff([]writ.ProjectID{shop, blog}, projects); err != nil || diff != "" {
		t.Errorf("projects with waiting submissions: %v\n%s", err, diff)
	}
	if projects, err := l.WaitingProjects(ctx, "nowhere"); err != nil || len(projects) != 0 {
		t.Errorf("projects waiting for an unknown datacenter: %v, %v", projects, err)
	}

	var order []writ.Digest
	var after ledger.Position
	for {
		list, err := l.Waiting(ctx, east, shop, after, 2)
		ok(t, err)
		for _, s := range list {
			order = append(order, s.Payload)
			after = ledger.PositionOf(s)
		}
		if len(list) < 2 {
			break
		}
	}
	want := []writ.Digest{incoming(1, east).Payload, incoming(2, east).Payload, incoming(3, east).Payload}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Error(diff)
	}
}

func testOverdue(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	old, young := incoming(1, east), incoming(500, west)
	add(t, l, young)
	add(t, l, old)
	if list, err := l.Overdue(ctx, old.Expires, 10); err != nil || len(list) != 0 {
		t.Errorf("at the moment of expiry: %v, %v", list, err)
	}
	list, err := l.Overdue(ctx, young.Expires, 10)
	if err != nil || len(list) != 1 || list[0].Payload != old.Payload {
		t.Fatalf("overdue: %v, %v; want only the old one", list, err)
	}
	reason := writ.Errorf(writ.CodeExpired, "too late").WithHint("sign it again")
	ok(t, l.Reject(ctx, old.Payload, writ.SubmissionExpired, reason))
	if list, err := l.Overdue(ctx, young.Expires, 10); err != nil || len(list) != 0 {
		t.Errorf("after it expired: %v, %v", list, err)
	}
	s, err := l.Submission(ctx, old.Payload)
	if err != nil || s.State != writ.SubmissionExpired || s.Error == nil || s.Error.Code != writ.CodeExpired ||
		s.Error.Hint != "sign it again" {
		t.Errorf("submission: %+v, %v", s, err)
	}
	run, err := l.Run(ctx, old.Run)
	if err != nil || run.State != ledger.State(writ.RunExpired) || run.Ended.IsZero() || !run.Accepted.IsZero() {
		t.Errorf("run: %+v, %v", run, err)
	}
}

func testDelivered(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	in := incoming(1, east)
	add(t, l, in)
	run := runOf(in, writ.RunAccepted)
	ok(t, l.Deliver(ctx, in.Payload, run))
	ok(t, l.Deliver(ctx, in.Payload, run)) // the first answer was lost
	wantCode(t, "refuse", l.Reject(ctx, in.Payload, writ.SubmissionRefused, nil), writ.CodeConflict)
	wantCode(t, "expire", l.Reject(ctx, in.Payload, writ.SubmissionExpired, nil), writ.CodeConflict)
	got, err := l.Run(ctx, in.Run)
	want := ledger.Run{Run: run, State: ledger.State(writ.RunAccepted), Created: in.Received}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("run: %v\n%s", err, diff)
	}
	if list, err := l.Waiting(ctx, east, shop, ledger.Position{}, 10); err != nil || len(list) != 0 {
		t.Errorf("still waiting: %v, %v", list, err)
	}
	other := incoming(2, east)
	add(t, l, other)
	wantCode(t, "delivered as another run", l.Deliver(ctx, other.Payload, run), writ.CodeExecError)
	if s, err := l.Submission(ctx, other.Payload); err != nil || s.State != writ.SubmissionWaiting {
		t.Errorf("after a wrong answer: %+v, %v", s, err)
	}
	wantCode(t, "unknown submission", l.Deliver(ctx, writ.DigestOf(nil), run), writ.CodeNotFound)
	wantCode(t, "unknown submission", l.Reject(ctx, writ.DigestOf(nil), writ.SubmissionExpired, nil), writ.CodeNotFound)
}

func testRefused(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	in := incoming(1, east)
	add(t, l, in)
	ok(t, l.Reject(ctx, in.Payload, writ.SubmissionRefused, writ.Errorf(writ.CodeRoleMissing, "no role")))
	wantCode(t, "deliver", l.Deliver(ctx, in.Payload, runOf(in, writ.RunAccepted)), writ.CodeConflict)
	_, err := l.Signed(ctx, in.Payload)
	wantCode(t, "its text", err, writ.CodeNotFound)
	run, err := l.Run(ctx, in.Run)
	if err != nil || run.State != ledger.StateRefused || run.Failure == nil ||
		run.Failure.Code != writ.CodeRoleMissing {
		t.Errorf("run: %+v, %v", run, err)
	}
	all, _, err := l.Events(ctx, 0, ledger.EventFilter{Run: in.Run}, 10)
	if err != nil || len(all) != 2 || all[1].Submission == nil || all[1].Submission.State != writ.SubmissionRefused {
		t.Errorf("events: %+v, %v; want waiting, then refused", all, err)
	}
}

func testOneMover(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	in := incoming(1, east)
	add(t, l, in)
	var group sync.WaitGroup
	won := make(chan writ.SubmissionState, 30)
	for range 10 {
		group.Go(func() {
			if err := l.Reject(ctx, in.Payload, writ.SubmissionRefused, nil); err == nil {
				won <- writ.SubmissionRefused
			}
		})
		group.Go(func() {
			if err := l.Reject(ctx, in.Payload, writ.SubmissionExpired, nil); err == nil {
				won <- writ.SubmissionExpired
			}
		})
	}
	group.Wait()
	close(won)
	winner, second := <-won, <-won
	s, err := l.Submission(ctx, in.Payload)
	if err != nil || winner == "" || second != "" || s.State != winner {
		t.Errorf("moved to %q and %q, is %q, %v", winner, second, s.State, err)
	}
}

func testNewsDelivers(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	in := incoming(1, east)
	add(t, l, in)
	store(t, l, east, events(1, runEvent(runOf(in, writ.RunSucceeded))))
	if s, err := l.Submission(ctx, in.Payload); err != nil || s.State != writ.SubmissionDelivered {
		t.Errorf("submission: %+v, %v", s, err)
	}
	ok(t, l.Deliver(ctx, in.Payload, runOf(in, writ.RunAccepted))) // the answer arrives after the event
	if run, err := l.Run(ctx, in.Run); err != nil || run.State != ledger.State(writ.RunSucceeded) {
		t.Errorf("run: %+v, %v; an old answer must not replace an event", run, err)
	}
}

func testLateSubmission(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	in := incoming(1, east)
	store(t, l, east, events(1, runEvent(runOf(in, writ.RunRunning))))
	s, added, err := l.AddSubmission(ctx, in)
	if err != nil || !added || s.State != writ.SubmissionDelivered {
		t.Errorf("submission: %+v, added %v, %v", s, added, err)
	}
	if run, err := l.Run(ctx, in.Run); err != nil || run.State != ledger.State(writ.RunRunning) {
		t.Errorf("run: %+v, %v", run, err)
	}
}

// testMoves changes submissions at random and compares their states with the table of legal moves and with their
// events.
func testMoves(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	n, seq := 0, int64(1)
	rapid.Check(t, func(r *rapid.T) {
		n++
		in := incoming(n, east)
		add(t, l, in)
		state, changes := writ.SubmissionWaiting, 1
		for range rapid.IntRange(1, 4).Draw(r, "steps") {
			var err error
			switch rapid.SampledFrom([]string{"deliver", "refuse", "expire", "news", "again"}).Draw(r, "step") {
			case "deliver":
				err = l.Deliver(ctx, in.Payload, runOf(in, writ.RunAccepted))
			case "refuse":
				err = l.Reject(ctx, in.Payload, writ.SubmissionRefused, nil)
			case "expire":
				err = l.Reject(ctx, in.Payload, writ.SubmissionExpired, nil)
			case "news":
				err = l.StoreEvents(ctx, east, events(seq, runEvent(runOf(in, writ.RunRunning))))
				seq++
			case "again":
				_, _, err = l.AddSubmission(ctx, in)
			}
			if err != nil && writ.CodeOf(err) != writ.CodeConflict {
				r.Fatal(err)
			}
			s, err := l.Submission(ctx, in.Payload)
			if err != nil {
				r.Fatal(err)
			}
			if s.State != state {
				if !writ.CanMove(writ.SubmissionMoves, state, s.State) {
					r.Fatalf("moved from %s to %s", state, s.State)
				}
				state = s.State
				changes++
			}
		}
		told, _, err := l.Events(ctx, 0, ledger.EventFilter{Run: in.Run, Topics: []string{ledger.TopicSubmission}}, 100)
		if err != nil || len(told) != changes || told[len(told)-1].Submission.State != state {
			r.Fatalf("%d events for %d states, %v", len(told), changes, err)
		}
	})
}
