package sqlstore

import (
	"path/filepath"
	"testing"
	"time"

	"writ"
	"writ/internal/sqldb"
	"writ/ledger"
)

// A reader at the newest id that EventRange names must get all events up to that id from the next read. A stream sets its
// position to that id if the read has no events (coord/stream, catchUp).
func TestReaderGetsTheEventsThatEventRangeNames(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	event := func(seq int64) []writ.Event {
		return []writ.Event{{Journal: "j", Seq: seq, Time: time.Now(), Node: &writ.Node{ID: "n1", Name: "n1"}}}
	}
	if err := s.StoreEvents(t.Context(), vienna, event(1)); err != nil {
		t.Fatal(err)
	}
	committed, release, ended := make(chan bool), make(chan bool), make(chan error)
	go func() {
		ended <- s.db.Write(t.Context(), func(tx *sqldb.Tx) error {
			if err := s.recent.join(t.Context(), tx); err != nil {
				return err
			}
			add := tx.Batch.Done
			tx.Batch.Done = func() { close(committed); <-release; add() } // another thread runs between the commit and Done
			fresh := event(2)
			taken, err := storeEvents(t.Context(), tx, vienna, fresh)
			if err != nil {
				return err
			}
			return taken.write(t.Context(), tx, vienna, fresh[0])
		})
	}()
	<-committed
	_, newest, err := s.EventRange(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	events, more, err := s.EncodedEvents(t.Context(), 1, ledger.EventFilter{}, 10)
	close(release)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if newest == 2 && len(events) == 0 && !more {
		t.Errorf("EventRange names event %d, but a read after event 1 has no events and no more may follow", newest)
	}
}
