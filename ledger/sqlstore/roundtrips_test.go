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
	const most = 4 // begin with newest event, last event, owners of runs, commit
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

func TestSubmissionNeedsFewRoundTrips(t *testing.T) {
	const (
		mostToAdd     = 3 // begin with newest event, submission, commit
		mostToDeliver = 4 // begin with newest event, submission, owner of the run, commit
	)
	proxy, address := pgproxy.New(t, testenv.Postgres(t).Store())
	s := open(t, address)
	defer s.Close()
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	toAdd, toDeliver := 1000, 1000
	for i := range 4 { // the first two prepare the statements
		payload := writ.DigestOf(fmt.Append(nil, i))
		run := writ.Run{ID: writ.RunIDOf(payload), Datacenter: "dc1", Project: "p", State: writ.RunAccepted, Accepted: at}
		before := proxy.RoundTrips()
		_, added, err := s.AddSubmission(t.Context(), ledger.Incoming{
			Submission: writ.Submission{Payload: payload, Run: run.ID, Datacenter: "dc1", Project: "p", Received: at, Expires: at},
			Signed:     []byte("signed"),
		})
		if err != nil || !added {
			t.Fatalf("added %v, %v", added, err)
		}
		between := proxy.RoundTrips()
		if err := s.Deliver(t.Context(), payload, run); err != nil {
			t.Fatal(err)
		}
		toAdd, toDeliver = min(toAdd, between-before), min(toDeliver, proxy.RoundTrips()-between)
	}
	if toAdd > mostToAdd || toDeliver > mostToDeliver {
		t.Errorf("a submission needs %d round trips, want at most %d; its delivery needs %d, want at most %d", toAdd,
			mostToAdd, toDeliver, mostToDeliver)
	}
}
