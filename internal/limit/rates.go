package limit

import (
	"cmp"
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"writ/internal/sleep"
)

// Names bounds what each of those does that have names: so much a second, and twice as much at once. Set PerSecond before its use; 0 bounds
// nothing.
type Names struct {
	PerSecond float64
	AtOnce    int // twice as much as in a second if 0

	rates rates
}

func (l *Names) atOnce() int { return cmp.Or(l.AtOnce, int(2*l.PerSecond)+1) }

// Charge counts what somebody has done, whether he might or not: he may do more once that is made up for.
func (l *Names) Charge(name string, cost int) {
	now := time.Now()
	l.rates.of(name, l.PerSecond, l.atOnce(), now).ReserveN(now, min(cost, l.atOnce()))
}

// Wait waits for the turn of somebody whose request counts as so many, or if that is 0 until what was charged is made up for. If that would take
// longer than most it counts nothing, and returns at once how long to wait before asking again, or else 0. An error is that of ctx.
func (l *Names) Wait(ctx context.Context, name string, cost int, most time.Duration) (again time.Duration, err error) {
	wait, ok := l.Reserve(name, cost, most)
	if !ok {
		return wait, nil
	}
	return 0, sleep.For(ctx, wait)
}

// Reserve counts what somebody is about to do as so many, and returns how long he has to wait for it. If that is longer than most it counts nothing,
// and returns false.
func (l *Names) Reserve(name string, cost int, most time.Duration) (wait time.Duration, ok bool) {
	if l.PerSecond <= 0 {
		return 0, true
	}
	return l.rates.reserve(name, l.PerSecond, l.atOnce(), cost, most, time.Now())
}

// ReserveEach reserves one cost after the other, with nobody in between, until one would have to wait for longer than most. It returns how many it
// counted, and how long to wait for the last of them.
func (l *Names) ReserveEach(name string, costs []int, most time.Duration) (counted int, wait time.Duration) {
	if l.PerSecond <= 0 {
		return len(costs), 0
	}
	return l.rates.reserveEach(name, l.PerSecond, l.atOnce(), costs, most, time.Now())
}

// rates keeps a rate for each key that was seen of late.
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
	seenStays = time.Minute // after that its allowance is full again anyway
)

// of returns the rate of a key.
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
			clear(r.all) // so many at once: better all too fast than memory without end
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

// reserve counts what a key does, if it has to wait for that no longer than most, and returns how long.
func (r *rates) reserve(key string, perSecond float64, atOnce, cost int, most time.Duration, now time.Time) (wait time.Duration, ok bool) {
	of := r.of(key, perSecond, atOnce, now)
	r.mu.Lock() // or what is given back would be lost to who reserves in between
	defer r.mu.Unlock()
	return reserve(of, min(cost, atOnce), most, now)
}

// reserveEach counts as many of these as a key has to wait for no longer than most, and returns how long it waits for the last.
func (r *rates) reserveEach(key string, perSecond float64, atOnce int, costs []int, most time.Duration, now time.Time) (counted int, wait time.Duration) {
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

// reserve takes a cost from a rate, unless that would mean to wait for longer than most.
func reserve(of *rate.Limiter, cost int, most time.Duration, now time.Time) (wait time.Duration, ok bool) {
	reservation := of.ReserveN(now, cost)
	if wait = reservation.DelayFrom(now); wait > most {
		reservation.CancelAt(now)
		return wait, false
	}
	return wait, true
}
