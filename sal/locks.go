package sal

import (
	"context"
	"sync"
)

// Turns let one at a time do something under a name. The zero value is ready.
type Turns struct {
	mu    sync.Mutex // guards names
	names map[string]*turn
}

type turn struct {
	free  chan struct{} // has a token while nobody has the turn
	users int           // who have it or wait for it
}

// Take waits for the turn, which lasts until done is called. The error is that of ctx.
func (t *Turns) Take(ctx context.Context, name string) (done func(), err error) {
	t.mu.Lock()
	n, ok := t.names[name]
	if !ok {
		n = &turn{free: make(chan struct{}, 1)}
		n.free <- struct{}{}
		if t.names == nil {
			t.names = map[string]*turn{}
		}
		t.names[name] = n
	}
	n.users++
	t.mu.Unlock()

	select {
	case <-n.free:
		return func() {
			n.free <- struct{}{}
			t.leave(name, n)
		}, nil
	case <-ctx.Done():
		t.leave(name, n)
		return nil, ctx.Err()
	}
}

func (t *Turns) leave(name string, n *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n.users--; n.users == 0 {
		delete(t.names, name)
	}
}
