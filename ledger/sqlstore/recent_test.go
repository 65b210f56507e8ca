package sqlstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/internal/sqldb"
	"writ/internal/test/testenv"
	"writ/ledger"
)

const vienna, graz = writ.DatacenterID("vienna"), writ.DatacenterID("graz")

// writer stores random events of a datacenter.
type writer struct {
	to     *Store
	dc     writ.DatacenterID
	seq    int64
	begun  bool // the journal has events
	chance *rand.Rand
}

// write stores a few events of random kinds, or another change that makes events. Some changes fail.
func (w *writer) write(t *testing.T) {
	t.Helper()
	n := w.chance.IntN(40)
	run := writ.RunIDOf(writ.DigestOf(fmt.Append(nil, n)))
	switch w.chance.IntN(8) {
	case 0:
		in := ledger.Incoming{
			Submission: writ.Submission{Payload: writ.DigestOf(fmt.Append(nil, n)), Run: run, Datacenter: w.dc, Project: "shop", Received: time.Now(), Expires: time.Now()},
			Signed:     []byte("signed"),
		}
		if _, _, err := w.to.AddSubmission(t.Context(), in); err != nil {
			t.Error(err)
		}
		return
	case 1:
		if err := w.to.Restate(t.Context(), w.dc, "restated", writ.Run{ID: run, State: writ.RunRunning}); err != nil && writ.CodeOf(err) != writ.CodeNotFound {
			t.Error(err)
		}
		return
	}
	var events []writ.Event
	for range w.chance.IntN(6) + 1 {
		w.seq++
		e := writ.Event{Journal: "of " + string(w.dc), Seq: w.seq, Time: time.Now()}
		switch w.chance.IntN(6) {
		case 0:
			e.Run = &writ.Run{
				ID: run, Project: "shop", State: writ.RunFailed, Output: map[string]any{"secret": "v"}, Accepted: time.Now(),
				Failure: &writ.Failure{Error: writ.Error{Code: writ.CodeNoCapacity, Message: "line 1\nline 2 <\u2028>", Err: errors.New("cause")}},
			}
		case 1:
			e.Call = &writ.Call{Run: run, Seq: n + 1, State: writ.CallRunning, Planned: time.Now(), After: []int{}}
		case 2:
			e.Log = &writ.LogLine{Run: run, Ordinal: int(w.seq), Text: "\ufffd \"text\" & \x00"}
		case 3:
			e.Node = &writ.Node{ID: "n1", Name: "n1", Labels: map[string]string{}}
		case 4:
			e.Resource = &writ.Resource{ResourceID: writ.ResourceID{Project: "blog", Kind: writ.KindVolume, Name: "v"}, Run: run, Values: map[string]any{"secret": "v"}}
		default:
			e.Usage = &writ.Usage{} // takes an id, but is not listed
		}
		events = append(events, e)
	}
	if w.begun && w.chance.IntN(6) == 0 {
		gap := slices.Clone(events)
		for i := range gap {
			gap[i].Seq += 1000
		}
		if err := w.to.StoreEvents(t.Context(), w.dc, gap); writ.CodeOf(err) != writ.CodeConflict {
			t.Errorf("events after a gap: %v", err)
		}
	}
	if err := w.to.StoreEvents(t.Context(), w.dc, events); err != nil {
		t.Error(err)
	}
	w.begun = true
}

// TestRecentEventsAreStoredEvents stores events from several goroutines, some of them through two ledgers with one
// database, and compares the events in memory with those in the database.
//
// Promise: Speed and storage: Readers near the newest event get the bytes that were stored, without a read of the database.
// How: Events enter a list of 4 MiB in memory after their commit; a gap in their ids empties it.
// Also: TestStreamsSendTheStoredBytes, TestStreamsReceiveEachEventOnce.
func TestRecentEventsAreStoredEvents(t *testing.T) {
	test := func(t *testing.T, first, second *Store) {
		chance := rand.New(rand.NewPCG(testenv.Seed(t, 0), 0))
		first.recent.limit, second.recent.limit = 20_000, 20_000
		var read int64
		for round := range 30 {
			var writing sync.WaitGroup
			for i, w := range []*writer{
				{to: first, dc: vienna}, {to: second, dc: graz},
			} {
				w.seq, w.chance = int64(round)*1000, rand.New(rand.NewPCG(chance.Uint64(), 0))
				w.dc += writ.DatacenterID(fmt.Sprint(round)) // a journal may begin with any number
				if i == 1 && first != second && round%3 == 0 {
					continue
				}
				writing.Go(func() {
					for range 5 {
						w.write(t)
					}
				})
			}
			writing.Wait()
			if round == 20 {
				if err := first.Prune(t.Context(), time.Now().Add(-time.Hour), time.Time{}); err != nil {
					t.Fatal(err)
				}
			}
			read += compareRecent(t, first, chance) + compareRecent(t, second, chance)
		}
		if read == 0 {
			t.Error("no event was read from memory")
		}
	}
	t.Run("file", func(t *testing.T) {
		s := openAt(t, filepath.Join(t.TempDir(), "ledger.db"))
		test(t, s, s)
	})
	t.Run("two coordinators", func(t *testing.T) {
		address := testenv.Postgres(t).Store()
		test(t, openAt(t, address), openAt(t, address))
	})
}

func openAt(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// compareRecent reads from random positions and returns the number of events that came from memory.
func compareRecent(t *testing.T, s *Store, chance *rand.Rand) (read int64) {
	t.Helper()
	_, newest, err := s.EventRange(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		after, most := max(newest-chance.Int64N(40), 0), chance.IntN(50)+1
		filter := []ledger.EventFilter{
			{}, {Topics: []string{"call", "log"}}, {Projects: []writ.ProjectID{"shop"}}, {Projects: []writ.ProjectID{"shop", "blog"}}, {Run: writ.RunIDOf(writ.DigestOf([]byte("7")))}, {Datacenter: vienna + "3"},
		}[chance.IntN(6)]
		want, _, err := s.storedEvents(t.Context(), after, filter, most)
		if err != nil {
			t.Fatal(err)
		}
		bodies, err := column[string](s.db.Query(t.Context(), "SELECT body FROM events WHERE id > $1 ORDER BY id", after))
		if err != nil {
			t.Fatal(err)
		}
		recent, _, ok := s.recent.after(after, filter, most)
		if ok {
			read += int64(len(recent))
		}
		got := everyEvent(t, s, after, filter, most)
		encoded := everyEncoded(t, s, after, filter, most)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("after %d, %+v (-stored +got):\n%s", after, filter, diff)
		}
		if len(encoded) != len(want) {
			t.Fatalf("after %d, %+v: %d encoded events, want %d", after, filter, len(encoded), len(want))
		}
		for i, e := range encoded {
			if e.JSON != encode(want[i]) || !slices.Contains(bodies, e.JSON) || e != encodedEvent(want[i], e.JSON) {
				t.Fatalf("got %+v, stored %+v", e, want[i])
			}
		}
	}
	return read
}

// everyEvent reads at most `most` events, also if the events in memory end earlier.
func everyEvent(t *testing.T, s *Store, after int64, filter ledger.EventFilter, most int) []ledger.Event {
	t.Helper()
	all := []ledger.Event{}
	for more := true; more && len(all) < most; {
		var some []ledger.Event
		var err error
		if some, more, err = s.Events(t.Context(), after, filter, most-len(all)); err != nil {
			t.Fatal(err)
		}
		if len(some) == 0 {
			if more {
				t.Fatal("an empty page has a next page")
			}
			break
		}
		all, after = append(all, some...), some[len(some)-1].ID
	}
	return all
}

func everyEncoded(t *testing.T, s *Store, after int64, filter ledger.EventFilter, most int) (all []ledger.EncodedEvent) {
	t.Helper()
	for more := true; more && len(all) < most; {
		var some []ledger.EncodedEvent
		var err error
		if some, more, err = s.EncodedEvents(t.Context(), after, filter, most-len(all)); err != nil {
			t.Fatal(err)
		}
		if len(some) == 0 {
			if more {
				t.Fatal("an empty page has a next page")
			}
			break
		}
		all, after = append(all, some...), some[len(some)-1].ID
	}
	return all
}

// TestRecentEventsFollowTheCommit checks that an event is in memory only after its commit, and not at all if its change
// fails.
func TestRecentEventsFollowTheCommit(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "ledger.db"))
	if err := s.StoreEvents(t.Context(), vienna, []writ.Event{{Journal: "j", Seq: 1, Node: &writ.Node{ID: "n1"}}}); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	err := s.write(t.Context(), func(tx *sqldb.Tx) error {
		id := newEventsOf(tx).reserve(1)
		if err := addEvent(t.Context(), tx, ledger.Event{ID: id, Datacenter: vienna, Event: writ.Event{Node: &writ.Node{ID: "n2"}}}); err != nil {
			return err
		}
		if recent, _, ok := s.recent.after(1, ledger.EventFilter{}, 10); !ok || len(recent) != 0 {
			t.Errorf("before the commit, memory has %+v, %v", recent, ok)
		}
		return refused
	})
	if !errors.Is(err, refused) {
		t.Fatal(err)
	}
	if recent, _, ok := s.recent.after(0, ledger.EventFilter{}, 10); !ok || len(recent) != 1 {
		t.Errorf("after a failed change, memory has %+v, %v", recent, ok)
	}
}

// TestSubjectsAreEncodedOnce compares the JSON of events with that of the standard encoder, also for events with
// several subjects, which only a hostile datacenter sends.
func TestSubjectsAreEncodedOnce(t *testing.T) {
	subjects := []func(e *writ.Event){
		func(e *writ.Event) { e.Run = &writ.Run{ID: "r", Reason: "}\"<"} },
		func(e *writ.Event) { e.Call = &writ.Call{Run: "r", Seq: 2, Planned: time.Now()} },
		func(e *writ.Event) { e.Log = &writ.LogLine{Run: "r", Text: "}"} },
		func(e *writ.Event) { e.Node = &writ.Node{ID: "n"} },
		func(e *writ.Event) { e.Resource = &writ.Resource{Drift: []string{"a"}} },
		func(e *writ.Event) { e.Usage = &writ.Usage{} },
	}
	for set := range 1 << len(subjects) {
		e := ledger.Event{ID: 7, Datacenter: vienna, Event: writ.Event{Journal: "j}", Seq: 3, Time: time.Now()}}
		for i, add := range subjects {
			if set>>i&1 == 1 {
				add(&e.Event)
			}
		}
		body, subject := encodeEvent(e)
		if body != encode(e) {
			t.Errorf("got  %s\nwant %s", body, encode(e))
		}
		var c changes
		c.record(e.Event, subject)
		checkJSON(t, c.runs.values)
		checkJSON(t, c.calls.values)
		checkJSON(t, c.nodes.values)
		checkJSON(t, c.resources.values)
	}
}

// checkJSON compares the JSON of values with that of the standard encoder.
func checkJSON[V any](t *testing.T, values []encoded[V]) {
	t.Helper()
	for _, v := range values {
		if v.json != encode(v.value) {
			t.Errorf("%T: %s", v.value, v.json)
		}
	}
}

// TestOpenRunsKeepTheirIndexEntries counts the pages that SQLite writes for the next state of a run. A page of an index
// counts too, if an UPDATE names a column of it.
func TestOpenRunsKeepTheirIndexEntries(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	s := openAt(t, path)
	seq := int64(0)
	pagesFor := func(run writ.Run) int64 {
		before, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		seq++
		if err := s.StoreEvents(t.Context(), vienna, []writ.Event{{Journal: "j", Seq: seq, Run: &run}}); err != nil {
			t.Fatal(err)
		}
		after, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		const frame = 4096 + 24 // a page and its header
		return (after.Size() - before.Size()) / frame
	}
	run := writ.Run{Project: "shop", ProjectName: "shop", Deployment: "web", Script: "web.tengo", Signer: "alice", State: writ.RunAccepted}
	var named, kept int64
	for n := range 3 {
		run.ID, run.Accepted, run.Script = writ.RunIDOf(writ.DigestOf(fmt.Append(nil, n))), time.Now(), "web.tengo"
		run.State = writ.RunAccepted
		pagesFor(run)
		run.State = writ.RunRunning
		kept = pagesFor(run)
		run.Script = "other.tengo" // never changes in fact; this UPDATE names the column
		named = pagesFor(run)
	}
	if kept > 10 || named < kept+3 {
		t.Errorf("a state writes %d pages, and %d with the columns of all indexes", kept, named)
	}
}
