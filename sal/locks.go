package sal

import (
	"context"
	"sync"
)

// Locks is a set of mutexes with names. The zero value is ready to use.
type Locks struct {
	mu    sync.Mutex // guards names
	names map[string]*namedLock
}

type namedLock struct {
	free  chan struct{} // holds a token while the lock is free
	users int           // holders and waiters
}

// Take acquires the lock of a name. The caller releases it with `done`. If ctx ends first, it returns the error of ctx.
func (l *Locks) Take(ctx context.Context, name string) (done func(), err error) {
	l.mu.Lock()
	n, ok := l.names[name]
	if !ok {
		n = &namedLock{free: make(chan struct{}, 1)}
		n.free <- struct{}{}
		if l.names == nil {
			l.names = map[string]*namedLock{}
		}
		l.names[name] = n
	}
	n.users++
	l.mu.Unlock()

	select {
	case <-n.free:
		return func() {
			n.free <- struct{}{}
			l.leave(name, n)
		}, nil
	case <-ctx.Done():
		l.leave(name, n)
		return nil, ctx.Err()
	}
}

func (l *Locks) leave(name string, n *namedLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.users--; n.users == 0 {
		delete(l.names, name)
	}
}
