package journal_test

import (
	"fmt"
	"slices"
	"testing"

	"writ"
	"writ/supervisor/journal"
)

// wasSent asks a second reader of the journal, without cached state, about a delivery of call 1.
func wasSent(t *testing.T, path string, run writ.RunID, attempt int, node writ.NodeID, job string) (sent bool) {
	t.Helper()
	err := open(t, path).Read(t.Context(), func(tx *journal.Tx) error {
		calls, err := tx.Calls(run)
		if err != nil {
			return err
		}
		sent, err = tx.WasSent(calls[0], attempt, node, writ.DigestOf([]byte(job)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sent
}

// A result may answer any delivery of an attempt, and may be late.
//
// Promise: Speed and storage: A result may answer any delivery of its attempt.
// How: The row of the call has the newest delivery, separate rows have the earlier ones.
// Also: TestDeliveriesOfAnEarlierVersionAreRemembered.
func TestEveryDeliveryIsRemembered(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		j := open(t, path)
		c := aCall(aRun("r").ID, 1)
		for _, d := range []struct {
			attempt, delivery int
			node              writ.NodeID
		}{{1, 1, "a"}, {1, 2, "a"}, {2, 1, "b"}} {
			c.Attempt, c.Delivery, c.Node = d.attempt, d.delivery, d.node
			write(t, j, func(tx *journal.Tx) error {
				if err := tx.AddDelivery(c, writ.DigestOf(fmt.Append(nil, d.attempt, d.delivery)), 1); err != nil {
					return err
				}
				return putFirst(tx, c)
			})
			c.Committed()
		}
		for _, tt := range []struct {
			attempt int
			node    writ.NodeID
			job     string
			want    bool
		}{
			{1, "a", "1 1", true}, {1, "a", "1 2", true}, {2, "b", "2 1", true},
			{1, "b", "1 1", false}, {2, "a", "1 2", false}, {2, "b", "1 2", false}, {3, "b", "2 1", false}, {1, "a", "never", false},
		} {
			if got := wasSent(t, path, c.Run, tt.attempt, tt.node, tt.job); got != tt.want {
				t.Errorf("attempt %d to %s with job %s: %v", tt.attempt, tt.node, tt.job, got)
			}
		}
	})
}

// An earlier version stored every delivery in a row, including the newest.
func TestDeliveriesOfAnEarlierVersionAreRemembered(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		j := open(t, path)
		c := aCall(aRun("r").ID, 1)
		c.Node, c.Delivery = "a", 1
		write(t, j, func(tx *journal.Tx) error { return putFirst(tx, c) })
		c.Committed()
		if err := j.ExecForTest(t.Context(), `INSERT INTO deliveries (run, seq, try, delivery, node, digest, epoch, sent) VALUES ($1, 1, 1, 1, 'a', $2, 1, 1)`,
			string(c.Run), writ.DigestOf([]byte("old")).String()); err != nil {
			t.Fatal(err)
		}
		c.Delivery = 2
		write(t, j, func(tx *journal.Tx) error {
			if err := tx.AddDelivery(c, writ.DigestOf([]byte("new")), 2); err != nil {
				return err
			}
			return tx.PutCall(c)
		})
		for job, want := range map[string]bool{"old": true, "new": true, "other": false} {
			if got := wasSent(t, path, c.Run, 1, "a", job); got != want {
				t.Errorf("%s: %v", job, got)
			}
		}
	})
}

func TestRunsWithOpenCallsOnANode(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		j := open(t, path)
		var want []writ.RunID
		for _, c := range []struct {
			state writ.CallState
			node  writ.NodeID
			want  bool
		}{
			{writ.CallPlanned, "a", true}, {writ.CallQueued, "a", true}, {writ.CallRunning, "a", true},
			{writ.CallSucceeded, "a", false}, {writ.CallPlanned, "", false}, {writ.CallQueued, "b", false},
		} {
			call := aCall(aRun(fmt.Sprint(c)).ID, 1)
			call.State, call.Node = c.state, c.node
			write(t, j, func(tx *journal.Tx) error { return putFirst(tx, call) })
			if c.want {
				want = append(want, call.Run)
			}
		}
		slices.Sort(want)
		err := j.Read(t.Context(), func(tx *journal.Tx) error {
			runs, err := tx.RunsOn("a")
			if !slices.Equal(runs, want) {
				t.Errorf("%v, want %v", runs, want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
