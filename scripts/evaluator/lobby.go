package evaluator

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"time"

	"writ"
	"writ/internal/fair"
	"writ/scripts"
)

// mostTogether bounds the passes of one round: what is behind one that takes long waits for it.
const mostTogether = 16

// roundTime is about how much CPU time the passes of one round take together: each of them waits for those before it. One that takes more than
// that goes alone.
const roundTime = 10 * time.Millisecond

// newTakes is how much CPU time a program counts as that was never evaluated.
const newTakes = roundTime / 5

// mostTimes bounds how many programs are remembered for the time that they take.
const mostTimes = 1 << 10

// quantum is how much CPU time a pass may take before it makes room, if somebody waits: it is begun again from the start, alone and among
// those that take long. A pass has no effect until it has ended, so it can be stopped at any time.
const quantum = 50 * time.Millisecond

// lobby is where everybody waits for whom there is no child. A free child goes to the project that has used least CPU time, whatever the
// number of its passes. Passes that wait at the same time share a round: to ask a child and to hear its answer wakes two processes, which
// costs as much as a small pass. A round is made by one of those who wait for it, with the others that get on with the same child.
//
// Passes of programs that took long may have half of the children, and if there is only one there is one more for all others: none of these holds
// a child for more than a quantum while somebody waits. So nobody who asks for little waits for those who ask for much, however many projects
// they are, and there are processors left for everything else that a run needs.
type lobby struct {
	size  int // the most children at a time, but for one more if all are at work on what takes long
	quick int // passes at work that take little, as far as is known
	long  int // passes at work that take long
	line  fair.Queue[*waiter]
	times map[writ.Digest]time.Duration // of programs: what their last passes took
	began time.Time
}

// waiter is somebody in the lobby.
type waiter struct {
	project string
	pass    *passing   // nil for one who wants a child for something else
	long    bool       // it is one of those that take long
	closes  bool       // it wants every child, to end them
	turn    chan *seat // a child for the waiter, who leads; nil: the pass is over
	gone    bool       // nobody waits any more
}

// seat is the right to have one child at work.
type seat struct {
	grant fair.Grant
	long  bool
	cost  time.Duration // that it was used for
}

// passing is a pass that somebody waits for.
type passing struct {
	request request // whole, but for the journal
	journal []scripts.Entry
	waiter  *waiter // nil for one who does not wait for somebody else
	alone   bool    // shares no round
	again   bool    // it was to be carried out before, and stands before others
	along   bool    // another one took it along, with
	grant   fair.Grant

	over    bool          // with what follows
	cost    time.Duration // by the child's word, at least 1 ns; 0 if it did not take place
	outcome scripts.Outcome
	err     error
}

// answer ends a pass with its outcome.
func (one *passing) answer(o scripts.Outcome) {
	one.outcome = o
	one.end()
}

// fail ends a pass that did not take place.
func (one *passing) fail(err error) {
	one.err = err
	one.end()
}

func (one *passing) end() {
	one.over = true
	if one.waiter != nil {
		one.waiter.turn <- nil
	}
}

// children is the most of them at a time.
func (p *Pool) children() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most()
}

// most is children for those who hold the lock.
func (p *Pool) most() int {
	if p.lobby.size == 0 {
		p.lobby.size = p.Size
		if p.Size <= 0 {
			p.lobby.size = runtime.GOMAXPROCS(0)
		}
		p.lobby.began = time.Now()
		p.lobby.line.Weight = p.Weight
	}
	return p.lobby.size
}

// may reports whether there is a child for a waiter. The caller holds the lock.
func (p *Pool) may(w *waiter) bool {
	l := &p.lobby
	if w.long {
		return l.long+l.quick < p.most() && (w.closes || l.long < max(p.most()/2, 1))
	}
	return l.quick < max(p.most()-l.long, 1)
}

// enter waits until there is a child for the caller, who then calls leave, or until the pass is over, because another one took it along: then
// there is no seat.
func (p *Pool) enter(ctx context.Context, project string, one *passing) (*seat, error) {
	w := &waiter{project: project, pass: one, turn: make(chan *seat, 1)}
	p.mu.Lock()
	if one != nil {
		w.long = p.lobby.isLong(one.request.Program)
		one.alone = one.alone || w.long
		one.waiter = w
	}
	return p.wait(ctx, w)
}

// enterAs is enter for who works with a program, and takes nobody along.
func (p *Pool) enterAs(ctx context.Context, project string, program writ.Digest) (*seat, error) {
	p.mu.Lock()
	return p.wait(ctx, &waiter{project: project, long: p.lobby.isLong(program), turn: make(chan *seat, 1)})
}

// wait waits in the lobby. The caller holds the lock, which is let go.
func (p *Pool) wait(ctx context.Context, w *waiter) (*seat, error) {
	p.most()
	one, project := w.pass, w.project
	if one != nil && one.again {
		p.lobby.line.PushFront(project, w)
	} else {
		p.lobby.line.Push(project, w)
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
	p.lobby.line.Remove(func(other *waiter) bool { return other == w })
	p.mu.Unlock()
	select {
	case s := <-w.turn:
		if s != nil {
			p.leave(s)
		}
	default: // its round goes on without it
	}
	return nil, context.Cause(ctx)
}

// admit gives children to those who are next. The caller holds the lock.
func (p *Pool) admit() {
	for {
		w, grant, ok := p.lobby.line.Next(p.clock(), func(_ string, _ int, w *waiter) bool { return p.may(w) })
		if !ok {
			return
		}
		if w.long {
			p.lobby.long++
		} else {
			p.lobby.quick++
		}
		if w.pass != nil {
			w.pass.waiter = nil // it waits no longer for somebody else
		}
		w.turn <- &seat{grant: grant, long: w.long}
	}
}

// clock is the time by which those who wait are told apart. The caller holds the lock.
func (p *Pool) clock() time.Duration { return time.Since(p.lobby.began) }

// leave gives the child to the next one.
func (p *Pool) leave(s *seat) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.long {
		p.lobby.long--
	} else {
		p.lobby.quick--
	}
	p.lobby.line.End(s.grant, s.cost)
	p.admit()
}

// crowded reports whether somebody waits for a child.
func (p *Pool) crowded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lobby.line.Len() > 0
}

// company takes those out of the lobby who come along with the first one of a round: whose runs the child knows, or no other child does, as many as
// take little together. Those that take least are asked first.
func (p *Pool) company(c *child, first *passing) (all []*passing) {
	all = append(all, first)
	p.mu.Lock()
	defer p.mu.Unlock()
	if first.alone {
		return all
	}
	left := roundTime - p.lobby.takes(first)
	for len(all) < mostTogether {
		w, grant, ok := p.lobby.line.Next(p.clock(), func(_ string, _ int, w *waiter) bool {
			return w.pass != nil && !w.pass.alone && !w.long && p.lobby.takes(w.pass) <= left && p.belongs(w.pass, c)
		})
		if !ok {
			break
		}
		left -= p.lobby.takes(w.pass)
		w.pass.along, w.pass.grant = true, grant
		all = append(all, w.pass)
	}
	slices.SortStableFunc(all, func(a, b *passing) int { return cmp.Compare(p.lobby.takes(a), p.lobby.takes(b)) })
	return all
}

// takes is how much CPU time a pass is going to take, as far as is known.
func (l *lobby) takes(one *passing) time.Duration {
	return cmp.Or(l.times[one.request.Program], newTakes)
}

// isLong reports whether nobody is to wait for passes of a program.
func (l *lobby) isLong(program writ.Digest) bool { return l.times[program] > roundTime }

// belongs reports whether a pass is no better off with another child that has nothing to do. The caller holds the lock.
func (p *Pool) belongs(one *passing, c *child) bool {
	run := one.request.Run
	return c.keeps(run) || !slices.ContainsFunc(p.idle, func(other *child) bool { return other.keeps(run) })
}

// again lets passes wait once more that are not over, before all others. The first one's caller sees to it by itself. blamed are
// those of which one may be why.
func (p *Pool) again(left []*passing, first *passing, blamed []*passing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range blamed {
		one.alone = true
	}
	for _, one := range slices.Backward(left) {
		one.again = true
		if one != first && !one.over && !one.waiter.gone {
			one.waiter.long = p.lobby.isLong(one.request.Program)
			p.lobby.line.PushFront(one.waiter.project, one.waiter)
		}
	}
	p.admit()
}

// remember keeps how long programs take, as their last passes did.
func (p *Pool) remember(program writ.Digest, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.lobby.times[program]; !known && (p.lobby.times == nil || len(p.lobby.times) >= mostTimes) {
		p.lobby.times = make(map[writ.Digest]time.Duration)
	}
	p.lobby.times[program] = took
}

// charge charges each project for its passes of a round, and returns what the first one took. Children say how long each pass took; what
// the kernel says of the whole round counts, and is divided by that.
func (p *Pool) charge(round []*passing, first *passing, took time.Duration) time.Duration {
	var said time.Duration
	for _, one := range round {
		said += one.cost
	}
	part := func(one *passing) time.Duration {
		if said <= 0 {
			return took / time.Duration(len(round))
		}
		return time.Duration(float64(took) * (float64(one.cost) / float64(said)))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range round {
		if one.along {
			p.lobby.line.End(one.grant, part(one))
			one.along = false
		}
	}
	return part(first)
}
