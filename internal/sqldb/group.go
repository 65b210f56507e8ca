package sqldb

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"writ"
	"writ/internal/failpoint"
)

// groupWindow is how long a commit waits for further changes if the previous group had more than one change. A single
// writer never waits. With 50 runs in flight, 0.2 ms was the best of 0, 0.05, 0.1, 0.2, 0.5, 1 and 2 ms: shorter waits
// cause more commits, longer ones leave the processors idle.
const groupWindow = 200 * time.Microsecond

// maxGroup limits the changes of one commit.
const maxGroup = 512

type change struct {
	ctx  context.Context
	do   func(tx *Tx) error
	done chan error
	fate atomic.Int32
}

// The fates of a change. The first of the writer and a caller whose context ended sets the fate.
const (
	waiting int32 = iota
	begun
	abandoned
)

// begin reports whether the writer may run the change. It also returns true for the repetition of a failed group.
func (c *change) begin() bool { return c.fate.CompareAndSwap(waiting, begun) || c.fate.Load() == begun }

// Write runs do in a transaction and returns after it is on disk. Concurrent changes share one commit and one fsync. An
// error of do rolls back only its own change.
//
// do may run several times: if a change of the group fails, the group is repeated with a savepoint for each change. If
// the commit fails, each change is repeated alone. If ctx ends before do is called, Write returns ctx's error and do is
// never called. Afterwards Write waits for the outcome. The outcome is therefore always known, and do never runs after
// Write has returned.
func (db *DB) Write(ctx context.Context, do func(tx *Tx) error) error {
	c := &change{ctx: ctx, do: do, done: make(chan error, 1)}
	select {
	case db.changes <- c:
	case <-db.stop:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		if c.fate.CompareAndSwap(waiting, abandoned) {
			return ctx.Err()
		}
		return db.outcome(c)
	case <-db.stopped:
		return db.outcome(c)
	}
}

// outcome waits for the result of a change, or for the end of the writer without one.
func (db *DB) outcome(c *change) error {
	select {
	case err := <-c.done:
		return err
	case <-db.stopped:
		select {
		case err := <-c.done:
			return err
		default:
			return errClosed
		}
	}
}

var errClosed = writ.Errorf(writ.CodeStoreUnavailable, "the store is being closed")

func (db *DB) writeLoop() {
	defer close(db.stopped)
	last := 0
	for {
		var group []*change
		select {
		case <-db.stop:
			return
		case c := <-db.changes:
			group = append(group, c)
		}
		if last > 1 {
			time.Sleep(groupWindow)
		}
		for before := 0; before < len(group); { // until no further change arrives
			before = len(group)
			runtime.Gosched() // lets other goroutines join this group: measured +19 % throughput
			group = db.drain(group)
		}
		last = len(group)
		db.commit(group)
	}
}

// drain adds the waiting changes to a group.
func (db *DB) drain(group []*change) []*change {
	for len(group) < maxGroup {
		select {
		case c := <-db.changes:
			group = append(group, c)
		default:
			return group
		}
	}
	return group
}

// maxConflicts limits the repetitions of a change that PostgreSQL rolled back in favour of another transaction.
const maxConflicts = 5

// commit writes a group. If the group fails as a whole, it repeats each change alone. If the transaction could not
// begin, the changes are not the cause, so they are not repeated.
func (db *DB) commit(group []*change) {
	errs, begun, err := db.attempt(group, false)
	if errors.Is(err, errOneFailed) {
		errs, begun, err = db.attempt(group, true)
	}
	if err != nil && begun && len(group) > 1 {
		for _, c := range group {
			db.commit([]*change{c})
		}
		return
	}
	for again := 0; again < maxConflicts && isConflict(err); again++ {
		errs, _, err = db.attempt(group, false)
	}
	for i, c := range group {
		if err != nil {
			c.done <- db.storeError(err)
		} else {
			failpoint.End(c.ctx, errs[i])
			c.done <- db.storeError(errs[i])
		}
	}
}

// attempt writes a group in one transaction, with a savepoint for each change if apart. It returns the error of each
// change, or the error that rolled back the transaction and whether the transaction had begun.
func (db *DB) attempt(group []*change, apart bool) (errs []error, begun bool, err error) {
	tx := &Tx{Now: db.now()}
	switch {
	case db.server != nil:
		errs, begun, err = db.server.attempt(tx, group, apart, db.stop)
	case db.writer != nil:
		errs, begun, err = db.writer.attempt(tx, group, apart)
	default:
		errs, begun, err = db.attemptInMemory(tx, group, apart)
	}
	if err == nil {
		for _, done := range tx.done {
			done()
		}
	}
	return errs, begun, err
}

// attemptInMemory is attempt for a store in memory, which has only one connection.
func (db *DB) attemptInMemory(tx *Tx, group []*change, apart bool) (errs []error, begun bool, err error) {
	on, err := db.sql.BeginTx(context.Background(), nil)
	if err != nil {
		return nil, false, err
	}
	defer on.Rollback()
	tx.on = on
	if errs, err = transact(tx, group, apart); err != nil {
		return nil, true, err
	}
	return errs, true, on.Commit()
}

// errOneFailed means that one change of a group failed, so the others must be repeated without it.
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
