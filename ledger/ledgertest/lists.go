package ledgertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"writ"
	"writ/ledger"
)

// names lists the selected runs by the number of their submission.
func names(t *testing.T, l ledger.Ledger, filter ledger.RunFilter, known map[writ.RunID]int) []int {
	t.Helper()
	list, err := l.Runs(t.Context(), filter, ledger.Page{})
	ok(t, err)
	var got []int
	for _, run := range list.Items {
		got = append(got, known[run.ID])
	}
	return got
}

// testSearch finds runs by any part of their names, parameters and error, and by the start of resource names.
func testSearch(t *testing.T, l ledger.Ledger) {
	known := map[writ.RunID]int{}
	for n := 1; n <= 4; n++ {
		in := incoming(n, east)
		in.Params = map[string]any{"image": "shop-100%", "replicas": int64(3), "zones": []any{"a", "B"}}
		switch n {
		case 2:
			in.Script, in.Params = "Back_up.tengo", map[string]any{"note": "a\x00b \xff é É " + strings.Repeat("long ",
				2000) + "end"}
		case 3:
			in.Signer, in.Project, in.Params = "bob", bank, nil
		}
		known[in.Run] = n
		add(t, l, in)
		run := runOf(in, writ.RunRunning)
		if n == 3 {
			run = runOf(in, writ.RunFailed)
			run.Failure = &writ.Failure{
				Error:    writ.Error{Code: writ.CodeNoCapacity, Message: "node-7 has 512 MiB, and Volume data_1 needs more"},
				Position: "web.tengo:14:11",
			}
		}
		call := writ.Call{
			Run: in.Run, Seq: 1, Operation: "machine.create", Kind: writ.KindMachine, Name: fmt.Sprintf("web-%d", n),
			State: writ.CallQueued,
		}
		store(t, l, east, events(int64(2*n), runEvent(run), callEvent(call)))
	}
	for text, want := range map[string][]int{
		"shop-100%": {4, 1}, "shop-1000": nil, "shop_100": nil, "SHOP-100": {4, 1}, "replicas=3": {4, 1},
		`["a","b"]`: {4, 1},
		"back_up":   {2}, "back-up": nil, "É": {2}, "long end": nil, "ab": {2}, "bob": {3},
		string(writ.CodeNoCapacity): {3}, "512 mib": {3}, "volume data_1": {3}, "tengo:14:11": {3},
		"web-4": {4}, "Web-4": {4}, "eb-4": nil, "web.tengo": {4, 3, 1}, "' OR '1'='1": nil, `\`: nil, "%": {4, 1},
		"?": nil, "\x00": nil, "\xff": nil,
	} {
		if diff := cmp.Diff(want, names(t, l, ledger.RunFilter{Text: text}, known)); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
	if diff := cmp.Diff([]int{3},
		names(t, l, ledger.RunFilter{Text: "web", Projects: []writ.ProjectID{bank}}, known)); diff != "" {
		t.Errorf("of a project: %s", diff)
	}
	// The datacenter reports a run before its submission is added, as after the loss of a ledger.
	told := incoming(5, east)
	known[told.Run], told.Params = 5, map[string]any{"image": "late"}
	store(t, l, east, events(10, runEvent(runOf(told, writ.RunRunning))))
	add(t, l, told)
	if diff := cmp.Diff([]int{5}, names(t, l, ledger.RunFilter{Text: "image=late"}, known)); diff != "" {
		t.Errorf("reported before: %s", diff)
	}
	counts, err := l.CountRuns(t.Context(), ledger.RunFilter{Text: "web-4"})
	ok(t, err)
	if n := counts.Total()[ledger.State(writ.RunRunning)]; n != 1 {
		t.Errorf("%d runs counted", n)
	}
}

func testFilters(t *testing.T, l ledger.Ledger) {
	known := map[writ.RunID]int{}
	for n := 1; n <= 4; n++ {
		in := incoming(n, []writ.DatacenterID{east, west}[n%2])
		if n > 2 {
			in.Project, in.ProjectName, in.Signer = bank, "bank", "bob"
		}
		known[in.Run] = n
		add(t, l, in)
		if n%2 == 0 {
			store(t, l, east, events(int64(n/2), runEvent(runOf(in, writ.RunRunning))))
		}
	}
	for _, tt := range []struct {
		name   string
		filter ledger.RunFilter
		want   []int
	}{
		{"all, newest first", ledger.RunFilter{}, []int{4, 3, 2, 1}},
		{"state", ledger.RunFilter{States: []ledger.State{"running"}}, []int{4, 2}},
		{"states", ledger.RunFilter{States: []ledger.State{"running", "waiting", "failed"}}, []int{4, 3, 2, 1}},
		{"datacenter", ledger.RunFilter{Datacenter: west}, []int{3, 1}},
		{"project", ledger.RunFilter{Projects: []writ.ProjectID{bank}}, []int{4, 3}},
		{"projects", ledger.RunFilter{Projects: []writ.ProjectID{shop, bank}}, []int{4, 3, 2, 1}},
		{"projects without runs", ledger.RunFilter{Projects: []writ.ProjectID{"x", "y"}}, nil},
		{"signer", ledger.RunFilter{Signer: "bob"}, []int{4, 3}},
		{
			"all of them",
			ledger.RunFilter{
				States: []ledger.State{"waiting"}, Datacenter: west, Projects: []writ.ProjectID{bank}, Signer: "bob",
			},
			[]int{3},
		},
		{"nobody", ledger.RunFilter{Signer: "x' OR '1'='1"}, nil},
		{"script", ledger.RunFilter{Script: "web.tengo"}, []int{4, 3, 2, 1}},
		{"another script", ledger.RunFilter{Script: "web"}, nil},
		{"deployment, of runs that wait too", ledger.RunFilter{Deployment: "web"}, []int{4, 3, 2, 1}},
		{"another deployment", ledger.RunFilter{Deployment: "we"}, nil},
		{"since", ledger.RunFilter{Since: at(3)}, []int{4, 3}},
		{"since, of a project", ledger.RunFilter{Since: at(2), Projects: []writ.ProjectID{shop}}, []int{2}},
		{
			"all of them at once",
			ledger.RunFilter{
				Script: "web.tengo", Deployment: "web", Since: at(2), States: []ledger.State{"running"},
				Projects: []writ.ProjectID{shop},
			},
			[]int{2},
		},
	} {
		if diff := cmp.Diff(tt.want, names(t, l, tt.filter, known)); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
	odd := runOf(incoming(2, east), writ.RunRunning)
	odd.Script, odd.Deployment = strings.Repeat("x", 100_000), "zero\x00"
	store(t, l, east, events(3, runEvent(odd)))
	if run, err := l.Run(t.Context(), odd.ID); err != nil || run.Script != odd.Script ||
		run.Deployment != odd.Deployment {
		t.Errorf("impossible names: %.50q %q, %v", run.Script, run.Deployment, err)
	}
	removed := writ.Node{ID: "n1", Name: "gone", Admission: writ.AdmissionRemoved}
	store(t, l, east, events(4, writ.Event{Node: &removed}))
	if list, err := l.Nodes(t.Context(), ledger.NodeFilter{}, ledger.Page{}); err != nil || len(list.Items) != 0 {
		t.Errorf("removed nodes are listed: %v, %v", list, err)
	}
	if list, err := l.Nodes(t.Context(), ledger.NodeFilter{Admission: writ.AdmissionRemoved}, ledger.Page{}); err != nil ||
		len(list.Items) != 1 {
		t.Errorf("selected removed nodes: %v, %v", list, err)
	}
}

// testPrefixes finds runs by the start of their ids, within the selected projects only.
func testPrefixes(t *testing.T, l ledger.Ledger) {
	known := map[writ.RunID]int{}
	for n := 1; n <= 40; n++ { // some ids start with the same letter
		in := incoming(n, east)
		if n%2 == 0 {
			in.Project, in.ProjectName = bank, "bank"
		}
		known[in.Run] = n
		add(t, l, in)
	}
	for id, n := range known {
		for _, length := range []int{1, 2, 4, 26} {
			var all, own []int
			for other, m := range known {
				if strings.HasPrefix(string(other), string(id[:length])) {
					all = append(all, m)
					if m%2 == 0 {
						own = append(own, m)
					}
				}
			}
			for _, ns := range [][]int{all, own} { // newest first
				slices.Sort(ns)
				slices.Reverse(ns)
			}
			if diff := cmp.Diff(all, names(t, l, ledger.RunFilter{Prefix: string(id[:length])}, known)); diff != "" {
				t.Errorf("%d letters of run %d: %s", length, n, diff)
			}
			if diff := cmp.Diff(own, names(t, l,
				ledger.RunFilter{Prefix: string(id[:length]), Projects: []writ.ProjectID{bank}}, known)); diff != "" {
				t.Errorf("%d letters of run %d, of one project: %s", length, n, diff)
			}
		}
	}
	for _, none := range []string{"zzzzzzzz", "%", "_", "a%", "x' OR '1'='1"} {
		if got := names(t, l, ledger.RunFilter{Prefix: none}, known); len(got) > 0 {
			t.Errorf("%q: %v", none, got)
		}
	}
}

func testCounts(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	var in [3]ledger.Incoming
	for i := range in {
		in[i] = incoming(i, east)
		if i > 0 {
			in[i].Project = bank
		}
		add(t, l, in[i])
	}
	store(t, l, east, events(1,
		runEvent(runOf(in[0], writ.RunFailed)), runEvent(runOf(in[1], writ.RunFailed)),
		callEvent(writ.Call{Run: in[0].Run, Seq: 1, State: writ.CallFailed}),
		callEvent(writ.Call{Run: in[0].Run, Seq: 2, State: writ.CallCancelled}),
		callEvent(writ.Call{Run: in[0].Run, Seq: 3, State: writ.CallCancelled}),
		callEvent(writ.Call{Run: in[1].Run, Seq: 1, State: writ.CallSucceeded})))
	runs, err := l.CountRuns(ctx, ledger.RunFilter{})
	if diff := cmp.Diff(ledger.RunCounts{shop: {"failed": 1}, bank: {"failed": 1, "waiting": 1}}, runs); err != nil ||
		diff != "" {
		t.Errorf("runs: %v\n%s", err, diff)
	}
	if diff := cmp.Diff(map[ledger.State]int{"failed": 2, "waiting": 1}, runs.Total()); diff != "" {
		t.Errorf("runs of all projects: %s", diff)
	}
	if diff := cmp.Diff(map[ledger.State]int{"failed": 1},
		runs.Sum(func(p writ.ProjectID) bool { return p == shop })); diff != "" {
		t.Errorf("runs of one project: %s", diff)
	}
	some, err := l.CountRuns(ctx, ledger.RunFilter{
		Projects: []writ.ProjectID{bank}, States: []ledger.State{"failed"}, Signer: "alice", Datacenter: east,
	})
	if diff := cmp.Diff(ledger.RunCounts{bank: {"failed": 1}}, some); err != nil || diff != "" {
		t.Errorf("runs of a filter: %v\n%s", err, diff)
	}
	if none, err := l.CountRuns(ctx, ledger.RunFilter{Signer: "eve"}); err != nil || len(none) != 0 {
		t.Errorf("runs of an empty selection: %v, %v", err, none)
	}
	calls, err := l.CountCalls(ctx, in[0].Run, in[2].Run)
	want := map[writ.RunID]map[writ.CallState]int{in[0].Run: {writ.CallFailed: 1, writ.CallCancelled: 2}}
	if diff := cmp.Diff(want, calls); err != nil || diff != "" {
		t.Errorf("calls: %v\n%s", err, diff)
	}
	if none, err := l.CountCalls(ctx); err != nil || len(none) != 0 {
		t.Errorf("calls of no run: %v, %v", none, err)
	}
}

// testOddTexts queries with text from untrusted callers. A store may return an empty result or reject the text.
func testOddTexts(t *testing.T, l ledger.Ledger) {
	ctx, page := t.Context(), ledger.Page{}
	for _, odd := range []string{"\x00", "a\x00b", "\xff"} {
		for what, ask := range map[string]func() error{
			"a run":    func() error { _, err := l.Run(ctx, writ.RunID(odd)); return err },
			"calls":    func() error { _, err := l.Calls(ctx, writ.RunID(odd), page); return err },
			"counts":   func() error { _, err := l.CountCalls(ctx, writ.RunID(odd)); return err },
			"a signer": func() error { _, err := l.Runs(ctx, ledger.RunFilter{Signer: odd}, page); return err },
			"a script": func() error { _, err := l.Runs(ctx, ledger.RunFilter{Script: odd}, page); return err },
			"a project": func() error {
				_, err := l.CountRuns(ctx, ledger.RunFilter{Projects: []writ.ProjectID{writ.ProjectID(odd)}})
				return err
			},
			"an operation": func() error { _, err := l.Failures(ctx, ledger.RunFilter{Operation: odd}, 1); return err },
			"a node": func() error {
				_, err := l.Nodes(ctx, ledger.NodeFilter{Nodes: []writ.NodeID{writ.NodeID(odd)}}, page)
				return err
			},
			"a deployment": func() error {
				_, err := l.Resources(ctx, ledger.ResourceFilter{Deployment: odd},
					page)
				return err
			}, "a registration": func() error { return l.AddRegistration(ctx, registration(1, odd)) },
		} {
			if err := ask(); err != nil && writ.CodeOf(err) != writ.CodeBadRequest &&
				writ.CodeOf(err) != writ.CodeNotFound {
				t.Errorf("%s %q: %v (%s)", what, odd, err, writ.CodeOf(err))
			}
		}
	}
}

func testCursors(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	for n := range 2 {
		add(t, l, incoming(n, east))
	}
	runs, err := l.Runs(ctx, ledger.RunFilter{}, ledger.Page{Limit: 1})
	if err != nil || runs.Next == "" {
		t.Fatalf("first page: %+v, %v", runs, err)
	}
	for _, cursor := range []string{"x", "!", "W10", "bnVsbA", runs.Next + "A"} {
		_, err := l.Runs(ctx, ledger.RunFilter{}, ledger.Page{Cursor: cursor})
		wantCode(t, cursor, err, writ.CodeBadRequest)
	}
	_, err = l.Calls(ctx, "x", ledger.Page{Cursor: runs.Next})
	wantCode(t, "a cursor of another list", err, writ.CodeBadRequest)
	_, err = l.Nodes(ctx, ledger.NodeFilter{}, ledger.Page{Cursor: runs.Next})
	wantCode(t, "a cursor of another list", err, writ.CodeBadRequest)
	_, err = l.Resources(ctx, ledger.ResourceFilter{}, ledger.Page{Cursor: runs.Next})
	wantCode(t, "a cursor of another list", err, writ.CodeBadRequest)
}

// walk reads a list to its end in pages of one size. It calls disturb between two pages.
func walk[T any](
	ctx context.Context, size int, disturb func(), list func(context.Context, ledger.Page) (ledger.List[T], error),
) ([]T, error) {
	var all []T
	page := ledger.Page{Limit: size}
	for {
		part, err := list(ctx, page)
		if err != nil {
			return nil, err
		}
		if len(part.Items) > size {
			return nil, fmt.Errorf("a page of %d has %d items", size, len(part.Items))
		}
		all = append(all, part.Items...)
		if part.Next == "" {
			return all, nil
		}
		page.Cursor = part.Next
		disturb()
	}
}

// testPages lists items with equal sort keys in pages of any size while other items are added. Every check has its own
// datacenter.
func testPages(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	calm := func() {}
	submissions, checks := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		checks++
		here := writ.DatacenterID(fmt.Sprint("datacenter-", checks))
		count := rapid.IntRange(0, 6).Draw(r, "items")
		size := rapid.IntRange(1, 4).Draw(r, "page")
		var runs []string
		var news []writ.Event
		for n := range count {
			submissions++
			in := incoming(submissions, here)
			in.Received = at(100 + rapid.IntRange(0, 3).Draw(r, "second"))
			add(t, l, in)
			runs = append(runs, fmt.Sprintf("%d %s", in.Received.UnixMicro(), in.Run))
			news = append(news,
				callEvent(writ.Call{Run: writ.RunID(here), Seq: n + 1}),
				writ.Event{Node: &writ.Node{ID: writ.NodeID(fmt.Sprint("n", n)), Name: fmt.Sprint("node-", n%3)}},
				writ.Event{
					Resource: &writ.Resource{
						ResourceID: writ.ResourceID{Project: shop, Kind: writ.KindVolume, Name: fmt.Sprint("v", n)},
					},
				})
		}
		store(t, l, here, events(1, news...))
		disturb := func() { // newer runs are added while older runs are read
			submissions++
			in := incoming(submissions, here)
			in.Received = at(1000 + submissions)
			add(t, l, in)
		}

		slices.Sort(runs)
		slices.Reverse(runs)
		gotRuns, err := walk(ctx, size, disturb,
			func(ctx context.Context, p ledger.Page) (ledger.List[ledger.Run], error) {
				return l.Runs(ctx, ledger.RunFilter{Datacenter: here}, p)
			})
		check(r, runs, gotRuns, err,
			func(run ledger.Run) string { return fmt.Sprintf("%d %s", run.Created.UnixMicro(), run.ID) })
		gotCalls, err := walk(ctx, size, calm,
			func(ctx context.Context, p ledger.Page) (ledger.List[writ.Call], error) {
				return l.Calls(ctx, writ.RunID(here), p)
			})
		check(r, numbers(count, func(n int) string { return fmt.Sprint(n + 1) }), gotCalls, err,
			func(c writ.Call) string { return fmt.Sprint(c.Seq) })
		gotNodes, err := walk(ctx, size, calm,
			func(ctx context.Context, p ledger.Page) (ledger.List[writ.Node], error) {
				return l.Nodes(ctx, ledger.NodeFilter{Datacenter: here}, p)
			})
		check(r, numbers(count, func(n int) string { return fmt.Sprint("node-", n%3, " n", n) }), gotNodes, err,
			func(n writ.Node) string { return n.Name + " " + string(n.ID) })
		gotResources, err := walk(ctx, size, calm,
			func(ctx context.Context, p ledger.Page) (ledger.List[writ.Resource], error) {
				return l.Resources(ctx, ledger.ResourceFilter{Datacenter: here, Kind: writ.KindVolume}, p)
			})
		check(r, numbers(count, func(n int) string { return fmt.Sprint("v", n) }), gotResources, err,
			func(v writ.Resource) string { return v.Name })

		slices.Reverse(runs) // the next list also contains the runs added above
		gotRuns, err = walk(ctx, size, calm, func(ctx context.Context, p ledger.Page) (ledger.List[ledger.Run], error) {
			return l.Runs(ctx, ledger.RunFilter{Datacenter: here, Oldest: true}, p)
		})
		check(r, runs, gotRuns[:min(len(runs), len(gotRuns))], err,
			func(run ledger.Run) string { return fmt.Sprintf("%d %s", run.Created.UnixMicro(), run.ID) })
	})
}

// testFailures groups runs by the cause of their failure.
func testFailures(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	known := map[writ.RunID]int{}
	var in [8]ledger.Incoming
	for n := range in {
		in[n] = incoming(n, east)
		known[in[n].Run] = n
		if n == 5 {
			in[n].Project = bank
		}
		add(t, l, in[n])
	}
	failed := func(n int, code writ.Code, seq int) writ.Event {
		run := runOf(in[n], writ.RunFailed)
		run.Failure = &writ.Failure{Error: *writ.Errorf(code, "no"), Seq: seq}
		return runEvent(run)
	}
	call := func(n, seq int, operation string) writ.Event {
		return callEvent(writ.Call{Run: in[n].Run, Seq: seq, Operation: operation, State: writ.CallFailed})
	}
	store(t, l, east, events(1,
		// The calls and the failure of run 0 are in one batch.
		call(0, 1, "volume.create"), call(0, 2, "machine.create"), failed(0, writ.CodeNoCapacity, 2),
		call(1, 1, "machine.create")))
	store(t, l, east, events(5,
		failed(1, writ.CodeNoCapacity, 1), call(2, 1, "volume.create"), failed(2, writ.CodeNoCapacity, 1),
		failed(3, writ.CodeScriptFailed, 0), call(5, 1, "machine.create"), failed(5, writ.CodeNoCapacity, 1),
		// Run 6 fails and is resumed, so it does not count.
		call(6, 1, "machine.create"), failed(6, writ.CodeNoCapacity, 1), runEvent(runOf(in[6], writ.RunRunning))))
	ok(t, l.Reject(ctx, in[4].Payload, writ.SubmissionRefused, writ.Errorf(writ.CodeRoleMissing, "no")))
	machines := ledger.Failures{Code: writ.CodeNoCapacity, Operation: "machine.create", Runs: 3, Newest: at(5)}
	script := ledger.Failures{Code: writ.CodeScriptFailed, Runs: 1, Newest: at(3)}
	refused := ledger.Failures{Code: writ.CodeRoleMissing, Runs: 1, Newest: at(4)}
	volumes := ledger.Failures{Code: writ.CodeNoCapacity, Operation: "volume.create", Runs: 1, Newest: at(2)}
	ofShop := machines
	ofShop.Runs, ofShop.Newest = 2, at(1)
	for _, tt := range []struct {
		filter ledger.RunFilter
		max    int
		want   []ledger.Failures
	}{
		{ledger.RunFilter{}, 10, []ledger.Failures{machines, volumes, refused, script}},
		{ledger.RunFilter{}, 2, []ledger.Failures{machines, volumes}},
		{ledger.RunFilter{Text: string(script.Code)}, 10, []ledger.Failures{script}},
		{ledger.RunFilter{Text: string(script.Code), Projects: []writ.ProjectID{shop}}, 10, []ledger.Failures{script}},
		{ledger.RunFilter{Projects: []writ.ProjectID{shop}}, 1, []ledger.Failures{ofShop}},
		{ledger.RunFilter{Since: at(3)}, 10, []ledger.Failures{
			{Code: writ.CodeNoCapacity, Operation: "machine.create", Runs: 1, Newest: at(5)}, refused, script,
		}}, {ledger.RunFilter{Signer: "eve"}, 10, []ledger.Failures{}},
	} {
		got, err := l.Failures(ctx, tt.filter, tt.max)
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%+v: %v\n%s", tt.filter, err, diff)
		}
	}
	for _, tt := range []struct {
		filter ledger.RunFilter
		want   []int
	}{
		{ledger.RunFilter{Failure: writ.CodeNoCapacity}, []int{5, 2, 1, 0}},
		{ledger.RunFilter{Failure: writ.CodeNoCapacity, Operation: "machine.create"}, []int{5, 1, 0}},
		{ledger.RunFilter{Operation: "volume.create"}, []int{2}},
		{ledger.RunFilter{Operation: ledger.NoOperation}, []int{4, 3}},
		{ledger.RunFilter{Failure: writ.CodeNoCapacity, Operation: ledger.NoOperation}, nil},
	} {
		if got := names(t, l, tt.filter, known); !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %v, want %v", tt.filter, got, tt.want)
		}
	}
}

// testNodes lists nodes by id and name.
func testNodes(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	node := writ.Node{ID: "n1", Name: "one", Admission: writ.AdmissionApproved}
	other := writ.Node{ID: "n2", Name: "two", Admission: writ.AdmissionApproved}
	third := writ.Node{ID: "n3", Name: "three", Admission: writ.AdmissionApproved}
	store(t, l, east, events(1, writ.Event{Node: &node}, writ.Event{Node: &other}, writ.Event{Node: &third}))
	list, err := l.Nodes(ctx, ledger.NodeFilter{Datacenter: east, Nodes: []writ.NodeID{"n2"}}, ledger.Page{})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "two" {
		t.Errorf("one node: %+v, %v", list.Items, err)
	}
	list, err = l.Nodes(ctx, ledger.NodeFilter{Nodes: []writ.NodeID{"n3", "none", "n1"}}, ledger.Page{})
	if err != nil || len(list.Items) != 2 || list.Items[0].Name != "one" || list.Items[1].Name != "three" {
		t.Errorf("some nodes: %+v, %v", list.Items, err)
	}
	list, err = l.Nodes(ctx, ledger.NodeFilter{Names: []string{"three", "none", "one"}}, ledger.Page{})
	if err != nil || len(list.Items) != 2 || list.Items[0].Name != "one" || list.Items[1].Name != "three" {
		t.Errorf("nodes by name: %+v, %v", list.Items, err)
	}
}

// numbers lists the names of n items, sorted.
func numbers(n int, name func(int) string) []string {
	var all []string
	for i := range n {
		all = append(all, name(i))
	}
	slices.Sort(all)
	return all
}

func check[T any](r *rapid.T, want []string, items []T, err error, name func(T) string) {
	r.Helper()
	var got []string
	for _, item := range items {
		got = append(got, name(item))
	}
	if err != nil {
		r.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.Fatal(diff)
	}
}
