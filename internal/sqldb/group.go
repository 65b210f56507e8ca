package sqldb

import (
	"errors"
	"fmt"

	"writ/internal/failpoint"
)

// errOneFailed means that one change of a group failed, so the group must be repeated with a savepoint for each change.
var errOneFailed = errors.New("a change of the group failed")

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
		switch err := run(c, tx); {
		case err == nil:
		case len(group) == 1 || isUnavailable(err):
			return nil, err
		default:
			return nil, errOneFailed
		}
	}
	return errs, tx.end()
}

// transactApart is transact with a savepoint for each change.
func transactApart(tx *Tx, group []*change) ([]error, error) {
	errs := make([]error, len(group))
	for i, c := range group {
		if c.ctx.Err() != nil || !c.begin() {
			errs[i] = c.ctx.Err()
			continue
		}
		if _, err := tx.Exec("SAVEPOINT change"); err != nil {
			return nil, err
		}
		tx.Batch = new(Batch)
		if errs[i] = run(c, tx); errs[i] == nil {
			errs[i] = tx.end()
		}
		end := []string{"RELEASE change"}
		if errs[i] != nil {
			if isUnavailable(errs[i]) {
				return nil, errs[i]
			}
			end = []string{"ROLLBACK TO change", "RELEASE change"}
		}
		// SQLite rolls back the whole transaction after an interrupted or out-of-space statement. The next statement
		// then fails, too.
		for _, text := range end {
			if _, err := tx.Exec(text); err != nil {
				return nil, err
			}
		}
	}
	return errs, nil
}

// end runs the end of the batch and registers its Done function.
func (tx *Tx) end() error {
	if tx.Batch.End != nil {
		if err := tx.Batch.End(tx); err != nil {
			return err
		}
	}
	if tx.Batch.Done != nil {
		tx.done = append(tx.done, tx.Batch.Done)
	}
	return nil
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
