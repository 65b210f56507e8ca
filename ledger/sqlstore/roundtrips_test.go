package sqlstore_test

import (
	"fmt"
	"testing"
	"time"

	"writ"
	"writ/internal/test/pgproxy"
	"writ/internal/test/testenv"
	"writ/ledger"
)

func TestEventsNeedFewRoundTrips(t *testing.T) {
	const most = 5 // begin, last event, owners of runs, newest event, commit
	proxy, address := pgproxy.New(t, testenv.Postgres(t).Store())
	s := open(t, address)
	defer s.Close()
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	seq := int64(0)
	batch := func() (events []writ.Event) {
		for i := range 40 {
			id := writ.RunIDOf(writ.DigestOf([]byte(fmt.Sprint(i))))
			run := writ.Run{ID: id, Project: "p", State: writ.RunRunning, Accepted: at, Started: at.Add(time.Duration(seq))}
			call := writ.Call{Run: id, Seq: int(seq)/80 + 1, State: writ.CallQueued, Planned: at}
			for _, e := range []writ.Event{{Run: &run}, {Call: &call}} {
				seq++
				e.Journal, e.Seq, e.Time = "j", seq, at
				events = append(events, e)
			}
		}
		return events
	}
	fewest := 1000
	for range 4 { // the first two batches prepare the statements
		before := proxy.RoundTrips()
		if err := s.StoreEvents(t.Context(), "dc1", batch()); err != nil {
			t.Fatal(err)
		}
		fewest = min(fewest, proxy.RoundTrips()-before)
	}
	if fewest > most {
		t.Errorf("80 events need %d round trips, want at most %d", fewest, most)
	}
	runs, err := s.Runs(t.Context(), ledger.RunFilter{}, ledger.Page{Limit: 100})
	if err != nil || len(runs.Items) != 40 {
		t.Errorf("%d runs are stored, %v", len(runs.Items), err)
	}
}
