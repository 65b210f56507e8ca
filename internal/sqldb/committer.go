package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"writ"
	"writ/internal/failpoint"
)

// groupWindow is how long a commit waits for further changes if the previous group had more than one change. A single
// writer never waits. With 50 runs in flight, 0.2 ms was the best of 0, 0.05, 0.1, 0.2, 0.5, 1 and 2 ms: shorter waits
// cause more commits, and longer waits leave the processors idle.
const groupWindow = 200 * time.Microsecond

// maxGroup limits the changes of one commit.
const maxGroup = 512

// committer writes the changes of concurrent callers in groups that share a commit.
type committer struct {
	engine  engine
	now     func() time.Time      // time of a transaction
	convert func(err error) error // converts errors for the callers
	changes chan *change
	stop    chan struct{} // closed to stop loop
	stopped chan struct{} // closed after loop has answered its last group
	closing sync.Once
}

// engine writes groups to one kind of store. Only loop uses it.
type engine interface {
	// attempt writes a group in one transaction, with a savepoint for each change if apart. It returns the error of each
	// change, or the error that rolled back the transaction and whether the transaction had begun. It waits for a server
	// at most until stop is closed.
	attempt(tx *Tx, group []*change, apart bool, stop <-chan struct{}) (errs []error, begun bool, err error)
	close() error
}

func newCommitter(now func() time.Time, convert func(err error) error) *committer {
	return &committer{
		now: now, convert: convert,
		changes: make(chan *change, maxGroup), stop: make(chan struct{}), stopped: make(chan struct{}),
	}
}

// close waits for the write in progress and closes the engine.
func (w *committer) close() error {
	w.closing.Do(func() { close(w.stop) })
	<-w.stopped
	return w.engine.close()
}

// Write runs `do` in a transaction and returns after it is on disk. Concurrent changes share one commit and one fsync.
// An error of `do` rolls back only its own change.
//
// `do` may run several times: if a change of the group fails, the group is repeated with a savepoint for each change.
// If the commit fails, each change is repeated alone. If ctx ends before `do` is called, Write returns ctx's error and
// never calls `do`. Once `do` has been called, Write waits for the outcome. The outcome is therefore always known, and
// `do` never runs after Write has returned.
func (w *committer) Write(ctx context.Context, do func(tx *Tx) error) error {
	c := &change{ctx: ctx, do: do, done: make(chan error, 1)}
	select {
	case w.changes <- c:
	case <-w.stop:
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
		return w.outcome(c)
	case <-w.stopped:
		return w.outcome(c)
	}
}

// outcome waits for the result of a change. If loop ends without a result for it, it returns errClosed.
func (w *committer) outcome(c *change) error {
	select {
	case err := <-c.done:
		return err
	case <-w.stopped:
		select {
		case err := <-c.done:
			return err
		default:
			return errClosed
		}
	}
}

// loop writes groups until stop is closed.
func (w *committer) loop() {
	defer close(w.stopped)
	last := 0
	for {
		var group []*change
		select {
		case <-w.stop:
			return
		case c := <-w.changes:
			group = append(group, c)
		}
		if last > 1 {
			time.Sleep(groupWindow)
		}
		for before := 0; before < len(group); { // until no further change arrives
			before = len(group)
			runtime.Gosched() // lets other goroutines join this group: measured +19 % throughput
			group = w.drain(group)
		}
		last = len(group)
		w.commit(group)
	}
}

// drain adds the waiting changes to a group.
func (w *committer) drain(group []*change) []*change {
	for len(group) < maxGroup {
		select {
		case c := <-w.changes:
			group = append(group, c)
		default:
			return group
		}
	}
	return group
}

// commit writes a group. If the group fails as a whole, it repeats each change alone. If the transaction could not
// begin, the changes are not the cause, so they are not repeated. Changes that may have been committed are not repeated
// either.
func (w *committer) commit(group []*change) {
	var errs []error
	var begun, apart bool
	var err error
	for again := 0; again <= maxConflicts; again++ {
		errs, begun, err = w.attempt(group, apart)
		if errors.Is(err, errOneFailed) {
			apart = true
			errs, begun, err = w.attempt(group, apart)
		}
		if begun && len(group) > 1 || !isConflict(err) {
			break
		}
	}
	if err != nil && begun && len(group) > 1 && !errors.Is(err, errUnknown) {
		for _, c := range group {
			w.commit([]*change{c})
		}
		return
	}
	for i, c := range group {
		if err != nil {
			c.done <- w.convert(err)
		} else {
			failpoint.End(c.ctx, errs[i])
			c.done <- w.convert(errs[i])
		}
	}
}

// attempt calls the engine's attempt, and after success the Done functions of the batches.
func (w *committer) attempt(group []*change, apart bool) (errs []error, begun bool, err error) {
	tx := &Tx{Now: w.now()}
	errs, begun, err = w.engine.attempt(tx, group, apart, w.stop)
	if err == nil {
		for _, done := range tx.done {
			if done != nil {
				done()
			}
		}
	}
	return errs, begun, err
}

type change struct {
	ctx  context.Context
	do   func(tx *Tx) error
	done chan error
	fate atomic.Int32
}

// The fates of a change. Either loop or the caller, when its context ends, sets the fate; whichever is first decides.
const (
	waiting int32 = iota
	begun
	abandoned
)

// begin reports whether the writer may run the change. It also returns true for the repetition of a failed group.
func (c *change) begin() bool { return c.fate.CompareAndSwap(waiting, begun) || c.fate.Load() == begun }

var errClosed = writ.Errorf(writ.CodeStoreUnavailable, "the store is being closed")

// maxConflicts limits the repetitions of a change that PostgreSQL rolled back in favour of another transaction.
const maxConflicts = 5

// inMemory is the engine of a store in memory, which has only one connection.
type inMemory struct{ pool *sql.DB }

func (m inMemory) close() error { return nil } // DB.Close closes the pool, which readers use as well

func (m inMemory) attempt(
	tx *Tx, group []*change, apart bool, _ <-chan struct{},
) (errs []error, begun bool, err error) {
	on, err := m.pool.BeginTx(context.Background(), nil)
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
