package ledgertest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/ledger"
)

func testEventsOnce(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	in := incoming(1, east)
	all := events(1,
		runEvent(runOf(in, writ.RunAccepted)),
		callEvent(writ.Call{Run: in.Run, Seq: 1, State: writ.CallQueued}),
		writ.Event{Log: &writ.LogLine{Run: in.Run, Ordinal: 1, Text: "hello"}},
		runEvent(runOf(in, writ.RunRunning)),
		callEvent(writ.Call{Run: in.Run, Seq: 1, State: writ.CallSucceeded}),
	)
	store(t, l, east, all[:2])
	store(t, l, east, all[:2]) // the acknowledgement was lost
	store(t, l, east, all[1:]) // sent again with more events
	store(t, l, east, nil)
	if last, at, err := l.LastEvent(ctx, east, journal); err != nil || last != 5 || !at.Equal(epoch) {
		t.Errorf("the last event of the journal is %d at %v, %v; want 5", last, at, err)
	}
	got, _, err := l.Events(ctx, 0, ledger.EventFilter{}, 100)
	ok(t, err)
	var seqs []int64
	for i, e := range got {
		seqs = append(seqs, e.Seq)
		if i > 0 && e.ID <= got[i-1].ID {
			t.Errorf("event %d has the id %d after %d", i, e.ID, got[i-1].ID)
		}
	}
	if diff := cmp.Diff([]int64{1, 2, 3, 4, 5}, seqs); diff != "" {
		t.Errorf("stored: %s", diff)
	}
	if line := got[2].Log; line == nil || line.Text != "hello" {
		t.Errorf("third event: %+v", got[2])
	}
	if last, _, err := l.LastEvent(ctx, west, journal); err != nil || last != 0 {
		t.Errorf("the last event of another datacenter's journal is %d, %v; want 0", last, err)
	}
	if last, err := l.LastEvents(ctx); err != nil || len(last) != 1 || !last[east].Equal(epoch) {
		t.Errorf("times of the last events: %v, %v", last, err)
	}
	next := events(6, runEvent(runOf(in, writ.RunRunning)))
	next[0].Time = epoch.Add(time.Hour)
	store(t, l, east, next)
	next[0].Journal, next[0].Seq, next[0].Time = "restored", 1, epoch.Add(time.Minute)
	store(t, l, east, next)
	if last, err := l.LastEvents(ctx); err != nil || !last[east].Equal(epoch.Add(time.Hour)) {
		t.Errorf("times of the last events after an event of another journal: %v, %v", last, err)
	}
}

func testWebhooks(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	for _, place := range []ledger.WebhookPlace{ // also backwards, as if another ledger had replaced the previous one
		{Event: 7}, {Event: 12, Lost: map[string]time.Time{"east/n1": epoch, "east/n2": {}}}, {Event: 3},
	} {
		ok(t, l.SetWebhookAt(ctx, "ops", place))
		if at, err := l.WebhookAt(ctx, "ops"); err != nil || !cmp.Equal(at, &place) {
			t.Errorf("the webhook is at %v, %v; want %v", at, err, place)
		}
	}
	if at, err := l.WebhookAt(ctx, "chat"); err != nil || at != nil {
		t.Errorf("a new webhook is at %v, %v", at, err)
	}
}

func testEventsGap(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	in := incoming(1, east)
	run := runEvent(runOf(in, writ.RunAccepted))
	store(t, l, east, events(5, run)) // another ledger acknowledged earlier events, which are deleted
	wantCode(t, "a gap after the stored events",
		l.StoreEvents(ctx, east, events(7, runEvent(runOf(in, writ.RunFailed)))), writ.CodeConflict)
	torn := events(6, runEvent(runOf(in, writ.RunRunning)), runEvent(runOf(in, writ.RunSucceeded)))
	torn[1].Seq++
	wantCode(t, "a gap inside", l.StoreEvents(ctx, east, torn), writ.CodeConflict)
	mixed := events(6, run, run)
	mixed[1].Journal = "another"
	wantCode(t, "two journals", l.StoreEvents(ctx, east, mixed), writ.CodeConflict)
	if last, _, err := l.LastEvent(ctx, east, journal); err != nil || last != 5 {
		t.Errorf("the last event of the journal is %d, %v; want 5", last, err)
	}
	if got, err := l.Run(ctx, in.Run); err != nil || got.State != ledger.State(writ.RunAccepted) {
		t.Errorf("run: %+v, %v; a refused batch changed it", got, err)
	}
	restored := events(1, runEvent(runOf(in, writ.RunRunning)))
	restored[0].Journal = "minted by a restore"
	store(t, l, east, restored)
	if got, err := l.Run(ctx, in.Run); err != nil || got.State != ledger.State(writ.RunRunning) {
		t.Errorf("run: %+v, %v; a new journal starts at 1", got, err)
	}
}

func testCopies(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	in := incoming(1, east)
	add(t, l, in)
	call := writ.Call{
		Run: in.Run, Seq: 1, Operation: "volume.create", Kind: writ.KindVolume, Name: "data", State: writ.CallQueued,
		Attempt: 1,
	}
	done := call
	done.State, done.Driver, done.Simulated, done.Change, done.Node = writ.CallSucceeded, "simulated", true, writ.ChangeCreated, "n1"
	done.Planned, done.Ended = at(1), at(2)
	node := writ.Node{
		ID: "n1", Name: "node-1", Admission: writ.AdmissionApproved, Scheduling: writ.SchedulingOpen,
		Liveness: writ.LivenessReady, Health: writ.Health{Slots: 4},
	}
	silent := node
	silent.Liveness, silent.Fault = writ.LivenessSilent, "no beat"
	volume := writ.Resource{
		ResourceID: writ.ResourceID{Project: shop, Kind: writ.KindVolume, Name: "data"}, UID: "u1", Run: in.Run,
		Created: at(1), Updated: at(1),
	}
	image := volume
	image.Kind, image.Name = writ.KindImage, "debian"
	gone := image
	gone.Deleted = true
	store(t, l, east, events(1,
		runEvent(runOf(in, writ.RunRunning)), callEvent(call), writ.Event{Node: &node}, writ.Event{Resource: &volume},
		writ.Event{Resource: &image}, callEvent(done), writ.Event{Node: &silent}))
	store(t, l, east, events(8, writ.Event{Resource: &gone}, runEvent(runOf(in, writ.RunSucceeded))))

	run, err := l.Run(ctx, in.Run)
	if want := (ledger.Run{Run: runOf(in, writ.RunSucceeded), State: "succeeded", Created: in.Received}); err != nil ||
		!cmp.Equal(want, run) {
		t.Errorf("run: %v\n%s", err, cmp.Diff(want, run))
	}
	calls, err := l.Calls(ctx, in.Run, ledger.Page{})
	if want := []writ.Call{done}; err != nil || !cmp.Equal(want, calls.Items) {
		t.Errorf("calls: %v\n%s", err, cmp.Diff(want, calls.Items))
	}
	silent.Datacenter = east
	nodes, err := l.Nodes(ctx, ledger.NodeFilter{}, ledger.Page{})
	if want := []writ.Node{silent}; err != nil || !cmp.Equal(want, nodes.Items) {
		t.Errorf("nodes: %v\n%s", err, cmp.Diff(want, nodes.Items))
	}
	volume.Datacenter = east
	resources, err := l.Resources(ctx, ledger.ResourceFilter{}, ledger.Page{})
	if want := []writ.Resource{volume}; err != nil || !cmp.Equal(want, resources.Items) {
		t.Errorf("resources: %v\n%s", err, cmp.Diff(want, resources.Items))
	}
}

func testNoValues(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	in := incoming(1, east)
	run := runOf(in, writ.RunSucceeded)
	run.Output, run.Summary = map[string]any{"password": "hunter2"}, []byte("signed")
	volume := writ.Resource{
		ResourceID: writ.ResourceID{Project: shop, Kind: writ.KindVolume, Name: "data"},
		Values:     map[string]any{"path": "/secret"},
	}
	store(t, l, east, events(1, runEvent(run), writ.Event{Resource: &volume}))
	if run.Output == nil || volume.Values == nil {
		t.Error("the events of the caller were changed")
	}
	got, err := l.Run(ctx, in.Run)
	if err != nil || got.Output != nil || string(got.Summary) != "signed" {
		t.Errorf("run: %+v, %v", got, err)
	}
	resources, err := l.Resources(ctx, ledger.ResourceFilter{}, ledger.Page{})
	if err != nil || len(resources.Items) != 1 || resources.Items[0].Values != nil {
		t.Errorf("resources: %+v, %v", resources, err)
	}
	told, _, err := l.Events(ctx, 0, ledger.EventFilter{}, 10)
	if err != nil || len(told) != 2 || told[0].Run.Output != nil || told[1].Resource.Values != nil {
		t.Errorf("events: %+v, %v", told, err)
	}
}

func testForeign(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	in := incoming(1, east)
	add(t, l, in)
	store(t, l, east, events(1, runEvent(runOf(in, writ.RunRunning)),
		callEvent(writ.Call{Run: in.Run, Seq: 1, State: writ.CallRunning})))
	forged := runOf(in, writ.RunSucceeded)
	volume := writ.Resource{
		ResourceID: writ.ResourceID{Project: shop, Kind: writ.KindVolume, Name: "data"}, Datacenter: east,
	}
	store(t, l, west, events(1,
		runEvent(forged),
		callEvent(writ.Call{Run: in.Run, Seq: 1, State: writ.CallSucceeded}),
		callEvent(writ.Call{Run: in.Run, Seq: 2, State: writ.CallSucceeded}),
		writ.Event{Node: &writ.Node{ID: "n1", Name: "node-1", Datacenter: east}},
		writ.Event{Resource: &volume},
	))
	if run, err := l.Run(ctx, in.Run); err != nil || run.State != "running" || run.Datacenter != east {
		t.Errorf("run: %+v, %v", run, err)
	}
	if calls, err := l.Calls(ctx, in.Run, ledger.Page{}); err != nil || len(calls.Items) != 1 ||
		calls.Items[0].State != writ.CallRunning {
		t.Errorf("calls: %+v, %v", calls, err)
	}
	if nodes, err := l.Nodes(ctx, ledger.NodeFilter{Datacenter: east}, ledger.Page{}); err != nil ||
		len(nodes.Items) != 0 {
		t.Errorf("nodes: %+v, %v", nodes, err)
	}
	if list, err := l.Resources(ctx, ledger.ResourceFilter{Datacenter: east}, ledger.Page{}); err != nil ||
		len(list.Items) != 0 {
		t.Errorf("resources: %+v, %v", list, err)
	}
	told, _, err := l.Events(ctx, 0, ledger.EventFilter{Run: in.Run}, 100)
	ok(t, err)
	for _, e := range told {
		if e.Datacenter != east {
			t.Errorf("a watcher of the run gets %+v", e)
		}
	}
	all, _, err := l.Events(ctx, 0, ledger.EventFilter{}, 100)
	ok(t, err)
	for _, e := range all {
		if e.Datacenter != east && (ledger.EventFilter{Run: in.Run}).Selects(&e) {
			t.Errorf("the filter of the run selects %+v", e)
		}
	}

	waiting := incoming(2, east)
	add(t, l, waiting)
	store(t, l, west, events(6, runEvent(runOf(waiting, writ.RunSucceeded))))
	if s, err := l.Submission(ctx, waiting.Payload); err != nil || s.State != writ.SubmissionWaiting {
		t.Errorf("submission: %+v, %v", s, err)
	}
}

func testSameEventsTwice(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	in := incoming(1, east)
	var all []writ.Event
	for n := range 40 {
		all = append(all, callEvent(writ.Call{Run: in.Run, Seq: n%7 + 1, State: writ.CallRunning, Delivery: n}))
	}
	all = events(1, all...)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for from := 0; from < len(all); from += 5 {
				if err := l.StoreEvents(ctx, east, all[from:from+5]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	got, _, err := l.Events(ctx, 0, ledger.EventFilter{}, 100)
	if err != nil || len(got) != len(all) {
		t.Fatalf("%d events stored, %v; want %d", len(got), err, len(all))
	}
	for i, e := range got {
		if e.Seq != int64(i+1) {
			t.Errorf("event %d is number %d of its journal", i+1, e.Seq)
		}
	}
}

// Only clients of the owning project receive an event. If the ledger has its own record of the run, it ignores the
// owner in the datacenter's event.
func testEventsOfProjects(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	ofShop, ofBank, early := incoming(1, east), incoming(2, east), incoming(3, east)
	ofBank.Project = bank
	add(t, l, ofShop)
	add(t, l, ofBank)
	claimed := runOf(ofBank, writ.RunRunning)
	claimed.Project = shop
	told, last := runOf(early, writ.RunAccepted), runOf(early, writ.RunRunning)
	last.Project = bank // the ledger's copy of the run has the owner in the last event
	resource := func(project writ.ProjectID, run writ.RunID) writ.Event {
		return writ.Event{Resource: &writ.Resource{
			ResourceID: writ.ResourceID{Project: project, Kind: writ.KindVolume, Name: "data"}, Run: run,
		}}
	}
	line := func(run writ.RunID) writ.Event { return writ.Event{Log: &writ.LogLine{Run: run, Ordinal: 1}} }
	store(t, l, east, events(1,
		runEvent(runOf(ofShop,
			writ.RunRunning)), callEvent(writ.Call{Run: ofShop.Run, Seq: 1}), line(ofShop.Run), resource(shop,
			ofShop.Run), resource(shop, ""),
		runEvent(claimed), callEvent(writ.Call{Run: ofBank.Run, Seq: 1}), line(ofBank.Run), resource(bank, ofBank.Run),
		line(early.Run), runEvent(told), runEvent(last), // before and after the ledger has a record of the run
		line("an unknown run"), writ.Event{Node: &writ.Node{ID: "n1"}},
	))
	store(t, l, east, events(15, line(early.Run)))
	store(t, l, west, events(1, runEvent(runOf(ofShop, writ.RunFailed)), line(ofShop.Run), resource(shop, ofShop.Run),
		resource(bank, "")))
	refused := incoming(4, west)
	refused.Project = bank
	add(t, l, refused)
	ok(t, l.Reject(ctx, refused.Payload, writ.SubmissionRefused, nil))
	ok(t, l.Restate(ctx, east, "another journal", runOf(ofBank, writ.RunFailed)))

	const none = writ.ProjectID("")
	want := slices.Concat(
		[]writ.ProjectID{shop, bank}, // waiting submissions
		[]writ.ProjectID{shop, shop, shop, shop, shop, bank, bank, bank, bank, bank, bank, bank, none, none},
		[]writ.ProjectID{shop, bank}, // delivered submissions
		[]writ.ProjectID{bank},
		[]writ.ProjectID{none, none, none, bank},
		[]writ.ProjectID{bank, bank, bank}, // waiting, refused, restated
	)
	all, _, err := l.Events(ctx, 0, ledger.EventFilter{}, 100)
	ok(t, err)
	var got []writ.ProjectID
	of := map[writ.ProjectID][]int64{}
	for _, e := range all {
		got = append(got, e.Project)
		of[e.Project] = append(of[e.Project], e.ID)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("owners of the events: %s", diff)
	}
	for _, projects := range [][]writ.ProjectID{{shop}, {bank}, {shop, bank}, {"x"}} {
		var want, got []int64
		for _, p := range projects {
			want = append(want, of[p]...)
		}
		slices.Sort(want)
		list, _, err := l.Events(ctx, 0, ledger.EventFilter{Projects: projects}, 100)
		ok(t, err)
		for _, e := range list {
			got = append(got, e.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events of %v: %s", projects, diff)
		}
	}
}

func testEventFilters(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	a, b := incoming(1, east), incoming(2, west)
	add(t, l, a)
	store(t, l, east, events(1, runEvent(runOf(a, writ.RunRunning)), callEvent(writ.Call{Run: a.Run, Seq: 1})))
	store(t, l, west, events(1, runEvent(runOf(b, writ.RunRunning)), writ.Event{Node: &writ.Node{ID: "n1"}}))
	all, _, err := l.Events(ctx, 0, ledger.EventFilter{}, 100)
	ok(t, err)
	for _, tt := range []struct {
		name   string
		filter ledger.EventFilter
		want   []string
	}{
		{"all", ledger.EventFilter{}, []string{"submission", "run", "call", "submission", "run", "node"}},
		{"run", ledger.EventFilter{Run: a.Run}, []string{"submission", "run", "call", "submission"}},
		{"topics", ledger.EventFilter{Topics: []string{"run", "node"}}, []string{"run", "run", "node"}},
		{"datacenter", ledger.EventFilter{Datacenter: west}, []string{"run", "node"}},
		{"all three", ledger.EventFilter{Topics: []string{"run"}, Run: b.Run, Datacenter: west}, []string{"run"}},
		{"a project", ledger.EventFilter{Projects: []writ.ProjectID{shop}}, []string{
			"submission", "run", "call", "submission", "run",
		}}, {"a project without events", ledger.EventFilter{Projects: []writ.ProjectID{bank}}, nil},
	} {
		var got []string
		after := int64(0)
		for { // one at a time, like a slow reader
			list, _, err := l.Events(ctx, after, tt.filter, 1)
			ok(t, err)
			if len(list) == 0 {
				break
			}
			got = append(got, list[0].Topic())
			after = list[0].ID
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
		var selected []string
		for _, e := range all {
			if tt.filter.Selects(&e) {
				selected = append(selected, e.Topic())
			}
		}
		if diff := cmp.Diff(tt.want, selected); diff != "" {
			t.Errorf("%s, selected by the caller: %s", tt.name, diff)
		}
	}
	oldest, newest, err := l.EventRange(ctx)
	if err != nil || newest-oldest != 5 {
		t.Errorf("range: %d to %d, %v; want 6 events", oldest, newest, err)
	}
}

func testShares(t *testing.T, l ledger.Ledger) {
	text := strings.Repeat("x", 10_000)
	in, other := incoming(1, east), incoming(2, west)
	run := runOf(in, writ.RunAccepted)
	run.Reason = text
	all := events(1, runEvent(run), writ.Event{Log: &writ.LogLine{Run: in.Run, Ordinal: 1, Text: text}})
	store(t, l, east, all)
	store(t, l, east, all) // stored events do not count again
	store(t, l, west, events(1, runEvent(runOf(other, writ.RunAccepted))))
	got, err := l.Shares(t.Context())
	ok(t, err)
	if got[east] < 20_000 || got[east] > 25_000 || got[west] < 100 || got[west] > 5_000 {
		t.Errorf("the shares are %v", got)
	}
	tomorrow := time.Now().Add(25 * time.Hour)
	ok(t, l.Prune(t.Context(), tomorrow, time.Time{}))
	if got, err := l.Shares(t.Context()); err != nil || got[east] < 10_000 || got[east] > 15_000 {
		t.Errorf("after the deletion of events: %v, %v; want the copy of the run", got, err)
	}
	ok(t, l.Prune(t.Context(), tomorrow, tomorrow))
	if got, err := l.Shares(t.Context()); err != nil || len(got) > 0 {
		t.Errorf("after everything is deleted: %v, %v", got, err)
	}
}

func testManyJournals(t *testing.T, l ledger.Ledger) {
	const many = 120
	name := func(i int) string { return fmt.Sprintf("journal-%03d", i) }
	for i := range many {
		e := writ.Event{
			Journal: name(i), Seq: 1, Time: epoch.Add(time.Duration(i) * time.Minute), Log: &writ.LogLine{Ordinal: 1},
		}
		store(t, l, east, []writ.Event{e})
	}
	for i, want := range map[int]int64{0: 0, many - 1: 1, many - 50: 1} {
		if last, _, err := l.LastEvent(t.Context(), east, name(i)); err != nil || last != want {
			t.Errorf("the last event of journal %d is %d, %v; want %d", i, last, err, want)
		}
	}
}
