package evaluator

import (
	"cmp"
	"context"
	"slices"
	"time"

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
	again   bool    // it was admitted before, so it precedes new passes
	along   bool    // it joined the round of another pass, under grant
	grant   fair.Grant
	stops   int // number of times that it was stopped because it took long

	journalState journalState

	over    bool          // the outcome or error below is set
	cost    time.Duration // as reported by the child, at least 1 ns; 0 if the pass was not evaluated
	compile time.Duration // the part of cost for compiling
	outcome scripts.Outcome
	err     error
}

// journalState is the state of the journal of a pass. A caller can omit its first entries: see scripts.Past.
type journalState int

const (
	enough   journalState = iota // the journal is whole, or a child is expected to have its first entries
	tooShort                     // the child lacks first entries, so they must be read
	loaded                       // the first entries were read
)

func newPassing(bundle *scripts.Bundle, inputs *scripts.Inputs, journal []scripts.Entry) *passing {
	return &passing{
		request: request{Program: bundle.Digest(), Bundle: bundle, Run: inputs.Run, Inputs: inputs, Logged: inputs.Logged},
		size:    sizeOf(bundle),
		journal: journal,
	}
}

// load reads the first entries of the journal. Afterwards the pass waits for a child again, and runs alone.
func (one *passing) load(ctx context.Context) {
	inputs, journal, err := one.request.Inputs.WithEarlier(ctx, one.journal)
	if err != nil {
		one.fail(err)
		return
	}
	one.request.Inputs, one.journal = inputs, journal
	one.journalState, one.alone, one.again = loaded, true, true
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

// fail ends a pass that was not evaluated.
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

// join removes passes from the queue that share a round with the pass `first`, and returns all passes of the round,
// shortest first. It selects passes whose journals the child has, or no idle child has, as long as the whole round
// takes at most roundTime.
func (a *admission) join(c *child, first *passing, class class) (all []*passing) {
	all = append(all, first)
	a.mu.Lock()
	defer a.mu.Unlock()
	first.cost, first.compile = 0, 0
	if first.alone || class != quick {
		return all
	}
	takes := func(one *passing) time.Duration {
		return a.costs.pass(one.request.Program, one.size, c.programs.has(one.request.Program))
	}
	left := roundTime - takes(first)
	for len(all) < maxTogether {
		w, grant, ok := a.line.Next(a.clock(), func(_ string, _ int, w *waiter) bool {
			return w.pass != nil && !w.pass.alone && !w.loads() && takes(w.pass) <= left && a.class(w) != slow &&
				(c.hasJournal(w.pass.request.Run) || !a.idle.hasJournal(w.pass.request.Run))
		})
		if !ok {
			break
		}
		left -= takes(w.pass)
		w.pass.along, w.pass.grant, w.pass.cost, w.pass.compile = true, grant, 0, 0
		all = append(all, w.pass)
	}
	slices.SortStableFunc(all, func(x, y *passing) int { return cmp.Compare(takes(x), takes(y)) })
	return all
}

// retry puts unfinished passes at the front of the queue. The pass `first` is an exception, because its own caller
// enters the queue again. One of the blamed passes may have ended the child, so each of them runs alone afterwards.
func (a *admission) retry(left []*passing, first *passing, blamed []*passing) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range blamed {
		one.alone = true
	}
	for _, one := range slices.Backward(left) {
		one.again = true
		if one != first && !one.over && !one.waiter.gone {
			a.push(one.waiter)
		}
	}
	a.admit()
}

// record updates the costs of programs.
func (a *admission) record(update func(*costs)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	update(&a.costs)
}

// recordRound stores the costs of the passes of a round. A pass with a loaded journal usually begins at the start of
// the script, which the next pass does not.
func (a *admission) recordRound(round []*passing) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range round {
		if one.cost > 0 && one.journalState != loaded {
			a.costs.record(one.request.Program, one.cost-one.compile, one.compile)
		}
	}
}

// charge charges each project for its passes of a round, and returns the share of the first pass. `took`, the CPU time
// of the round as measured by the kernel, is divided in proportion to the times that the child reported.
func (a *admission) charge(round []*passing, first *passing, took time.Duration) time.Duration {
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
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range round {
		if one.along {
			a.line.End(one.grant, part(one))
			one.along = false
		}
	}
	return part(first)
}
