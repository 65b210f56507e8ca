package journal_test

import (
	"testing"
	"time"

	"writ"
	"writ/supervisor/journal"
)

// TestAGenerationHasOneSequenceOfEvents compares journals with coordinators that have other events. If a journal cannot
// continue from there, it takes a new ID and sends all stored events, and then its whole state.
func TestAGenerationHasOneSequenceOfEvents(t *testing.T) {
	for _, tt := range []struct {
		name  string
		seq   int64                        // last event of the coordinator
		at    func(e writ.Event) time.Time // time that the coordinator reports for it, if wrong
		after int64                        // last deleted event of the journal
		goOn  bool

		together bool // the events were written by one commit
	}{
		{name: "nothing", goOn: true},
		{name: "a part", seq: 2, goOn: true},
		{name: "all", seq: 4, goOn: true},
		{name: "a part of a commit", seq: 2, together: true, goOn: true},
		{name: "all of a commit", seq: 4, together: true, goOn: true},
		{name: "more than a commit", seq: 5, together: true},
		{name: "something else in a commit", seq: 2, together: true, at: func(e writ.Event) time.Time { return e.Time.Add(time.Microsecond) }},
		{name: "more than there was", seq: 5},
		{name: "something else", seq: 2, at: func(e writ.Event) time.Time { return e.Time.Add(time.Microsecond) }},
		{name: "exactly the deleted events", seq: 2, after: 2, goOn: true},
		{name: "fewer than the deleted events", seq: 1, after: 2},
		{name: "none of the deleted events", seq: 0, after: 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stores(t, func(t *testing.T, path string) {
				j := open(t, path)
				run := aRun("open")
				write(t, j, func(tx *journal.Tx) error {
					if _, _, err := tx.AddRun(run, 1, []byte("signed")); err != nil {
						return err
					}
					if tt.together {
						tx.AddEvents(make([]writ.Event, 4)...)
					}
					return nil
				})
				for range 4 {
					write(t, j, func(tx *journal.Tx) error {
						if !tt.together {
							tx.AddEvents(writ.Event{})
						}
						return nil
					})
				}
				told, err := j.Events(t.Context(), 0, 10)
				if err != nil {
					t.Fatal(err)
				}
				at := time.Time{}
				if tt.seq > 0 {
					at = told[min(tt.seq, 4)-1].Time
				}
				if tt.at != nil {
					at = tt.at(told[tt.seq-1])
				}
				write(t, j, func(tx *journal.Tx) error {
					_, err := tx.ExecContext(t.Context(), `DELETE FROM events WHERE seq <= $1`, tt.after)
					return err
				})
				feed, other := j.Feed("c"), j.Feed("d")
				old := feed.ID()
				err = feed.Agree(t.Context(), old, tt.seq, at)
				if tt.goOn {
					if err != nil || feed.ID() != old {
						t.Errorf("%v, generation %s of %s", err, feed.ID(), old)
					}
					return
				}
				if err == nil || feed.ID() == old {
					t.Fatalf("%v, generation %s of %s", err, feed.ID(), old)
				}
				if other.ID() != old || j.ID() != old {
					t.Errorf("generations of other feeds = %s and %s, want %s", other.ID(), j.ID(), old)
				}
				if again := open(t, path).Feed("c"); again.ID() != feed.ID() {
					t.Errorf("generation after reopening = %s, want %s", again.ID(), feed.ID())
				}
				if err := feed.Agree(t.Context(), old, tt.seq, at); err == nil {
					t.Error("a session of the old generation continues")
				}
				if err := feed.Agree(t.Context(), feed.ID(), 0, time.Time{}); err != nil {
					t.Errorf("the next session: %v", err)
				}
				if err := other.Agree(t.Context(), old, 4, told[3].Time); err != nil {
					t.Errorf("agree with a coordinator that has the same events: %v", err)
				}
				if id, _, err := feed.EncodedEvents(t.Context(), 0, 1); err != nil || id != feed.ID() {
					t.Errorf("events of generation %s, %v", id, err)
				}
				all, err := j.Events(t.Context(), 0, 10)
				if err != nil || len(all) != 5-int(tt.after) || all[0].Seq != tt.after+1 {
					t.Fatalf("%d events %+v, %v", len(all), all, err)
				}
				for _, e := range all {
					if e.Journal != j.ID() {
						t.Errorf("event %d is of journal %s", e.Seq, e.Journal)
					}
				}
				if last := all[len(all)-1]; last.Run == nil || last.Run.ID != run.ID || last.Run.Output != nil {
					t.Errorf("open run in the last event = %+v", last)
				}
			})
		})
	}
}

// A row of events that cannot be read is dropped with the events before it, and coordinators that lack them receive the
// whole state again.
func TestUnreadableEventsAreReplacedByTheState(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		j := open(t, path)
		run := aRun("open")
		write(t, j, func(tx *journal.Tx) error {
			_, _, err := tx.AddRun(run, 1, []byte("signed"))
			return err
		})
		writeEvents(t, j, "a", 1)
		writeEvents(t, j, "b", 1)
		if err := j.ExecForTest(t.Context(), `UPDATE events SET body = $1 WHERE seq = 2`, []byte(`{`)); err != nil {
			t.Fatal(err)
		}
		j = open(t, path) // without events in memory
		feed := j.Feed("c")
		if _, events, err := feed.EncodedEvents(t.Context(), 1, 10); err == nil {
			t.Fatalf("unreadable events are sent: %+v", events)
		}
		if err := feed.Agree(t.Context(), feed.ID(), 1, time.Time{}); err == nil {
			t.Fatal("the events continue after a gap")
		}
		if err := feed.Agree(t.Context(), feed.ID(), 0, time.Time{}); err != nil {
			t.Fatal(err)
		}
		sent, err := j.Events(t.Context(), 0, 10)
		if err != nil || len(sent) != 1 || sent[0].Seq != 3 || sent[0].Run == nil || sent[0].Run.ID != run.ID {
			t.Errorf("%+v, %v", sent, err)
		}
	})
}
