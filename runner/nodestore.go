package runner

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"writ"
	"writ/runner/journal"
)

// nodeStore wraps the node's journal. It holds the last write failure until a probe succeeds.
type nodeStore struct {
	journal *journal.Journal
	log     *slog.Logger
	fault
}

// note stores a write failure of the journal and returns err as NODE_STORE_UNAVAILABLE. A successful write does
// not clear the failure, because small writes may fit on a full disk; only a probe clears it.
func (n *nodeStore) note(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if n.set(err) {
		n.log.ErrorContext(ctx, "write the node's journal; jobs are refused", "err", err)
	}
	e := &writ.Error{
		Code: writ.CodeNodeStore, Message: "the node cannot write its journal",
		Hint: "free disk space on the node; it continues automatically", Err: err,
	}
	if writ.CodeOf(err) == writ.CodeStoreDamaged {
		e.Message, e.Hint = "the journal of the node is damaged", journal.DamagedHint
	}
	return e
}

// probe checks the journal. After a write failure, it also tries to write, and clears the failure if that succeeds.
func (n *nodeStore) probe(ctx context.Context) {
	if n.get() == nil {
		_ = n.note(ctx, n.journal.Check(context.WithoutCancel(ctx))) // note stores the error
		return
	}
	if err := n.note(ctx, n.journal.Probe(context.WithoutCancel(ctx))); err == nil && n.set(nil) {
		n.log.InfoContext(ctx, "the node's journal can be written again")
	}
}

// fault holds a persistent error.
type fault struct {
	mu  sync.Mutex
	err error
}

// set stores the error and reports whether the fault began or ended.
func (f *fault) set(err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed := (f.err == nil) != (err == nil)
	f.err = err
	return changed
}

func (f *fault) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// epochs holds the epochs of supervisors that the node has seen.
type epochs struct {
	store *nodeStore
	seen  atomic.Int64 // highest epoch
	kept  atomic.Int64 // highest epoch on disk
}

// highest returns the highest epoch that the node has seen.
func (e *epochs) highest() int64 { return e.seen.Load() }

// raise records the epoch of an authentic message if it is higher than all before. It takes effect at once, even
// if it cannot be recorded: the node then ignores earlier epochs, reports the new one, and starts no job until the
// epoch is on disk.
func (e *epochs) raise(ctx context.Context, epoch int64) error {
	raise(&e.seen, epoch)
	if epoch <= e.kept.Load() {
		return nil
	}
	if err := e.store.note(ctx, e.store.journal.RaiseEpoch(context.WithoutCancel(ctx), epoch)); err != nil {
		return err
	}
	raise(&e.kept, epoch)
	return nil
}

// raise sets number to n if n is larger.
func raise(number *atomic.Int64, n int64) {
	for {
		known := number.Load()
		if n <= known || number.CompareAndSwap(known, n) {
			return
		}
	}
}
