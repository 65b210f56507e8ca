package ledgertest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"writ"
	"writ/ledger"
)

// testFilterPairs lists and counts runs by random filters. The results must be equal to those of a filter in memory.
func testFilterPairs(t *testing.T, l ledger.Ledger) {
	random := rand.New(rand.NewPCG(20261130, 0))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	var all []ledger.Run
	last := map[writ.DatacenterID]int64{}
	for n := 1; n <= 80; n++ {
		in := incoming(n, writ.DatacenterID(pick(string(east), string(west))))
		in.Received = at(n / 3) // some have the same time
		in.Project = writ.ProjectID(pick(string(shop), string(bank)))
		in.Signer, in.Script, in.Deployment = pick("alice", "bob"), pick("web.tengo", "db.tengo"), pick("web", "db")
		add(t, l, in)
		state := ledger.States[random.IntN(len(ledger.States))]
		switch state {
		case ledger.StateWaiting:
		case ledger.StateRefused, ledger.State(writ.RunExpired):
			ok(t, l.Reject(t.Context(), in.Payload, writ.SubmissionState(state), writ.Errorf(writ.CodeNoCapacity, "full")))
		default:
			run := runOf(in, writ.RunState(state))
			if random.IntN(4) == 0 { // a datacenter may report an end that contradicts the state
				run.Ended = map[bool]time.Time{true: {}, false: at(n)}[run.State.Ended()]
			}
			if state == ledger.State(writ.RunFailed) {
				run.Failure = &writ.Failure{Error: *writ.Errorf(writ.Code(pick(string(writ.CodeNodeLost), string(writ.CodeNoCapacity))), "no")}
			}
			last[in.Datacenter]++
			store(t, l, in.Datacenter, events(last[in.Datacenter], runEvent(run)))
		}
		run, err := l.Run(t.Context(), in.Run)
		ok(t, err)
		if run.State != state {
			t.Fatalf("run %d is %s, want %s", n, run.State, state)
		}
		all = append(all, run)
	}
	slices.SortFunc(all, func(a, b ledger.Run) int { // newest first
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.ID, a.ID))
	})

	rapid.Check(t, func(r *rapid.T) {
		maybe := func(name string, from ...string) string {
			return rapid.SampledFrom(append(from, "", "")).Draw(r, name)
		}
		filter := ledger.RunFilter{
			States:     rapid.SliceOfN(rapid.SampledFrom(ledger.States), 0, 3).Draw(r, "states"),
			Projects:   rapid.SliceOfN(rapid.SampledFrom([]writ.ProjectID{shop, bank, "none"}), 0, 2).Draw(r, "projects"),
			Datacenter: writ.DatacenterID(maybe("datacenter", string(east), string(west))),
			Signer:     maybe("signer", "alice", "bob", "eve"),
			Script:     maybe("script", "web.tengo", "db.tengo"),
			Deployment: maybe("deployment", "web", "db"),
			Oldest:     rapid.Bool().Draw(r, "oldest"),
		}
		if rapid.Bool().Draw(r, "of many projects") && len(filter.Projects) > 0 {
			for n := range 40 {
				filter.Projects = append(filter.Projects, writ.ProjectID(fmt.Sprint("other-", n)))
			}
		}
		var want []string
		counts, failures := map[ledger.State]int{}, map[writ.Code]int{}
		for _, run := range all {
			is := func(is, want string) bool { return want == "" || is == want }
			if (len(filter.States) == 0 || slices.Contains(filter.States, run.State)) &&
				(len(filter.Projects) == 0 || slices.Contains(filter.Projects, run.Project)) &&
				is(string(run.Datacenter), string(filter.Datacenter)) && is(run.Signer, filter.Signer) &&
				is(run.Script, filter.Script) && is(run.Deployment, filter.Deployment) {
				want = append(want, string(run.ID))
				counts[run.State]++
				if run.Failure != nil {
					failures[run.Failure.Code]++
				}
			}
		}
		if filter.Oldest {
			slices.Reverse(want)
		}
		size := rapid.IntRange(1, 20).Draw(r, "page")
		got, err := walk(t.Context(), size, func() {},
			func(ctx context.Context, p ledger.Page) (ledger.List[ledger.Run], error) {
				return l.Runs(ctx, filter, p)
			})
		check(r, want, got, err, func(run ledger.Run) string { return string(run.ID) })
		counted, err := l.CountRuns(t.Context(), filter)
		if err != nil {
			r.Fatal(err)
		}
		if diff := gocmp.Diff(counts, counted.Total()); diff != "" {
			r.Errorf("counts: %s", diff)
		}
		groups, err := l.Failures(t.Context(), filter, len(all))
		grouped := map[writ.Code]int{}
		for _, g := range groups {
			grouped[g.Code] += g.Runs
		}
		if diff := gocmp.Diff(failures, grouped); err != nil || diff != "" {
			r.Errorf("failures: %v\n%s", err, diff)
		}
	})
}
