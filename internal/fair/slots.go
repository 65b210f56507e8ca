package fair

import (
	"context"
	"sync"
	"time"
)

// reserve limits a tenant's slots to `reserve` times the number of free slots. A single tenant gets three quarters of
// all slots, and the next tenant three quarters of the rest. A later tenant therefore finds a free slot even if tenants
// never release theirs. With fewer than four slots, one tenant may hold all slots; with fewer than sixteen, two tenants
// may.
const reserve = 3

// May reports whether a tenant with `has` slots may get another one while `free` slots are free.
func May(has, free int) bool { return free > 0 && has < reserve*free }

// Most returns the maximum number of slots that a single tenant gets.
func Most(slots int) (n int) {
	for n < slots && May(n, slots-n) {
		n++
	}
	return n
}

// Slots is a semaphore with Size slots. The tenant that has held slots for the shortest total time gets the next free
// slot.
type Slots struct {
	Size   int
	Most   int                     // limit per tenant; 0 means the limit of May
	Weight func(tenant string) int // see Queue

	mu    sync.Mutex
	line  Queue[chan Grant]
	taken int
	began time.Time
}

// Enter waits for a slot. A caller that gets a slot must call leave. Otherwise the error is the cause of the end of
// ctx.
func (p *Slots) Enter(ctx context.Context, tenant string) (leave func(), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	come := make(chan Grant, 1)
	p.mu.Lock()
	p.line.Weight = p.Weight
	p.line.Push(tenant, come)
	p.admit()
	p.mu.Unlock()
	select {
	case g := <-come:
		return sync.OnceFunc(func() { p.leave(g) }), nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	waited := p.line.Remove(func(other chan Grant) bool { return other == come }) > 0
	p.mu.Unlock()
	if !waited {
		p.leave(<-come)
	}
	return nil, context.Cause(ctx)
}

// Taken returns the number of held slots and of waiting callers.
func (p *Slots) Taken() (taken, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken, p.line.Len()
}

func (p *Slots) leave(g Grant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	p.line.End(g, p.now()-g.began)
	p.admit()
}

// admit grants the free slots. The caller holds the lock.
func (p *Slots) admit() {
	for p.taken < max(p.Size, 1) {
		come, g, ok := p.line.Next(p.now(), func(_ string, has int, _ chan Grant) bool {
			if p.Most > 0 {
				return has < p.Most
			}
			return May(has, max(p.Size, 1)-p.taken)
		})
		if !ok {
			return
		}
		p.taken++
		come <- g
	}
}

func (p *Slots) now() time.Duration {
	if p.began.IsZero() {
		p.began = time.Now()
	}
	return time.Since(p.began)
}
