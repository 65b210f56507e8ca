package sal

import (
	"context"
	"sync"
)

// Locks lets one at a time do something under a name. The zero value is ready.
type Locks struct {
	mu    sync.Mutex // guards names
	names map[string]*namedLock
}

type namedLock struct {
	free  chan struct{} // has a token while the lock is free
	users int           // those that hold it or wait for it
}

// Take waits for the lock of a name and holds it until done is called. The error is that of ctx.
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
