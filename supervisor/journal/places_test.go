package journal_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"writ"
	"writ/identity"
	"writ/internal/cbor"
	"writ/internal/sqldb"
	"writ/supervisor/journal"
)

// Promise: Speed and storage: Calls that are processed together are stored together in the journal, also after an
// upgrade.
// How: Runs are numbered in order of acceptance.
// Also: TestCallsOfAnEarlierVersionGetTheirPlaces.
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
				t.Errorf("a call of %s is among those of %s", c.Run, run)
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

// In journals of earlier versions a call is found by the ID of its run.
func TestCallsOfAnEarlierVersionGetTheirPlaces(t *testing.T) {
	earlier := ofVersion(t, "0009")
	stores(t, func(t *testing.T, path string) {
		db, err := sqldb.Open(t.Context(), path, earlier)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Write(t.Context(), func(tx *sqldb.Tx) error { return keepAsEarlier(t, tx) }); err != nil {
			t.Fatal(err)
		}
		db.Close()

		j := open(t, path)
		for _, id := range []writ.RunID{"first", "second"} {
			if got := seqsOf(t, j, id); !slices.Equal(got, []int{1, 2, 3}) {
				t.Errorf("the run %s has the calls %v", id, got)
			}
		}
		write(t, j, func(tx *journal.Tx) error { return putFirst(tx, aCall("new", 1)) })
		forgetAll(t, j, time.Now().Add(-time.Hour))
		if n := number(t, j, `SELECT COUNT(*) FROM calls`); n != 7 {
			t.Errorf("%d calls are left; those of the run that was gone should be, too", n)
		}
	})
}

// keepAsEarlier writes two runs with calls, and calls of a deleted run, as an earlier version did.
func keepAsEarlier(t *testing.T, tx *sqldb.Tx) error {
	for i, id := range []writ.RunID{"second", "first", "gone"} {
		run, err := cbor.Marshal(&journal.Run{Run: writ.Run{ID: id, State: writ.RunRunning}})
		if err != nil {
			return err
		}
		query := `INSERT INTO runs (id, state, open, project, deployment, revision, accepted, due, body) VALUES ($1, 'running', TRUE, 'p', '', 1, $2, 1, $3)`
		args := []any{string(id), 10 - i, run}
		if id == "gone" {
			query, args = `INSERT INTO forgotten (run) VALUES ($1)`, args[:1]
		}
		if _, err := tx.ExecContext(t.Context(), query, args...); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		for seq := 1; seq <= 3; seq++ {
			call, err := cbor.Marshal(aCall(id, seq))
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(t.Context(), `INSERT INTO calls (run, seq, state, open, node, project, kind, name, claimed, ready, retry_at, planned,
				cpus, memory_mib, disk_gib, body) VALUES ($1, $2, 'planned', TRUE, '', 'p', 'volume', 'v', FALSE, FALSE, 0, 1, 0, 0, 1, $3)`,
				string(id), seq, call); err != nil {
				return err
			}
		}
	}
	return nil
}
