package sqlstore

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"writ"
	"writ/internal/sqldb"
	"writ/internal/test/testenv"
	"writ/ledger"
)

// withRuns returns a ledger with n runs, and the runs from the oldest.
func withRuns(t *testing.T, n int) (*Store, []ledger.Run) {
	t.Helper()
	s, err := Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	var all []ledger.Run
	var ids []writ.RunID
	err = s.db.Write(t.Context(), func(tx *sqldb.Tx) error {
		for i := range n {
			run := writ.Run{
				ID: writ.RunIDOf(writ.DigestOf(fmt.Append(nil, i))), Datacenter: "dc", Project: writ.ProjectID(fmt.Sprint("p", i%3)),
				ProjectName: "shop", Signer: fmt.Sprint("signer-", i%4), Script: fmt.Sprint("script-", i%2, ".tengo"), State: writ.RunSucceeded,
			}
			if i%5 == 0 {
				run.State = writ.RunFailed
				run.Failure = &writ.Failure{Error: writ.Error{Code: writ.CodeNoCapacity, Message: fmt.Sprint("cause ", i%7)}}
			}
			run.Accepted = sqldb.Time(1_700_000_000_000_000 + int64(i/2)) // two at a time
			run.Ended = run.Accepted
			stored := ledger.Run{Run: run, State: ledger.State(run.State), Created: run.Accepted}
			if err := addRun(t.Context(), tx, stored, 0, fmt.Sprint("replicas=", i%11)); err != nil {
				return err
			}
			all, ids = append(all, stored), append(ids, run.ID)
		}
		return addEnded(t.Context(), tx, "COUNT(*)", ids)
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, all
}

// A page of a search may end early. All pages together must have each run once, in order.
//
// Promise: Readers and roles: A search for a text reads at most 5,000 runs for a page, and its pages lead through all
// runs.
// How: The cursor of a page leads to the runs that the search has not read.
// Also: TestPagesOfASearchAreBounded.
func TestPagesOfASearchHaveEachRunOnce(t *testing.T) {
	s, all := withRuns(t, 60)
	testenv.CheckProperty(t, func(r *rapid.T) {
		pick := func(name string, values ...string) string { return rapid.SampledFrom(values).Draw(r, name) }
		filter := ledger.RunFilter{
			Text: pick("text", "", "cause", "cause 3", "replicas=1", "SIGNER-2", "none"), Signer: pick("signer", "", "signer-1"),
			Script: pick("script", "", "script-1.tengo"), Failure: writ.Code(pick("failure", "", string(writ.CodeNoCapacity))),
			Oldest: rapid.Bool().Draw(r, "oldest"),
		}
		if rapid.Bool().Draw(r, "projects") {
			filter.Projects = []writ.ProjectID{"p0", "p2"}
		}
		if rapid.Bool().Draw(r, "states") {
			filter.States = []ledger.State{ledger.State(writ.RunFailed), ledger.State(writ.RunSucceeded)}
		}
		most := rapid.IntRange(1, 70).Draw(r, "most")
		p := ledger.Page{Limit: rapid.IntRange(1, 10).Draw(r, "limit")}

		whole := selectFrom(runColumns)
		selectRuns(whole, filter)
		whole.add(sequenceOf(filter.Oldest))
		want, err := s.readRuns(t.Context(), whole, ledger.Page{Limit: len(all)})
		if err != nil {
			t.Fatal(err)
		}
		ids := func(runs []ledger.Run) (ids []writ.RunID) {
			for _, run := range runs {
				ids = append(ids, run.ID)
			}
			return ids
		}
		var got []writ.RunID
		for pages := 0; ; pages++ {
			list, err := s.runs(t.Context(), filter, p, most)
			if err != nil || len(list.Items) > p.Limit || pages > 2*len(all) {
				r.Fatalf("%d runs on page %d, %v", len(list.Items), pages, err)
			}
			got = append(got, ids(list.Items)...)
			if p.Cursor = list.Next; p.Cursor == "" {
				break
			}
		}
		if diff := cmp.Diff(ids(want.Items), got); diff != "" {
			r.Errorf("%+v, %d at once: %s", filter, most, diff)
		}
	})
}

func TestPagesOfASearchAreBounded(t *testing.T) {
	s, all := withRuns(t, 60)
	filter := ledger.RunFilter{Text: "cause 0", Projects: []writ.ProjectID{"p0", "p1", "p2"}}
	const most = 30 // half of the runs
	list, err := s.runs(t.Context(), filter, ledger.Page{}, most)
	if err != nil || list.Next == "" {
		t.Fatalf("the first page leads to %q, %v", list.Next, err)
	}
	oldest := slices.MinFunc(list.Items, func(a, b ledger.Run) int { return a.Created.Compare(b.Created) })
	if oldest.Created.Before(all[len(all)/2-2].Created) {
		t.Errorf("the first page has a run of %v", oldest.Created)
	}
	counts, err := s.countRuns(t.Context(), filter, most)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, n := range counts.Total() {
		found += n
	}
	if found == 0 || found > len(list.Items) {
		t.Errorf("%d runs are counted, of %d on the page", found, len(list.Items))
	}
}

// The numbers of failures are those of the newest failed runs.
func TestGroupsOfFailuresAreBounded(t *testing.T) {
	s, _ := withRuns(t, 60) // each fifth has failed
	q, err := groupFailures(t.Context(), s.db, ledger.RunFilter{}, 7)
	if err != nil {
		t.Fatal(err)
	}
	var code, operation string
	var n int
	var newest int64
	if err := s.db.QueryRow(t.Context(), q.String(), q.args...).Scan(&code, &operation, &n, &newest); err != nil || n != 7 {
		t.Errorf("%d runs of %s, %v", n, code, err)
	}
	all, err := s.Failures(t.Context(), ledger.RunFilter{}, 1)
	if err != nil || len(all) != 1 || all[0].Runs != 12 || micros(all[0].Newest) != newest {
		t.Errorf("all failures: %+v, %v", all, err)
	}
}
