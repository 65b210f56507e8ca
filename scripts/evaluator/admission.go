package evaluator

import (
	"context"
	"runtime"
	"sync"
	"time"

	"writ"
	"writ/internal/fair"
)

// quantum limits the CPU time of quick work while other work waits. A pass that exceeds it stops, and starts again in
// the slow class. It can stop at any time, because it has no effect before its end.
const quantum = 50 * time.Millisecond

// admission decides which waiting work gets a child process next. A free child goes to the project that has used the
// least CPU time, regardless of its number of passes. Passes that wait at the same time share a round, because a
// request to a child and its answer wake two processes, which costs as much as a small pass. The caller of the first
// pass runs the round for itself and for other passes that fit the same child.
//
// The work of each child belongs to a class with its own limit. So projects with quick work never wait for projects
// with slow work, even if many projects have slow work. Processors also stay free for the other parts of a run.
type admission struct {
	mu    sync.Mutex
	slots slots
	line  fair.Queue[*waiter]
	costs costs
	idle  idleChildren
	loads loads
	began time.Time
}

// newAdmission returns an admission to size children, or to one per CPU if size is 0.
func newAdmission(size int, weight func(project string) int) *admission {
	if size <= 0 {
		size = runtime.GOMAXPROCS(0)
	}
	a := &admission{slots: slots{most: size}, began: time.Now()}
	a.line.Weight = weight
	return a
}

// waiter is an entry of the admission queue.
type waiter struct {
	project string
	program writ.Digest // zero for work other than a pass or a plan
	size    int         // bytes of its sources
	plan    bool        // it is a plan instead of a pass
	pass    *passing    // nil for other work
	closes  bool        // for Close, which takes all slots to end the children
	turn    chan *slot  // receives the slot; nil if another waiter ran the pass
	gone    bool        // its context has ended
}

// loads reports whether the waiter is of class loading.
func (w *waiter) loads() bool { return w.pass != nil && w.pass.journalState == tooShort }

// loads is the number of waiters of class loading.
type loads int

// add adds n if w is such a waiter.
func (l *loads) add(w *waiter, n loads) {
	if w.loads() {
		*l += n
	}
}

// class returns the class of a waiter's work. A pass of a big program is quick if an idle child has the program
// compiled. The caller holds the lock.
func (a *admission) class(w *waiter) class {
	costs := &a.costs
	switch {
	case w.closes:
		return slow
	case w.program == writ.Digest{}:
		return quick
	case w.loads():
		return loading
	case w.plan && costs.plan(w.program, w.size) > roundTime, costs.slow(w.program), w.pass != nil && w.pass.stops > 1,
		w.pass != nil && w.pass.request.Inputs.First > 0 && a.idle.onlySlowHasJournal(w.pass.request.Run):
		return slow
	case w.pass != nil && costs.compile(w.program, w.size) > roundTime && !a.idle.has(w.program):
		return compiling
	default:
		return quick
	}
}

// admissible reports whether a child is available for a waiter. The caller holds the lock.
func (a *admission) admissible(w *waiter) bool {
	if w.closes {
		return a.slots.all() < a.slots.most
	}
	return a.slots.free(a.class(w))
}

// enter waits for a child for the pass `one`, or, if that is nil, for other work. The caller must call leave after the
// work. The slot is nil if another waiter ran the pass.
func (a *admission) enter(ctx context.Context, project string, one *passing) (*slot, error) {
	w := &waiter{project: project, pass: one, turn: make(chan *slot, 1)}
	if one != nil {
		w.program, w.size = one.request.Program, one.size
		one.waiter = w
	}
	return a.wait(ctx, w)
}

// wait waits in the admission queue.
func (a *admission) wait(ctx context.Context, w *waiter) (*slot, error) {
	a.mu.Lock()
	a.push(w)
	a.admit()
	a.mu.Unlock()
	select {
	case s := <-w.turn:
		return s, nil
	case <-ctx.Done():
	}
	a.mu.Lock()
	w.gone = true
	a.line.Remove(func(other *waiter) bool {
		if other == w {
			a.loads.add(w, -1)
		}
		return other == w
	})
	a.mu.Unlock()
	select {
	case s := <-w.turn:
		if s != nil {
			a.leave(s)
		}
	default: // the pass has joined a round, which continues without this caller
	}
	return nil, context.Cause(ctx)
}

// push adds a waiter to the queue. Passes that wait for their journals keep their order. The caller holds the lock.
func (a *admission) push(w *waiter) {
	a.loads.add(w, 1)
	if w.pass != nil && w.pass.again && !w.loads() {
		a.line.PushFront(w.project, w)
	} else {
		a.line.Push(w.project, w)
	}
}

// admit gives free slots to the next waiters, each with the idle child that fits best. The caller holds the lock.
func (a *admission) admit() {
	for !a.slots.full() || a.loads > 0 && a.slots.free(loading) {
		w, grant, ok := a.line.Next(a.clock(), func(_ string, _ int, w *waiter) bool { return a.admissible(w) })
		if !ok {
			return
		}
		a.loads.add(w, -1)
		s := &slot{grant: grant, class: a.class(w)}
		if s.class != loading && w.program != (writ.Digest{}) {
			heavy := a.costs.compile(w.program, w.size) > roundTime
			s.child = a.idle.take(w, heavy, s.class == slow)
		}
		a.slots.used[s.class]++
		if w.pass != nil {
			w.pass.waiter = nil // the waiter has its own slot, so no other round ends its wait
		}
		w.turn <- s
	}
}

// clock returns the time of the queue. The caller holds the lock.
func (a *admission) clock() time.Duration { return time.Since(a.began) }

// leave returns a slot, and its child if that is alive.
func (a *admission) leave(s *slot) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.child != nil {
		a.idle = append(a.idle, s.child)
	}
	a.slots.used[s.class]--
	a.line.End(s.grant, s.cost)
	a.admit()
}

// closeIdle ends all idle children.
func (a *admission) closeIdle() {
	a.mu.Lock()
	idle := a.idle
	a.idle = nil
	a.mu.Unlock()
	for _, c := range idle {
		c.end()
	}
}

// crowdOf returns a function that reports whether work waits for a child. It is nil if the slot is not for quick work.
func (a *admission) crowdOf(s *slot) func() bool {
	if s.class != quick {
		return nil
	}
	return func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.line.Len() > int(a.loads) // a pass of class loading waits for no child
	}
}
