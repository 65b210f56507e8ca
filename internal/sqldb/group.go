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

// groupWindow is how long a commit waits for company when the group before it had more than one change; a lone writer never
// waits. At 50 runs in flight 0.2 ms was the best of 0, 0.05, 0.1, 0.2, 0.5, 1 and 2 ms: with less there are more commits, with more the
// processors wait.
const groupWindow = 200 * time.Microsecond

// maxGroup bounds the changes of one commit.
const maxGroup = 512

type change struct {
	ctx  context.Context
	do   func(tx *Tx) error
	done chan error
	fate atomic.Int32
}

// The fates of a change. Whoever sets one first decides: the writer, or the caller whose context ended.
const (
	waiting int32 = iota
	begun
	abandoned
)

// begin reports whether the writer may run the change. It may do so again when the group failed.
func (c *change) begin() bool { return c.fate.CompareAndSwap(waiting, begun) || c.fate.Load() == begun }

// Write runs do in a transaction and returns when it is on disk. Changes that wait at the same time share one commit and one
// fsync. An error of do undoes its own change only. do may run several times: when a change of its group fails all are done again, each
// behind a savepoint, and when a commit fails each is tried again alone. When ctx ends before do was called, it never is, and Write
// returns ctx's error; after that Write waits for the outcome. So no outcome is ever unknown, and do never runs any more when Write has
// returned.
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

// outcome waits for the answer to a change, or for the writer's end without one.
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
		for before := 0; before < len(group); { // as long as some come
			before = len(group)
			runtime.Gosched() // lets those who are about to write join this group: +19 % when measured
			group = db.drain(group)
		}
		last = len(group)
		db.commit(group)
	}
}

// drain adds the changes that wait to a group.
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

// maxConflicts is how often a change is tried again that PostgreSQL undid in favour of another transaction.
const maxConflicts = 5

// commit writes a group, and each of its changes alone if the group fails as a whole. A transaction that cannot even begin says
// nothing about the changes, so none of them is tried again.
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

// attempt writes a group in one transaction, each change behind a savepoint if apart. It returns the error of each change, or the one
// that undid all of them and whether the transaction had begun.
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

// attemptInMemory is attempt for a store that has one connection for all.
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

// errOneFailed says that a change of a group failed, whose others must be done again without it.
var errOneFailed = errors.New("a change of the group failed")

// transact runs the changes of a group in one transaction. It returns the error of each change, or the error that made the whole
// transaction fail. The caller commits or rolls back.
//
// Failures are rare, and savepoints are dear: SQLite copies every page before it changes it. So a group is done without them first.
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

// transactApart is transact with each change behind a savepoint of its own.
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
		// An interrupted or out-of-space statement makes SQLite roll the whole transaction back by itself; then this fails too.
		for _, text := range end {
			if _, err := tx.Exec(text); err != nil {
				return nil, err
			}
		}
	}
	return errs, nil
}

// end does what was left for the end of the changes.
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
