package journal_test

import (
	"math"
	"slices"
	"testing"

	"writ"
	"writ/identity"
	"writ/supervisor/journal"
)

// Promise: Speed and storage: Calls that are processed together are stored together in the journal.
// How: Runs are numbered in order of acceptance.
func TestARunHasAPlaceForEachOfItsCalls(t *testing.T) {
	if identity.MaxCalls > journal.MaxCalls {
		t.Errorf("a submission may ask for %d calls; a run has places for %d", identity.MaxCalls, journal.MaxCalls)
	}
	stores(t, func(t *testing.T, path string) {
		j := open(t, path)
		for _, id := range []writ.RunID{"a", "b"} { // neighbors
			write(t, j, func(tx *journal.Tx) error {
				for _, seq := range []int{1, journal.MaxCalls} {
					if err := putFirst(tx, aCall(id, seq)); err != nil {
						return err
					}
				}
				return nil
			})
		}
		for _, id := range []writ.RunID{"a", "b"} {
			if got := seqsOf(t, j, id); !slices.Equal(got, []int{1, journal.MaxCalls}) {
				t.Errorf("the run %s has the calls %v", id, got)
			}
		}
	})
}

// A run of an earlier version has a number below 2^32 and the rows of its calls next to the rows of the next run.
//
// Promise: Recovery: Runs of a version with at most 2,000 calls in a run continue beside longer runs.
// How: An earlier run keeps its number and its room, and new runs get numbers above all earlier ones.
func TestRunsOfEarlierVersionsKeepTheirPlaces(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		on(t, path, ofVersion(t, "0023"), `UPDATE run_counter SET number = 7`)
		j := open(t, path)
		counter := func(tx *journal.Tx, number int64) error {
			_, err := tx.ExecContext(t.Context(), `UPDATE run_counter SET number = $1`, number)
			return err
		}
		put := func(id writ.RunID, seqs ...int) {
			write(t, j, func(tx *journal.Tx) error {
				for _, seq := range seqs {
					if err := putFirst(tx, aCall(id, seq)); err != nil {
						return err
					}
				}
				return nil
			})
		}
		const room = 4095
		put("new", 1, room, room+1, journal.MaxCalls)
		for number, id := range []writ.RunID{"old-0", "old-1", "old-2"} { // as the earlier version counted
			write(t, j, func(tx *journal.Tx) error { return counter(tx, int64(number)+1-32) })
			put(id, 1, room)
		}
		for id, last := range map[writ.RunID]int{"old-1": room, "new": journal.MaxCalls} {
			err := j.Write(t.Context(), func(tx *journal.Tx) error { return putFirst(tx, aCall(id, last+1)) })
			if err == nil {
				t.Errorf("the run %s has a place for call %d", id, last+1)
			}
		}
		for _, id := range []writ.RunID{"old-0", "old-1", "old-2"} {
			if got := seqsOf(t, j, id); !slices.Equal(got, []int{1, room}) {
				t.Errorf("the run %s has the calls %v", id, got)
			}
		}
		if got, want := seqsOf(t, j, "new"), []int{1, room, room + 1, journal.MaxCalls}; !slices.Equal(got, want) {
			t.Errorf("the new run has the calls %v, want %v", got, want)
		}
	})
}

func seqsOf(t *testing.T, j *journal.Journal, run writ.RunID) (seqs []int) {
	t.Helper()
	err := j.Read(t.Context(), func(tx *journal.Tx) error {
		calls, err := tx.Calls(run)
		for _, c := range calls {
			if c.Run != run {
				t.Errorf("call of run %s in the list of run %s", c.Run, run)
			}
			seqs = append(seqs, c.Seq)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return seqs
}

// A missing row of a call is a forged record: a step reads the calls of a run without gaps. So is a row of an ended call
// from the time when it was open.
func TestMissingCallIsForged(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		j := open(t, path)
		id := writ.RunID("a")
		write(t, j, func(tx *journal.Tx) error {
			for _, seq := range []int{1, 2, 4} {
				c := aCall(id, seq)
				c.State = writ.CallSucceeded
				if err := putFirst(tx, c); err != nil {
					return err
				}
			}
			return putFirst(tx, aCall(id, 5))
		})
		if err := j.Read(t.Context(), func(tx *journal.Tx) error {
			run, err := tx.Run(id)
			if err != nil {
				return err
			}
			none := func(*journal.Call) error { return nil }
			if _, err := journal.CallsOf(tx, run, []int{1, 2}); err != nil {
				t.Error(err)
			}
			if err := journal.EachCall(tx, run, 2, none); err != nil {
				t.Error(err)
			}
			_, after := tx.CallsAfter(id, 0)
			_, some := journal.CallsOf(tx, run, []int{1, 3})
			_, open := journal.CallsOf(tx, run, []int{5})
			for i, err := range []error{after, some, open, journal.EachCall(tx, run, 3, none), journal.EachCall(tx, run, 4, none)} {
				if err == nil {
					t.Errorf("%d: the missing or open call is not noticed", i)
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// A step reads the needs of its calls with few queries, even if they are every second of the first calls.
func TestScatteredCallsNeedFewQueries(t *testing.T) {
	const last = 1500
	for distance, want := range map[int]int{1: 3, 2: 3, 8: 3, 100: last / 100, 700: 3} {
		var seqs []int
		for seq := 1; seq <= last; seq += distance {
			seqs = append(seqs, seq)
		}
		queries := 0
		for left := seqs; len(left) > 0; queries++ {
			left = left[journal.InOneQuery(left):]
		}
		if queries != want {
			t.Errorf("%d queries for calls at a distance of %d, want %d", queries, distance, want)
		}
	}
}

// CallsOf returns the requested calls and no calls between them.
func TestCallsOfARunAreSelected(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		j := open(t, path)
		id := writ.RunID("a")
		write(t, j, func(tx *journal.Tx) error {
			for seq := 1; seq <= 40; seq++ {
				c := aCall(id, seq)
				c.State = writ.CallSucceeded
				if err := putFirst(tx, c); err != nil {
					return err
				}
			}
			return nil
		})
		want := []int{2, 3, 7, 20, 40}
		var got []int
		if err := j.Read(t.Context(), func(tx *journal.Tx) error {
			run, err := tx.Run(id)
			if err != nil {
				return err
			}
			calls, err := journal.CallsOf(tx, run, want)
			for _, c := range calls {
				got = append(got, c.Seq)
			}
			return err
		}); err != nil || !slices.Equal(got, want) {
			t.Errorf("calls %v, %v; want %v", got, err, want)
		}
	})
}

func TestNextCallsArePartOfTheCalls(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		j := open(t, path)
		write(t, j, func(tx *journal.Tx) error {
			for _, id := range []writ.RunID{"a", "b"} {
				for seq := range 10 {
					if err := putFirst(tx, aCall(id, seq+1)); err != nil {
						return err
					}
				}
			}
			return nil
		})
		for _, c := range []struct{ after, max, first, n int }{
			{0, 0, 1, 10}, {0, 3, 1, 3}, {3, 3, 4, 3}, {8, 3, 9, 2}, {10, 3, 0, 0}, {9, math.MaxInt, 10, 1}, {journal.MaxCalls, 3, 0, 0},
			{math.MaxInt - 5_000, 3, 0, 0},
		} {
			err := j.Read(t.Context(), func(tx *journal.Tx) error {
				run, err := tx.Run("a")
				if err != nil {
					return err
				}
				calls, err := journal.NextCalls(tx, run, c.after, c.max)
				if len(calls) != c.n || c.n > 0 && (calls[0].Seq != c.first || calls[0].Run != "a") {
					t.Errorf("%+v: %d calls", c, len(calls))
				}
				return err
			})
			if err != nil {
				t.Errorf("%+v: %v", c, err)
			}
		}
	})
}
