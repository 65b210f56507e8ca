package evaluator

import (
	"context"
	"runtime"
	"slices"

	"writ"
	"writ/scripts"
)

// mostTogether bounds the passes of one round: what is behind one that takes long waits for it.
const mostTogether = 16

// mostSlow bounds how many slow programs are remembered.
const mostSlow = 1 << 10

// lobby is where everybody waits for whom there is no child. Passes that wait at the same time share a round: to ask a child and to hear its
// answer wakes two processes, which costs as much as a small pass. A round is made by one of those who wait for it, with the others that
// get on with the same child.
type lobby struct {
	size  int // the most children at a time, once it is known
	busy  int // children that are at work, or about to be
	queue []*waiter
	slow  map[writ.Digest]bool // programs of which a pass took long: nobody is to wait for them
}

// waiter is somebody in the lobby.
type waiter struct {
	pass *passing  // nil for one who wants a child for something else
	turn chan bool // true: there is a child, and the waiter leads; false: the pass is over
	gone bool      // nobody waits any more
}

// passing is a pass that somebody waits for.
type passing struct {
	request request // whole, but for the journal
	journal []scripts.Entry
	waiter  *waiter // nil for one who did not have to wait
	alone   bool    // shares no round

	over    bool // with what follows
	slow    bool
	outcome scripts.Outcome
	err     error
}

// answer ends a pass with its outcome.
func (one *passing) answer(o scripts.Outcome, slow bool) {
	one.outcome, one.slow = o, slow
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
		one.waiter.turn <- false
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
	}
	return p.lobby.size
}

// enter waits until there is a child for the caller, who then calls leave, or until the pass is over, because another one took it along: then
// first is false.
func (p *Pool) enter(ctx context.Context, one *passing) (first bool, err error) {
	p.mu.Lock()
	if one != nil {
		one.alone = p.lobby.slow[one.request.Program]
	}
	if p.lobby.busy < p.most() {
		p.lobby.busy++
		p.mu.Unlock()
		return true, nil
	}
	w := &waiter{pass: one, turn: make(chan bool, 1)}
	if one != nil {
		one.waiter = w
	}
	p.lobby.queue = append(p.lobby.queue, w)
	p.mu.Unlock()
	select {
	case first = <-w.turn:
		return first, nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	w.gone = true
	p.lobby.queue = slices.DeleteFunc(p.lobby.queue, func(other *waiter) bool { return other == w })
	p.mu.Unlock()
	select {
	case first = <-w.turn:
		if first {
			p.leave()
		}
	default: // its round goes on without it
	}
	return false, context.Cause(ctx)
}

// leave gives the child to the next one.
func (p *Pool) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.lobby.queue) == 0 {
		p.lobby.busy--
		return
	}
	next := p.lobby.queue[0]
	p.lobby.queue = p.lobby.queue[1:]
	if next.pass != nil {
		next.pass.waiter = nil // it waits no longer for somebody else
	}
	next.turn <- true
}

// company takes those out of the lobby who come along with the first one of a round: whose runs the child knows, or no other child does.
func (p *Pool) company(c *child, first *passing) (others []*passing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if first.alone {
		return nil
	}
	p.lobby.queue = slices.DeleteFunc(p.lobby.queue, func(w *waiter) bool {
		comes := w.pass != nil && !w.pass.alone && len(others) < mostTogether-1 && p.belongs(w.pass, c)
		if comes {
			others = append(others, w.pass)
		}
		return comes
	})
	return others
}

// belongs reports whether a pass is no better off with another child that has nothing to do. The caller holds the lock.
func (p *Pool) belongs(one *passing, c *child) bool {
	run := one.request.Run
	return c.keeps(run) || !slices.ContainsFunc(p.idle, func(other *child) bool { return other.keeps(run) })
}

// again lets passes wait once more that are not over, before all others. The first one's caller waits for nobody. blamed says
// that one of them may be why.
func (p *Pool) again(left []*passing, first *passing, blamed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var queue []*waiter
	for _, one := range left {
		one.alone = one.alone || blamed
		if one != first && !one.over && !one.waiter.gone {
			queue = append(queue, one.waiter)
		}
	}
	p.lobby.queue = append(queue, p.lobby.queue...)
}

// remember keeps which programs are slow, as their last passes were.
func (p *Pool) remember(round []*passing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range round {
		switch program := one.request.Program; {
		case !one.over || one.slow == p.lobby.slow[program]:
		case !one.slow:
			delete(p.lobby.slow, program)
		default:
			if p.lobby.slow == nil || len(p.lobby.slow) >= mostSlow {
				p.lobby.slow = make(map[writ.Digest]bool)
			}
			p.lobby.slow[program] = true
		}
	}
}
