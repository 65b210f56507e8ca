package image

import (
	"context"
	"sync"
)

// locks locks files by their stems, and the tree by its name. A lock without users is deleted, because scripts choose
// the stems.
type locks struct {
	mu  sync.Mutex // guards all, and the users of each lock
	all map[string]*lock
}

type lock struct {
	taken chan struct{} // holds one element while locked, and has room for one
	users int           // holders and waiters
}

// use returns the lock of a stem. The caller calls `done` after unlocking.
func (l *locks) use(stem string) (k *lock, done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[string]*lock{}
	}
	if l.all[stem] == nil {
		l.all[stem] = &lock{taken: make(chan struct{}, 1)}
	}
	k = l.all[stem]
	k.users++
	return k, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(l.all, stem)
		}
	}
}

// lock locks a stem or the tree. A digest is locked only for moments, because all projects share it.
func (l *locks) lock(ctx context.Context, stem string) (unlock func(), err error) {
	k, done := l.use(stem)
	select {
	case k.taken <- struct{}{}:
		return func() { <-k.taken; done() }, nil
	case <-ctx.Done():
		done()
		return nil, ctx.Err()
	}
}

// tryLock is lock without waiting: ok is false if the stem is in use.
func (l *locks) tryLock(stem string) (unlock func(), ok bool) {
	k, done := l.use(stem)
	select {
	case k.taken <- struct{}{}:
		return func() { <-k.taken; done() }, true
	default:
		done()
		return nil, false
	}
}
