package evaluator

import (
	"context"
	"runtime"
	"slices"
	"time"

	"writ"
	"writ/internal/fair"
)

// quantum limits the CPU time of quick work while other work waits. A pass that exceeds it stops, and starts again in
// the slow class. It can stop at any time, because it has no effect before its end.
const quantum = 50 * time.Millisecond

// admissionQueue is the queue of the pool. A free child goes to the project that has used the least CPU time,
// regardless of its number of passes. Passes that wait at the same time share a round: a request to a child and its
// answer wake two processes, which costs as much as a small pass. The first pass of a round runs it, together with
// others that fit the same child.
//
// The work of each child belongs to a class with its own limit. So projects that need little never wait for projects
// that need much, however many these are, and processors are left for the rest of the work of a run.
type admissionQueue struct {
	slots slots
	line  fair.Queue[*waiter]
	costs costs
	began time.Time
}

// waiter is an entry of the admission queue.
type waiter struct {
	project string
	program writ.Digest // zero if it needs a child for other work
	size    int         // bytes of its sources
	plan    bool        // it is a plan instead of a pass
	pass    *passing    // nil for other work
	closes  bool        // it needs every child, to end them
	turn    chan *slot  // receives the slot; nil if another waiter ran the pass
	gone    bool        // its context has ended
}

// children returns the maximum number of working children.
func (p *Pool) children() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most()
}

// most is children for callers that hold the lock.
func (p *Pool) most() int {
	if p.queue.slots.most == 0 {
		p.queue.slots.most = p.Size
		if p.Size <= 0 {
			p.queue.slots.most = runtime.GOMAXPROCS(0)
		}
		p.queue.began = time.Now()
		p.queue.line.Weight = p.Weight
	}
	return p.queue.slots.most
}

// class returns the class of a waiter's work. A pass of a big program is quick if an idle child has the program
// compiled. The caller holds the lock.
func (p *Pool) class(w *waiter) class {
	costs := &p.queue.costs
	switch {
	case w.closes:
		return slow
	case w.program == writ.Digest{}:
		return quick
	case w.plan && costs.plan(w.program, w.size) > roundTime, costs.slow(w.program), w.pass != nil && w.pass.stops > 1:
		return slow
	case w.pass != nil && costs.compile(w.program, w.size) > roundTime && !p.idleHas(w.program):
		return compiling
	default:
		return quick
	}
}

// idleHas reports whether an idle child for quick passes has a program compiled. The caller holds the lock.
func (p *Pool) idleHas(program writ.Digest) bool {
	return slices.ContainsFunc(p.idle, func(c *child) bool { return !c.slow && c.programs.has(program) })
}

// admissible reports whether a child is available for a waiter. The caller holds the lock.
func (p *Pool) admissible(w *waiter) bool {
	if w.closes {
		return p.queue.slots.all() < p.most()
	}
	return p.queue.slots.free(p.class(w))
}

// enter waits for a child for a pass, or, if one is nil, for other work. The caller must call leave after the work. The
// slot is nil if another waiter ran the pass.
func (p *Pool) enter(ctx context.Context, project string, one *passing) (*slot, error) {
	w := &waiter{project: project, pass: one, turn: make(chan *slot, 1)}
	if one != nil {
		w.program, w.size = one.request.Program, one.size
		one.waiter = w
	}
	return p.wait(ctx, w)
}

// wait waits in the admission queue.
func (p *Pool) wait(ctx context.Context, w *waiter) (*slot, error) {
	p.mu.Lock()
	p.most()
	if w.pass != nil && w.pass.again {
		p.queue.line.PushFront(w.project, w)
	} else {
		p.queue.line.Push(w.project, w)
	}
	p.admit()
	p.mu.Unlock()
	select {
	case s := <-w.turn:
		return s, nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	w.gone = true
	p.queue.line.Remove(func(other *waiter) bool { return other == w })
	p.mu.Unlock()
	select {
	case s := <-w.turn:
		if s != nil {
			p.leave(s)
		}
	default: // its round continues without it
	}
	return nil, context.Cause(ctx)
}

// admit gives free slots to the next waiters, each with the idle child that fits best. The caller holds the lock.
func (p *Pool) admit() {
	for !p.queue.slots.full() {
		w, grant, ok := p.queue.line.Next(p.clock(), func(_ string, _ int, w *waiter) bool { return p.admissible(w) })
		if !ok {
			return
		}
		s := &slot{grant: grant, class: p.class(w)}
		if w.program != (writ.Digest{}) {
			s.child = p.reserve(w, s.class)
		}
		p.queue.slots.used[s.class]++
		if w.pass != nil {
			w.pass.waiter = nil // it no longer waits for another waiter
		}
		w.turn <- s
	}
}

// reserve removes the idle child that fits a waiter best, and returns it: a child with the run's journal, else one with
// the program, else the most recently used one. It returns nil if the caller should start a new child. The caller holds
// the lock.
func (p *Pool) reserve(w *waiter, class class) *child {
	heavy := p.queue.costs.compile(w.program, w.size) > roundTime
	best, most := -1, -1
	for i, c := range slices.Backward(p.idle) {
		if c.slow != (class == slow) {
			continue
		}
		if fit := c.fit(w, heavy); fit > most {
			best, most = i, fit
		}
	}
	if best < 0 {
		return nil
	}
	c := p.idle[best]
	p.idle = slices.Delete(p.idle, best, best+1)
	return c
}

// clock returns the time of the queue. The caller holds the lock.
func (p *Pool) clock() time.Duration { return time.Since(p.queue.began) }

// leave returns a slot, and its child if that is alive.
func (p *Pool) leave(s *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.child != nil {
		p.idle = append(p.idle, s.child)
	}
	p.queue.slots.used[s.class]--
	p.queue.line.End(s.grant, s.cost)
	p.admit()
}
