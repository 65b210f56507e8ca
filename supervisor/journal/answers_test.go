package journal_test

import (
	"slices"
	"testing"

	"writ"
	"writ/supervisor/journal"
)

// aSentCall adds a call that was sent to a node.
func aSentCall(t *testing.T, j *journal.Journal, run writ.RunID, seq int) *journal.Call {
	t.Helper()
	c := aCall(run, seq)
	c.State, c.Node, c.Delivery = writ.CallQueued, "n", 1
	write(t, j, func(tx *journal.Tx) error { return putFirst(tx, c) })
	c.Committed()
	return c
}

func TestAFrameIsKeptOnceForAllItsResults(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		j := open(t, path)
		frame := aFrame("of both", "a", "b")
		for _, name := range []string{"a", "b"} { // in two commits
			c := aSentCall(t, j, aRun(name).ID, 1)
			write(t, j, func(tx *journal.Tx) error {
				if first, err := tx.AddResult(c, 1, frame); err != nil || !first {
					t.Errorf("the result for %s: first = %t, %v", name, first, err)
				}
				if first, err := tx.AddResult(c, 1, aFrame("another", name)); err != nil || first {
					t.Errorf("another result of the same attempt: first = %t, %v", first, err)
				}
				c.State = writ.CallSucceeded
				return tx.PutCall(c)
			})
		}
		if n := number(t, j, `SELECT COUNT(*) FROM frames`); n != 1 {
			t.Errorf("%d frames are kept", n)
		}
	})
}

// A summary covers all results, in any order of arrival, whether they are in the row of their call or in their own.
func TestAllResultsOfARunAreDigested(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		j := open(t, path)
		run := aRun("r").ID
		first, second := aSentCall(t, j, run, 1), aSentCall(t, j, run, 2)
		answer := func(c *journal.Call, attempt int, frame string, to writ.CallState, next int) {
			t.Helper()
			write(t, j, func(tx *journal.Tx) error {
				if added, err := tx.AddResult(c, attempt, aFrame(frame, "r")); err != nil || !added {
					t.Errorf("%s: first = %t, %v", frame, added, err)
				}
				c.State, c.Attempt = to, next
				return tx.PutCall(c)
			})
			c.Committed()
		}
		answer(second, 1, "2-1", writ.CallSucceeded, 1)
		answer(first, 1, "1-1", writ.CallFailed, 1)
		first.State, first.Attempt = writ.CallQueued, 3 // resumed twice
		write(t, j, func(tx *journal.Tx) error { return tx.PutCall(first) })
		first.Committed()
		answer(first, 3, "1-3", writ.CallFailed, 3)
		answer(first, 2, "1-2", writ.CallFailed, 3) // late

		var want []byte
		for _, frame := range []string{"1-1", "1-2", "1-3", "2-1"} {
			want = append(want, writ.DigestOf([]byte(frame)).String()...)
		}
		err := open(t, path).Read(t.Context(), func(tx *journal.Tx) error {
			calls, err := tx.Calls(run)
			if err != nil {
				return err
			}
			if rest, err := tx.CallsAfter(run, 1); err != nil || len(rest) != len(calls)-1 || rest[0].Seq != 2 {
				t.Errorf("calls after the first = %d of %d, %v", len(rest), len(calls), err)
			}
			for range 2 {
				got, err := tx.ResultsDigest(run, calls)
				if err != nil || got != writ.DigestOf(want) {
					t.Errorf("the digest is %s, %v", got, err)
				}
				slices.Reverse(calls)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for attempt := 1; attempt <= 3; attempt++ { // by a journal that has read the call again
			calls := []*journal.Call(nil)
			write(t, j, func(tx *journal.Tx) (err error) {
				if calls, err = tx.Calls(run); err != nil {
					return err
				}
				if added, err := tx.AddResult(calls[0], attempt, aFrame("once more", "r")); err != nil || added {
					t.Errorf("the result of attempt %d is taken twice: %v", attempt, err)
				}
				return nil
			})
		}
	})
}
