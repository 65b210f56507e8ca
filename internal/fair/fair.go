// Package fair shares a scarce resource between tenants by their past use, like start-time fair queueing. The tenant
// with the least use is served first. A tenant that starts to compete begins with the same use as the tenants being
// served. Use without competition is never charged later. The package depends on no domain: a tenant is a name, and use
// is a duration.
package fair

import (
	"slices"
	"time"
)

// Queue holds the waiting items of all tenants. The zero value is ready to use. It is not safe for concurrent use.
type Queue[T any] struct {
	// Weight returns the share of a tenant relative to other tenants. Nil, and values below 1, count as 1.
	Weight func(tenant string) int

	now     time.Duration // virtual time: the use of the tenant served last, when it was served
	arrived uint64
	tenants map[string]*tenant[T]
}

// tenant is the state of a tenant that waits, is being served, or has used more than the tenants being served.
type tenant[T any] struct {
	used    time.Duration // virtual time: use divided by weight
	waiting []waiting[T]
	served  int           // number of items being served
	began   time.Duration // sum of the start times of the items being served
}

type waiting[T any] struct {
	item    T
	arrived uint64
}

// Grant is an item being served.
type Grant struct {
	Tenant string
	began  time.Duration
}

func (q *Queue[T]) tenant(name string) *tenant[T] {
	t := q.tenants[name]
	if t == nil {
		if q.tenants == nil {
			q.tenants = make(map[string]*tenant[T])
		}
		t = &tenant[T]{used: q.now}
		q.tenants[name] = t
	}
	return t
}

// Push appends an item to its tenant's queue.
func (q *Queue[T]) Push(name string, item T) {
	q.arrived++
	t := q.awake(name)
	t.waiting = append(t.waiting, waiting[T]{item, q.arrived})
}

// PushFront inserts an item before all others of its tenant.
func (q *Queue[T]) PushFront(name string, item T) {
	t := q.awake(name)
	t.waiting = append([]waiting[T]{{item, 0}}, t.waiting...)
}

// awake returns a tenant that is about to compete. Time without demand gives the tenant no credit.
func (q *Queue[T]) awake(name string) *tenant[T] {
	t := q.tenant(name)
	if len(t.waiting) == 0 && t.served == 0 {
		t.used = max(t.used, q.now)
	}
	return t
}

// Next removes and returns the next item to serve. `now` must not decrease between calls. Next picks the first
// permitted item of the tenant with the least use, including the running time of its items being served. If the
// function `may` returns false for an item, Next continues with the later items of its tenant.
func (q *Queue[T]) Next(
	now time.Duration, may func(tenant string, served int, item T) bool,
) (item T, grant Grant, ok bool) {
	var first *tenant[T]
	var name string
	var at int
	var least time.Duration
	for candidate, t := range q.tenants {
		i := t.first(candidate, may)
		if i < 0 {
			continue
		}
		used := q.usedBy(candidate, t, now)
		if first == nil || used < least || used == least && t.waiting[i].arrived < first.waiting[at].arrived {
			first, name, at, least = t, candidate, i, used
		}
	}
	if first == nil {
		return item, Grant{}, false
	}
	item = first.waiting[at].item
	first.waiting = slices.Delete(first.waiting, at, at+1)
	q.now = max(q.now, least)
	return item, q.begin(name, first, now), true
}

func (t *tenant[T]) first(name string, may func(string, int, T) bool) int {
	for i := range t.waiting {
		if may == nil || may(name, t.served, t.waiting[i].item) {
			return i
		}
	}
	return -1
}

// Begin serves a tenant that did not have to wait.
func (q *Queue[T]) Begin(name string, now time.Duration) Grant {
	t := q.awake(name)
	q.now = max(q.now, q.usedBy(name, t, now))
	return q.begin(name, t, now)
}

func (q *Queue[T]) begin(name string, t *tenant[T], now time.Duration) Grant {
	t.served++
	t.began += now
	return Grant{name, now}
}

// usedBy returns the use of a tenant up to now, including items still being served.
func (q *Queue[T]) usedBy(name string, t *tenant[T], now time.Duration) time.Duration {
	return t.used + (time.Duration(t.served)*now-t.began)/q.weight(name)
}

func (q *Queue[T]) weight(name string) time.Duration {
	if q.Weight == nil {
		return 1
	}
	return time.Duration(max(q.Weight(name), 1))
}

// End ends the service of an item and charges its actual cost.
func (q *Queue[T]) End(g Grant, cost time.Duration) {
	t := q.tenant(g.Tenant)
	t.served--
	t.began -= g.began
	t.used += cost / q.weight(g.Tenant)
	q.forget()
}

// Charge charges a tenant for work that was done together with an item of another tenant.
func (q *Queue[T]) Charge(name string, cost time.Duration) {
	t := q.awake(name)
	t.used += cost / q.weight(name)
	q.forget()
}

// forget drops idle tenants whose state equals the state of a new tenant.
func (q *Queue[T]) forget() {
	for name, t := range q.tenants {
		if len(t.waiting) == 0 && t.served == 0 && t.used <= q.now {
			delete(q.tenants, name)
		}
	}
}

// Served returns the number of items of a tenant being served.
func (q *Queue[T]) Served(name string) int {
	if t := q.tenants[name]; t != nil {
		return t.served
	}
	return 0
}

// Len returns the number of waiting items.
func (q *Queue[T]) Len() (n int) {
	for _, t := range q.tenants {
		n += len(t.waiting)
	}
	return n
}

// Remove removes all items that `gone` accepts, and returns their number.
func (q *Queue[T]) Remove(gone func(item T) bool) (n int) {
	for _, t := range q.tenants {
		kept := t.waiting[:0]
		for _, w := range t.waiting {
			if gone(w.item) {
				n++
			} else {
				kept = append(kept, w)
			}
		}
		clear(t.waiting[len(kept):])
		t.waiting = kept
	}
	if n > 0 {
		q.forget()
	}
	return n
}
