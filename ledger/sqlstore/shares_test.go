package sqlstore

import (
	"path/filepath"
	"testing"
	"time"

	"writ"
	"writ/internal/sqldb"
	"writ/internal/test/testenv"
	"writ/ledger"
)

func onEachEngine(t *testing.T, test func(t *testing.T, s *Store)) {
	t.Run("file", func(t *testing.T) { test(t, openAt(t, filepath.Join(t.TempDir(), "ledger.db"))) })
	t.Run("postgresql", func(t *testing.T) { test(t, openAt(t, testenv.Postgres(t).Store())) })
}

// Bytes are counted in the journal on the day of its events and later in the table shares, each byte once. They belong to
// the day of their events until they are pruned.
func TestSharesCountEachByteOnce(t *testing.T) {
	onEachEngine(t, func(t *testing.T, s *Store) {
		day := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
		s.db.Clock = func() time.Time { return day }
		seq := map[string]int64{}
		grow := func(journal string) (bytes int64) {
			t.Helper()
			seq[journal]++
			run := writ.Run{ID: "r1", State: writ.RunRunning}
			before, err := s.Shares(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range []writ.Event{{Node: &writ.Node{ID: "n1"}}, {Run: &run}} {
				e.Journal, e.Seq = journal, seq[journal]
				if err := s.StoreEvents(t.Context(), vienna, []writ.Event{e}); err != nil {
					t.Fatal(err)
				}
				seq[journal]++
			}
			seq[journal]--
			after, err := s.Shares(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return after[vienna] - before[vienna]
		}
		events := grow("j")
		for _, step := range []struct {
			name, journal string
			days          int
		}{{"the same day", "j", 0}, {"the next day", "j", 1}, {"another journal", "k", 1}, {"the earlier journal", "j", 2}, {"its next day", "j", 1}} {
			day = day.AddDate(0, 0, step.days)
			if got := grow(step.journal); got < events || got > events+8 { // the ids of events get longer
				t.Errorf("%s: the shares grow by %d bytes, want %d", step.name, got, events)
			}
		}
		if err := s.Prune(t.Context(), day, day); err != nil { // leaves the last day
			t.Fatal(err)
		}
		if left, err := s.Shares(t.Context()); err != nil || left[vienna] < events || left[vienna] > events+8 {
			t.Errorf("%v are left, want %d bytes; %v", left, events, err)
		}
	})
}

// All events of a run have its number, and are in one list. Calls of a run may arrive before the ledger has the run; it
// then gets no number.
func TestEventsOfARunAreInOneList(t *testing.T) {
	onEachEngine(t, func(t *testing.T, s *Store) {
		seq := int64(0)
		put := func(e writ.Event) {
			t.Helper()
			seq++
			e.Journal, e.Seq = "j", seq
			if err := s.StoreEvents(t.Context(), vienna, []writ.Event{e}); err != nil {
				t.Fatal(err)
			}
		}
		var last int64
		for _, early := range []bool{false, true, false} {
			payload := writ.DigestOf([]byte(time.Now().String()))
			run := writ.Run{ID: writ.RunIDOf(payload), State: writ.RunRunning, Accepted: time.Now()}
			call := writ.Event{Call: &writ.Call{Run: run.ID, Seq: 1, State: writ.CallRunning}}
			want := 3
			if early {
				put(call)
				want++
			}
			in := ledger.Incoming{
				Submission: writ.Submission{Payload: payload, Run: run.ID, Datacenter: vienna, Received: time.Now(), Expires: time.Now()},
				Signed:     []byte("signed"),
			}
			if _, _, err := s.AddSubmission(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if err := s.Deliver(t.Context(), payload, run); err != nil {
				t.Fatal(err)
			}
			put(call)
			found, _, err := s.storedEvents(t.Context(), 0, ledger.EventFilter{Run: run.ID}, 10)
			if err != nil || len(found) != want {
				t.Errorf("early: %v: the list has %d events, want %d; %v", early, len(found), want, err)
			}
			if heard, err := s.LastHeard(t.Context(), run.ID); err != nil || heard[run.ID].IsZero() {
				t.Errorf("early: %v: %v, %v", early, heard, err)
			}
			numbers := s.numbersOf(t, run.ID)
			if len(numbers) != 1 || early != (numbers[0] == 0) || !early && numbers[0] <= last {
				t.Errorf("early: %v: the events have the numbers %d after %d", early, numbers, last)
			}
			last = numbers[0]
		}
	})
}

// numbersOf returns the numbers that a run and its events have.
func (s *Store) numbersOf(t *testing.T, run writ.RunID) []int64 {
	t.Helper()
	var numbers []int64
	err := s.db.Read(t.Context(), func(tx *sqldb.Tx) (err error) {
		numbers, err = column[int64](tx.Query(`
			SELECT run_number FROM events WHERE run = $1
			UNION
			SELECT number FROM runs WHERE id = $1`, string(run)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return numbers
}
