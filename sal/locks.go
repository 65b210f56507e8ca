package sal

import (
	"context"
	"sync"
)

// Locks is a set of mutexes with names. A mutex without users is deleted, because scripts choose the names, and their
// number is unlimited. The zero value is ready to use.
type Locks struct {
	mu  sync.Mutex // guards all, and the users of each lock
	all map[string]*namedLock
}

type namedLock struct {
	taken chan struct{} // holds one element while locked, and has room for one
	users int           // holders and waiters
}

// Take locks a name. The caller unlocks it with `done`. If ctx ends first, it returns the error of ctx.
func (l *Locks) Take(ctx context.Context, name string) (done func(), err error) {
	k, leave := l.use(name)
	select {
	case k.taken <- struct{}{}:
		return func() { <-k.taken; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// Try is Take without waiting: ok is false if the name is locked.
func (l *Locks) Try(name string) (done func(), ok bool) {
	k, leave := l.use(name)
	select {
	case k.taken <- struct{}{}:
		return func() { <-k.taken; leave() }, true
	default:
		leave()
		return nil, false
	}
}

// use returns the lock of a name. The caller calls leave after unlocking.
func (l *Locks) use(name string) (k *namedLock, leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[string]*namedLock{}
	}
	if l.all[name] == nil {
		l.all[name] = &namedLock{taken: make(chan struct{}, 1)}
	}
	k = l.all[name]
	k.users++
	return k, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(l.all, name)
		}
	}
}

// Users returns the number of holders and waiters of each name that has any.
func (l *Locks) Users() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	users := make(map[string]int, len(l.all))
	for name, k := range l.all {
		users[name] = k.users
	}
	return users
}
