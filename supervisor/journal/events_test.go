package journal_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/supervisor/journal"
)

// writeEvents writes n events.
func writeEvents(t *testing.T, j *journal.Journal, name string, n int) {
	t.Helper()
	const together = 100
	for left := n; left > 0; left -= min(left, together) {
		write(t, j, func(tx *journal.Tx) error {
			for i := range min(left, together) {
				run := aRun(fmt.Sprint(name, left, i))
				run.Output = nil // not in events
				tx.AddEvents(writ.Event{Run: &run.Run})
			}
			return nil
		})
	}
}

func eventsAfter(t *testing.T, j *journal.Journal, after int64, max int) []writ.Event {
	t.Helper()
	events, err := j.Events(t.Context(), after, max)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// A close follower gets from memory the same events that others read from the store.
//
// Promise: Speed and storage: Events are equal from memory and from the journal, and events of another process are
// not skipped.
// How: The newest events are cached as committed and dropped when an epoch or generation begins or events are
// deleted.
// Also: TestEventsOfAnotherProcessAreSent.
func TestCachedEventsEqualStoredEvents(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		j := open(t, path)
		const all = journal.TailForTest + 50
		writeEvents(t, j, "r", all)
		reader := open(t, path)
		for _, at := range []struct {
			after int64
			max   int
		}{{0, 10}, {49, 10}, {50, 10}, {all - 3, 1}, {all - 3, 10}, {0, all}} {
			want := eventsAfter(t, reader, at.after, at.max)
			if diff := cmp.Diff(want, eventsAfter(t, j, at.after, at.max)); diff != "" {
				t.Errorf("after %d, at most %d (-journal +got):\n%s", at.after, at.max, diff)
			}
			if want[0].Seq != at.after+1 || want[0].Journal != j.ID() {
				t.Errorf("event after %d = %d of journal %s", at.after, want[0].Seq, want[0].Journal)
			}
		}
		if err := j.ExecForTest(t.Context(), "DELETE FROM events"); err != nil { // the store is not read
			t.Fatal(err)
		}
		if events := eventsAfter(t, j, 50, all); len(events) != all-50 {
			t.Errorf("got %d events", len(events))
		}
	})
}

// Events that another process wrote during its epoch are sent by this one, too.
func TestEventsOfAnotherProcessAreSent(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		first := open(t, path)
		if _, err := first.BeginEpoch(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		writeEvents(t, first, "of the first", 2)
		second := steal(t, path)
		writeEvents(t, second, "of the second", 2)
		if err := first.ExpireLeaseForTest(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := first.BeginEpoch(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		if events := eventsAfter(t, first, 2, 10); len(events) != 2 || events[0].Seq != 3 {
			t.Errorf("events before the first write = %+v", events)
		}
		writeEvents(t, first, "of the first again", 1)
		for after := range int64(5) {
			if events := eventsAfter(t, first, after, 1); events[0].Seq != after+1 {
				t.Errorf("event after %d = %d", after, events[0].Seq)
			}
		}
	})
}

func TestOversizedEventsAreShortened(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		j := open(t, path)
		n := writ.Node{ID: "n1", Name: "web", Fence: &writ.Fence{Stopped: 7, Open: []string{strings.Repeat("<", journal.MaxSaid)}}}
		r := writ.Resource{ResourceID: writ.ResourceID{Name: "db"}, Drift: []string{strings.Repeat("<", journal.MaxSaid)}}
		write(t, j, func(tx *journal.Tx) error {
			tx.AddEvents(writ.Event{Node: &n}, writ.Event{Resource: &r})
			return nil
		})
		for i, e := range eventsAfter(t, open(t, path), 0, 10) {
			text, err := json.Marshal(e)
			if err != nil || len(text) > journal.MaxSaid || e.Seq != int64(i+1) {
				t.Errorf("event %d has %d bytes, %v", e.Seq, len(text), err)
			}
			if node := i%2 == 0; node && (e.Node == nil || e.Node.Name != "web" || e.Node.Fence.Stopped != 7) || !node && (e.Resource == nil || e.Resource.Name != "db") {
				t.Errorf("event %d is %s", e.Seq, text)
			}
		}
		if n.Fence.Open == nil || r.Drift == nil {
			t.Error("Events changed the stored records")
		}
	})
}
