package journal_test

import (
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
