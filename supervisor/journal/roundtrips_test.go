package journal_test

import (
	"fmt"
	"testing"
	"time"

	"writ"
	"writ/internal/test/pgproxy"
	"writ/supervisor/journal"
)

// A step writes a result, two calls, a run and two events.
func TestStepNeedsFewRoundTrips(t *testing.T) {
	const most = 3 // begin with epoch, the number of its last event, commit
	proxy, address := pgproxy.New(t, server.Store(t))
	j := open(t, address)
	if _, err := j.BeginEpoch(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	run := aRun("1")
	write(t, j, func(tx *journal.Tx) error {
		_, _, err := tx.AddRun(run, 1, []byte("1"))
		return err
	})
	run.Committed()
	var last *journal.Call
	fewest := 1000
	for seq := 1; seq <= 4; seq++ { // the first two steps prepare the statements
		next := aCall(run.ID, seq)
		next.In(run)
		next.State, next.Node, next.Delivery, next.After, next.Error = writ.CallQueued, "n1", 1, nil, nil
		before := proxy.RoundTrips()
		write(t, j, func(tx *journal.Tx) error { return step(tx, run, last, next) })
		fewest = min(fewest, proxy.RoundTrips()-before)
		run.Committed()
		next.Committed()
		last = next
	}
	if fewest > most {
		t.Errorf("a step needs %d round trips, want at most %d", fewest, most)
	}
	calls, err := journal.Query(t.Context(), j, func(tx *journal.Tx) ([]*journal.Call, error) { return tx.Calls(run.ID) })
	if err != nil || len(calls) != 4 || calls[2].State != writ.CallSucceeded || calls[3].State != writ.CallQueued {
		t.Errorf("stored calls: %v, %v", calls, err)
	}
}

func TestSubmissionNeedsFewRoundTrips(t *testing.T) {
	const most = 3 // begin with epoch, number and roster, commit
	proxy, address := pgproxy.New(t, server.Store(t))
	j := open(t, address)
	if _, err := j.BeginEpoch(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	fewest := 1000
	for i := range 4 { // the first two prepare the statements
		run := aRun(fmt.Sprint(i))
		before := proxy.RoundTrips()
		write(t, j, func(tx *journal.Tx) error {
			added, newest, err := tx.AddRun(run, 1, []byte("1"))
			if !added || newest != 0 {
				t.Errorf("added %v, roster %d", added, newest)
			}
			return err
		})
		fewest = min(fewest, proxy.RoundTrips()-before)
	}
	if fewest > most {
		t.Errorf("a submission needs %d round trips, want at most %d", fewest, most)
	}
}

func TestCallWithoutResourceNeedsNoQuery(t *testing.T) {
	proxy, address := pgproxy.New(t, server.Store(t))
	j := open(t, address)
	write(t, j, func(tx *journal.Tx) error {
		before := proxy.RoundTrips()
		r, err := tx.Resource(new(journal.Call).Resource())
		if r != nil || proxy.RoundTrips() != before {
			t.Errorf("resource %v after %d round trips", r, proxy.RoundTrips()-before)
		}
		return err
	})
}
