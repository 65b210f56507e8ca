package limit

import (
	"context"
	"runtime"
	"sync"
	"time"

	"writ/internal/fair"
)

// Turns bounds how many requests compute at the same time. Requests of strangers take turns, so that they leave processors to all others. Networks
// share the turns: the network that has used least is next. The zero value is ready for use.
type Turns struct {
	Size int // turns at the same time; half of the processors, but at least one, if 0

	mu    sync.Mutex
	line  fair.Queue[*waiter]
	taken int
}

// waiter is a request that waits for its turn.
type waiter struct{ ready chan fair.Grant }

// origin is the zero of the times of all queues.
var origin = time.Now()

// Take waits for a turn of the network of a remote address. The error is that of ctx. release ends the turn.
func (t *Turns) Take(ctx context.Context, remote string) (release func(), err error) {
	w := &waiter{make(chan fair.Grant, 1)}
	t.mu.Lock()
	t.line.Push(NetworkOf(remote), w)
	t.next()
	t.mu.Unlock()
	select {
	case grant := <-w.ready:
		return t.releaser(grant), nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	waiting := t.line.Remove(func(other *waiter) bool { return other == w }) > 0
	t.mu.Unlock()
	if !waiting {
		t.releaser(<-w.ready)()
	}
	return nil, ctx.Err()
}

// next grants the free turns.
func (t *Turns) next() {
	size := t.Size
	if size == 0 {
		size = max(runtime.GOMAXPROCS(0)/2, 1)
	}
	for t.taken < size {
		w, grant, ok := t.line.Next(time.Since(origin), nil)
		if !ok {
			return
		}
		t.taken++
		w.ready <- grant
	}
}

func (t *Turns) releaser(grant fair.Grant) func() {
	began := time.Now()
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.line.End(grant, time.Since(began))
		t.taken--
		t.next()
	})
}
