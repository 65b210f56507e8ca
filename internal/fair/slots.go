package fair

import (
	"context"
	"sync"
	"time"
)

// reserve is how many times the slots that are free a tenant may have, at most, and get one more: alone it gets three quarters of them,
// the next one three quarters of the rest. So a tenant that comes after one finds a slot, however long that stays. Of fewer than four slots
// one may have all, and of fewer than sixteen two.
const reserve = 3

// May reports whether a tenant that has so many slots may have one more while so many are free.
func May(has, free int) bool { return free > 0 && has < reserve*free }

// Most is how many of so many slots one tenant gets while nobody else has any.
func Most(slots int) (n int) {
	for n < slots && May(n, slots-n) {
		n++
	}
	return n
}

// Slots are a semaphore: Size slots that tenants share by the time that they hold them.
type Slots struct {
	Size   int
	Most   int                     // that one tenant may have; if 0, as many as leave some for others: see May
	Weight func(tenant string) int // see Queue

	mu    sync.Mutex
	line  Queue[chan Grant]
	taken int
	began time.Time
}

// Enter waits for a slot. A caller that gets one calls leave; otherwise it returns the cause of ctx's end.
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

// Taken returns how many slots are taken, and how many wait for one.
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

// admit gives free slots away. The caller holds the lock.
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
