package sqlstore_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/ledger"
	"writ/ledger/sqlstore"
)

const hostile = writ.DatacenterID("0192f6c2-0000-7000-8000-000000000001")

func openMemory(t *testing.T) *sqlstore.Store {
	t.Helper()
	store, err := sqlstore.Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// A list of empty objects fits into a frame of 1 MiB, and becomes tens of MiB when all fields are written.
func TestGrowingEventsAreRefused(t *testing.T) {
	store := openMemory(t)
	text := `{"journal":"j","seq":1,"node":{"id":"n1","name":"n1","decided":[` + strings.TrimSuffix(strings.Repeat("{},", 300_000), ",") + `]}}`
	var event writ.Event
	if err := json.Unmarshal([]byte(text), &event); err != nil {
		t.Fatal(err)
	}
	if err := store.StoreEvents(t.Context(), hostile, []writ.Event{event}); writ.CodeOf(err) != writ.CodeTooLarge {
		t.Errorf("an event of %d bytes in a frame: %v", len(text), err)
	}
	if page, err := store.Nodes(t.Context(), ledger.NodeFilter{}, ledger.Page{Limit: 1}); err != nil || len(page.Items) != 0 {
		t.Errorf("%d nodes are stored, %v", len(page.Items), err)
	}
}

// largeRuns stores runs of a datacenter with a loop of calls each. The newest call and the run have a mebibyte.
func largeRuns(t *testing.T, store *sqlstore.Store, runs int) (all []writ.RunID) {
	t.Helper()
	large, seq := strings.Repeat("x", 1<<20), int64(0)
	for n := range runs {
		id := writ.RunID(fmt.Sprintf("0192f6c2-0000-7000-8000-%012d", n))
		all = append(all, id)
		run := writ.Run{ID: id, State: writ.RunRunning, Accepted: time.UnixMicro(1), Reason: large}
		events := []writ.Event{{Run: &run}}
		for i := range ledger.LoopCalls {
			call := writ.Call{Run: id, Seq: i + 1, State: writ.CallQueued, Position: "a:1:1", Planned: time.UnixMicro(int64(i + 1))}
			if i == ledger.LoopCalls-1 {
				call.Reason = large
			}
			events = append(events, writ.Event{Call: &call})
		}
		for i := range events {
			seq++
			events[i].Journal, events[i].Seq = "j", seq
		}
		if err := store.StoreEvents(t.Context(), hostile, events); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// Reads for the reasons of many runs, and for runs without events of a journal, are bounded in bytes.
func TestRowsOfManyRunsAreBoundedTogether(t *testing.T) {
	store := openMemory(t)
	const runs, most = 8, 5 // the last one reaches 4 MiB
	all := largeRuns(t, store, runs)
	repeated, err := store.Repeated(t.Context(), all...)
	if err != nil || len(repeated) > most || len(repeated) == 0 {
		t.Errorf("%d calls of 1 MiB come at once, want at most %d; %v", len(repeated), most, err)
	}
	unreported, err := store.Unreported(t.Context(), hostile, "another", "", runs)
	if err != nil || len(unreported) > most || len(unreported) == 0 {
		t.Errorf("%d runs of 1 MiB come at once, want at most %d; %v", len(unreported), most, err)
	}
}

// The calls of a run whose end was answered are ended in parts. None is left out.
func TestLargeCallsEndWithTheirRun(t *testing.T) {
	store := openMemory(t)
	run := writ.Run{ID: largeRuns(t, store, 1)[0], State: writ.RunRunning}
	const more = 6
	for i := range more {
		call := writ.Call{Run: run.ID, Seq: ledger.LoopCalls + i + 1, State: writ.CallRunning, Reason: strings.Repeat("x", 1<<20)}
		event := writ.Event{Journal: "j", Seq: int64(ledger.LoopCalls + i + 2), Call: &call}
		if err := store.StoreEvents(t.Context(), hostile, []writ.Event{event}); err != nil {
			t.Fatal(err)
		}
	}
	run.State = writ.RunSucceeded
	if err := store.Restate(t.Context(), hostile, "another", run); err != nil {
		t.Fatal(err)
	}
	counts, err := store.CountCalls(t.Context(), run.ID)
	if want := map[writ.CallState]int{writ.CallFailed: ledger.LoopCalls + more}; err != nil || !maps.Equal(counts[run.ID], want) {
		t.Errorf("calls by state: %v, %v", counts[run.ID], err)
	}
}
