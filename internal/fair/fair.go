// Package fair shares what is scarce between tenants by what each has used of it, as start-time fair queueing does: the tenant that used
// least goes first, one that begins to ask is put level with those who are being served, and nobody is charged for having been alone. It
// knows no domain: a tenant is a name, and what is used is a time.
package fair

import (
	"slices"
	"time"
)

// Queue is the line of those who wait. The zero value is ready to use; it is not safe for concurrent use.
type Queue[T any] struct {
	// Weight says how much of the whole a tenant gets, compared with others; nil, and what is below 1, is 1.
	Weight func(tenant string) int

	now     time.Duration // virtual: how much the tenant had used that was served last, when it was
	arrived uint64
	tenants map[string]*tenant[T]
}

// tenant is one that waits, is being served, or has used more than those who are.
type tenant[T any] struct {
	used    time.Duration // virtual: by its weight
	waiting []waiting[T]
	served  int           // of its items, now
	began   time.Duration // the sum of the times at which these began
}

type waiting[T any] struct {
	item    T
	arrived uint64
}

// Grant is an item that is being served.
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

// Push puts an item at the end of its tenant's line.
func (q *Queue[T]) Push(name string, item T) {
	q.arrived++
	t := q.awake(name)
	t.waiting = append(t.waiting, waiting[T]{item, q.arrived})
}

// PushFront puts an item before all others of its tenant.
func (q *Queue[T]) PushFront(name string, item T) {
	t := q.awake(name)
	t.waiting = append([]waiting[T]{{item, 0}}, t.waiting...)
}

// awake returns a tenant that asks for something. What it left unused while it asked for nothing is not saved up.
func (q *Queue[T]) awake(name string) *tenant[T] {
	t := q.tenant(name)
	if len(t.waiting) == 0 && t.served == 0 {
		t.used = max(t.used, q.now)
	}
	return t
}

// Next takes the item out that is to be served next at a time, which only passes. Of those that may be served it is the first one of the
// tenant that has used least, including what its items take that are being served. Who must wait does not keep others of its tenant from it.
func (q *Queue[T]) Next(now time.Duration, may func(tenant string, served int, item T) bool) (item T, grant Grant, ok bool) {
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

// usedBy is what a tenant has used until now, with what is not charged yet.
func (q *Queue[T]) usedBy(name string, t *tenant[T], now time.Duration) time.Duration {
	return t.used + (time.Duration(t.served)*now-t.began)/q.weight(name)
}

func (q *Queue[T]) weight(name string) time.Duration {
	if q.Weight == nil {
		return 1
	}
	return time.Duration(max(q.Weight(name), 1))
}

// End charges what serving an item took in fact.
func (q *Queue[T]) End(g Grant, cost time.Duration) {
	t := q.tenant(g.Tenant)
	t.served--
	t.began -= g.began
	t.used += cost / q.weight(g.Tenant)
	q.forget()
}

// Charge charges a tenant for something that was done along with what another one waited for.
func (q *Queue[T]) Charge(name string, cost time.Duration) {
	t := q.awake(name)
	t.used += cost / q.weight(name)
	q.forget()
}

// forget drops tenants of which nothing needs to be known: they would begin where everybody does.
func (q *Queue[T]) forget() {
	for name, t := range q.tenants {
		if len(t.waiting) == 0 && t.served == 0 && t.used <= q.now {
			delete(q.tenants, name)
		}
	}
}

// Served returns how many items of a tenant are being served.
func (q *Queue[T]) Served(name string) int {
	if t := q.tenants[name]; t != nil {
		return t.served
	}
	return 0
}

// Len is how many items wait.
func (q *Queue[T]) Len() (n int) {
	for _, t := range q.tenants {
		n += len(t.waiting)
	}
	return n
}

// Remove takes out all items that are to go, wherever they stand, and returns how many these were.
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
