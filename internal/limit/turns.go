package limit

import (
	"context"
	"runtime"
	"sync"
	"time"

	"writ/internal/fair"
)

// Turns limits the requests that compute at the same time. Unauthenticated requests take turns, so that they leave
// processors for authenticated ones. Networks share the turns: the network with the least use is next. The zero value
// is ready to use.
type Turns struct {
	Size int // concurrent turns; 0 means half of the processors, at least one

	mu    sync.Mutex
	line  fair.Queue[*waiter]
	taken int
	ahead int         // requests in progress that called Precede
	last  time.Time   // when the last turn was granted
	later *time.Timer // grants the next turn while ahead is not 0
}

// pace is the minimum time between the starts of two turns while other requests are in progress.
const pace = 5 * time.Millisecond

// Precede slows the turns down until `end` is called: at most one begins every 5 ms. Requests that take no turns call
// it, so that hundreds of requests with turns do not compete with them for the processors.
func (t *Turns) Precede() (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ahead++
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.ahead--
		t.next()
	})
}

// waiter is a request that waits for its turn.
type waiter struct{ ready chan fair.Grant }

// origin is the zero point of the queues' times.
var origin = time.Now()

// Take waits for a turn of the network of a remote address. The only error is the error of ctx. The caller ends the
// turn with release.
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
	for t.taken < size && !t.delayed() {
		w, grant, ok := t.line.Next(time.Since(origin), nil)
		if !ok {
			return
		}
		t.taken++
		t.last = time.Now()
		w.ready <- grant
	}
}

// delayed reports whether the next turn has to wait because of pace. If so, it makes a timer call next later.
func (t *Turns) delayed() bool {
	wait := pace - time.Since(t.last)
	if t.ahead == 0 || wait <= 0 {
		return false
	}
	if t.later == nil {
		t.later = time.AfterFunc(wait, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.later = nil
			t.next()
		})
	}
	return true
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
