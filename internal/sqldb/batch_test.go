package sqldb

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
)

// counted counts the changes of its batch. The end of the batch writes the sum.
func counted(tx *Tx) error {
	n, ok := tx.Batch.Common.(*int)
	if !ok {
		n = new(int)
		tx.Batch.Common = n
		tx.Batch.End = func(tx *Tx) error { return insert(fmt.Sprintf("batch of %d", *n))(tx) }
	}
	*n++
	return nil
}

// Promise: Speed and storage: Changes in a shared commit share its cost, and a failed change undoes only itself.
// How: One writer; events, loads and the lease once per commit, savepoints only after a failure.
// Also: TestFailedChangeUndoesOnlyItself.
func TestBatchEndsOnceAndCountsCommittedChanges(t *testing.T) {
	refused := errors.New("refused")
	failed := func(tx *Tx) error { return errors.Join(counted(tx), refused) }
	engines(t, func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			db := open(t, path)
			if err := errors.Join(group(t, db, counted, counted, counted)...); err != nil {
				t.Fatal(err)
			}
			if got := names(t, db); len(got) != 1 || got[0] != "batch of 3" {
				t.Errorf("three changes: %q", got)
			}
			if errs := group(t, db, insert("a"), failed, counted, insert("b")); errs[0] != nil || !errors.Is(errs[1], refused) || errs[2] != nil || errs[3] != nil {
				t.Errorf("one of four failed: %v", errs)
			}
			if got := fmt.Sprint(names(t, db)); got != "[a b batch of 1 batch of 3]" {
				t.Errorf("with a failed one: %s", got)
			}
		})
	})
}

func TestFailedBatchEndRollsBack(t *testing.T) {
	refused := errors.New("refused")
	synctest.Test(t, func(t *testing.T) {
		db := open(t, ":memory:")
		spoils := func(tx *Tx) error {
			tx.Batch.End = func(*Tx) error { return refused }
			return insert("bad")(tx)
		}
		errs := group(t, db, insert("a"), spoils, insert("b"))
		if errs[0] != nil || !errors.Is(errs[1], refused) || errs[2] != nil {
			t.Errorf("errors: %v", errs)
		}
		if got := fmt.Sprint(names(t, db)); got != "[a b]" {
			t.Errorf("kept: %s", got)
		}
	})
}
