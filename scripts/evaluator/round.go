package evaluator

import (
	"cmp"
	"slices"
	"time"

	"writ"
	"writ/internal/fair"
	"writ/scripts"
)

// maxTogether limits the passes of one round.
const maxTogether = 16

// passing is a pass whose caller waits for its outcome.
type passing struct {
	request request // complete, except for the journal
	size    int     // bytes of the program's sources
	journal []scripts.Entry
	waiter  *waiter // nil once it has a slot
	alone   bool    // it shares no round
	again   bool    // it was admitted before, and precedes others
	along   bool    // it joined the round of another pass, with
	grant   fair.Grant
	stops   int // number of times that it was stopped because it took long

	over    bool          // the outcome or error below is set
	cost    time.Duration // as reported by the child, at least 1 ns; 0 if the pass did not take place
	compile time.Duration // the part of cost for compiling
	outcome scripts.Outcome
	err     error
}

func newPassing(bundle *scripts.Bundle, inputs *scripts.Inputs, journal []scripts.Entry) *passing {
	return &passing{
		request: request{Program: bundle.Digest(), Bundle: bundle, Run: inputs.Run, Inputs: inputs, Logged: inputs.Logged},
		size:    sizeOf(bundle),
		journal: journal,
	}
}

// used adds the cost of an answer.
func (one *passing) used(a *answer) {
	one.cost += max(a.Took, 1)
	one.compile = min(one.compile+max(a.Compile, 0), one.cost)
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

// joinRound removes passes from the queue that share a round with the first one: the child has their journals, or no
// idle child does, and together they take little time. The shortest one comes first.
func (p *Pool) joinRound(c *child, first *passing, class class) (all []*passing) {
	all = append(all, first)
	p.mu.Lock()
	defer p.mu.Unlock()
	first.cost, first.compile = 0, 0
	if first.alone || class != quick {
		return all
	}
	takes := func(one *passing) time.Duration {
		return p.queue.costs.pass(one.request.Program, one.size, c.programs.has(one.request.Program))
	}
	left := roundTime - takes(first)
	for len(all) < maxTogether {
		w, grant, ok := p.queue.line.Next(p.clock(), func(_ string, _ int, w *waiter) bool {
			return w.pass != nil && !w.pass.alone && takes(w.pass) <= left && p.class(w) != slow && p.fitsBest(w.pass, c)
		})
		if !ok {
			break
		}
		left -= takes(w.pass)
		w.pass.along, w.pass.grant, w.pass.cost, w.pass.compile = true, grant, 0, 0
		all = append(all, w.pass)
	}
	slices.SortStableFunc(all, func(a, b *passing) int { return cmp.Compare(takes(a), takes(b)) })
	return all
}

// fitsBest reports whether no idle child fits a pass better. The caller holds the lock.
func (p *Pool) fitsBest(one *passing, c *child) bool {
	run := one.request.Run
	return c.hasJournal(run) ||
		!slices.ContainsFunc(p.idle, func(other *child) bool { return !other.slow && other.hasJournal(run) })
}

// retry puts unfinished passes at the front of the queue. The caller of the first one does that itself. One of the
// blamed passes may have ended the child.
func (p *Pool) retry(left []*passing, first *passing, blamed []*passing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range blamed {
		one.alone = true
	}
	for _, one := range slices.Backward(left) {
		one.again = true
		if one != first && !one.over && !one.waiter.gone {
			p.queue.line.PushFront(one.waiter.project, one.waiter)
		}
	}
	p.admit()
}

// record stores the costs of the passes of a round.
func (p *Pool) record(round []*passing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range round {
		if one.cost > 0 {
			p.queue.costs.record(one.request.Program, one.cost-one.compile, one.compile)
		}
	}
}

// recordSlow records a program that used up a quantum, for compiling or running.
func (p *Pool) recordSlow(program writ.Digest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue.costs.record(program, quantum, quantum)
}

// charge charges each project for its passes of a round, and returns the share of the first pass. Took is the CPU time
// of the round as measured by the kernel. It is divided in proportion to the times that the child reported.
func (p *Pool) charge(round []*passing, first *passing, took time.Duration) time.Duration {
	var reported time.Duration
	for _, one := range round {
		reported += one.cost
	}
	part := func(one *passing) time.Duration {
		if reported <= 0 {
			return took / time.Duration(len(round))
		}
		return time.Duration(float64(took) * (float64(one.cost) / float64(reported)))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range round {
		if one.along {
			p.queue.line.End(one.grant, part(one))
			one.along = false
		}
	}
	return part(first)
}
