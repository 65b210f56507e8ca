package sqldb

import (
	"context"
	"errors"
	"fmt"

	"writ/internal/failpoint"
)

// errOneFailed means that one change of a group failed, so the group must be repeated with a savepoint for each change.
var errOneFailed = errors.New("a change of the group failed")

// The statements for a part of a transaction that can be rolled back alone.
const (
	savepointText = "SAVEPOINT change"
	undoText      = "ROLLBACK TO change"
	releaseText   = "RELEASE change"
)

// transact runs the changes of a group in one transaction. It returns the error of each change, or the error that made
// the whole transaction fail. The caller commits or rolls back.
//
// Failures are rare and savepoints are expensive: SQLite copies every page before it changes the page. The first
// attempt therefore uses no savepoints.
func transact(tx *Tx, group []*change, apart bool) (errs []error, err error) {
	if apart {
		return transactApart(tx, group)
	}
	errs = make([]error, len(group))
	tx.Batch = new(Batch)
	for i, c := range group {
		if c.ctx.Err() != nil || !c.begin() {
			errs[i] = c.ctx.Err()
			continue
		}
		if err := run(c, tx); err != nil {
			return nil, oneFailed(err, group)
		}
	}
	if err = tx.end(); err == nil {
		err = tx.check()
	}
	if err != nil {
		return nil, oneFailed(err, group)
	}
	tx.done = append(tx.done, tx.Batch.Done)
	return errs, nil
}

// oneFailed returns errOneFailed instead of the error of a single change of the group.
func oneFailed(err error, group []*change) error {
	if len(group) == 1 || isUnavailable(err) {
		return err
	}
	return errOneFailed
}

// transactApart is transact with a savepoint for each change.
func transactApart(tx *Tx, group []*change) ([]error, error) {
	errs := make([]error, len(group))
	for i, c := range group {
		if c.ctx.Err() != nil || !c.begin() {
			errs[i] = c.ctx.Err()
			continue
		}
		if err := tx.savepoint(); err != nil {
			return nil, err
		}
		tx.Batch = new(Batch)
		err := run(c, tx)
		if err == nil {
			err = tx.end()
		}
		if err == nil {
			err = tx.flush()
		}
		if errs[i] = err; err == nil {
			tx.done = append(tx.done, tx.Batch.Done)
		} else if isUnavailable(err) {
			return nil, err
		} else if err := tx.undo(); err != nil {
			// SQLite rolls back the whole transaction after an interrupted or out-of-space statement.
			return nil, err
		}
		if err := tx.Queue(context.Background(), releaseText); err != nil {
			return nil, err
		}
	}
	return errs, nil
}

// end runs the end of the batch.
func (tx *Tx) end() error {
	if tx.Batch.End == nil {
		return nil
	}
	return tx.Batch.End(tx)
}

func run(c *change, tx *Tx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a change to the store panicked: %v", p)
		}
	}()
	failpoint.Begin(c.ctx)
	if err := c.do(tx); err != nil {
		return err
	}
	return failpoint.Amid(c.ctx)
}
