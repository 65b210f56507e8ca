package limit

import (
	"cmp"
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"writ/internal/sleep"
)

// Names limits the actions of each name to PerSecond. Set PerSecond before use; 0 means no limit.
type Names struct {
	PerSecond float64
	AtOnce    int // burst; 0 means twice PerSecond

	rates rates
}

func (l *Names) atOnce() int { return cmp.Or(l.AtOnce, int(2*l.PerSecond)+1) }

// Charge counts an action that has already happened, even beyond the limit. Later actions wait until the excess has
// drained at the rate PerSecond.
func (l *Names) Charge(name string, cost int) {
	now := time.Now()
	l.rates.of(name, l.PerSecond, l.atOnce(), now).ReserveN(now, min(cost, l.atOnce()))
}

// Wait waits for the turn of a request with a cost. A cost of 0 waits only for the excess of earlier charges. If the
// wait would exceed `most`, Wait returns at once with the time to wait before a retry, and does not count the request.
// Otherwise it returns 0. The only error is the error of ctx.
func (l *Names) Wait(ctx context.Context, name string, cost int, most time.Duration) (again time.Duration, err error) {
	wait, ok := l.Reserve(name, cost, most)
	if !ok {
		return wait, nil
	}
	return 0, sleep.For(ctx, wait)
}

// Reserve counts a future request with a cost and returns its waiting time. If that exceeds `most`, it returns false
// and does not count the request.
func (l *Names) Reserve(name string, cost int, most time.Duration) (wait time.Duration, ok bool) {
	if l.PerSecond <= 0 {
		return 0, true
	}
	return l.rates.reserve(name, l.PerSecond, l.atOnce(), cost, most, time.Now())
}

// ReserveEach reserves costs one after the other, without other callers in between, until one would have to wait longer
// than `most`. It returns the number of reserved costs and the waiting time of the last.
func (l *Names) ReserveEach(name string, costs []int, most time.Duration) (counted int, wait time.Duration) {
	if l.PerSecond <= 0 {
		return len(costs), 0
	}
	return l.rates.reserveEach(name, l.PerSecond, l.atOnce(), costs, most, time.Now())
}

// rates holds a limiter for each recently used key.
type rates struct {
	mu  sync.Mutex
	all map[string]*seen
}

type seen struct {
	rate *rate.Limiter
	last time.Time
}

const (
	maxSeen   = 10_000
	seenStays = time.Minute // after that, a key's budget is full again
)

// of returns the limiter of a key.
func (r *rates) of(key string, perSecond float64, atOnce int, now time.Time) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) >= maxSeen {
		for k, s := range r.all {
			if now.Sub(s.last) > seenStays {
				delete(r.all, k)
			}
		}
		if len(r.all) >= maxSeen {
			clear(r.all) // exceeding the rates for a moment is better than unbounded memory
		}
	}
	if r.all == nil {
		r.all = map[string]*seen{}
	}
	s := r.all[key]
	if s == nil {
		s = &seen{rate: rate.NewLimiter(rate.Limit(perSecond), atOnce)}
		r.all[key] = s
	}
	s.last = now
	return s.rate
}

// reserve counts an action of a key and returns its waiting time, unless that exceeds `most`.
func (r *rates) reserve(
	key string, perSecond float64, atOnce, cost int, most time.Duration, now time.Time,
) (wait time.Duration, ok bool) {
	of := r.of(key, perSecond, atOnce, now)
	r.mu.Lock() // otherwise a concurrent reservation would miss the budget returned by a cancelled reservation
	defer r.mu.Unlock()
	return reserve(of, min(cost, atOnce), most, now)
}

// reserveEach counts costs until the waiting time of one exceeds `most`. It returns their number and the waiting time
// of the last.
func (r *rates) reserveEach(
	key string, perSecond float64, atOnce int, costs []int, most time.Duration, now time.Time,
) (counted int, wait time.Duration) {
	of := r.of(key, perSecond, atOnce, now)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, cost := range costs {
		at, ok := reserve(of, min(cost, atOnce), most, now)
		if !ok {
			break
		}
		counted, wait = counted+1, at
	}
	return counted, wait
}

// reserve takes cost from a limiter unless the waiting time exceeds `most`.
func reserve(of *rate.Limiter, cost int, most time.Duration, now time.Time) (wait time.Duration, ok bool) {
	reservation := of.ReserveN(now, cost)
	if wait = reservation.DelayFrom(now); wait > most {
		reservation.CancelAt(now)
		return wait, false
	}
	return wait, true
}
