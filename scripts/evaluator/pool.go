package evaluator

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"writ"
	"writ/internal/limit"
	"writ/scripts"
)

// Pool evaluates in children of this process: this binary, started again with `evaluator` as its only argument, without environment,
// with limits on memory, CPU time and files, and behind every other Layer that the kernel has. A script that kills its child costs one
// pass: that pass is an EVALUATOR_CRASHED error, the child is replaced, and nothing else notices. Children are started when they are
// needed and kept; Close ends them.
//
// Whatever uses a Pool must call Main, and nothing else, when IsChild says so.
type Pool struct {
	Executable string // the program to start; this one if empty
	// Size is how many children are at work at a time; one for each CPU if 0. Passes that take long have half of them; if that is the only one, there
	// is one more for others.
	Size int
	// Weight says how much of the CPU time a project gets, compared with others, while several want some; 1 if nil, or below 1.
	Weight func(project string) int
	Log    *slog.Logger // may be nil

	patience time.Duration // how long a pass may take; maxWall if 0
	ends     limit.Lines   // of children that a script ended, by how it did

	mu     sync.Mutex
	lobby  lobby
	idle   []*child // the last used last
	layers Layers   // of the first child; nil before there was one
}

var _ scripts.Evaluator = (*Pool)(nil)

// Confinement returns what confines children, as the first one said; if there was none yet, one is started. A supervisor asks when it
// starts, so that a host on which no child can live is known before there is a run. The error says why none can.
func (p *Pool) Confinement(ctx context.Context) (Layers, error) {
	place, err := p.enter(ctx, "", nil)
	if err != nil {
		return nil, err
	}
	defer p.leave(place)
	p.mu.Lock()
	layers := p.layers
	p.mu.Unlock()
	if layers == nil {
		c, err := p.start(ctx)
		if err != nil {
			return nil, err
		}
		p.give(c)
		layers = c.layers
	}
	return slices.Clone(layers), nil
}

// Pass implements scripts.Evaluator. When ctx ends the child that was at work is given up. What is in inputs and journal must not
// change afterwards: it is compared with that of the run's next pass, to send a child only what it does not know.
func (p *Pool) Pass(ctx context.Context, bundle scripts.Bundle, inputs scripts.Inputs, journal []scripts.Entry) (scripts.Outcome, error) {
	one := &passing{request: request{Program: bundle.Digest(), Bundle: &bundle, Run: inputs.Run, Inputs: &inputs, Logged: inputs.Logged}, journal: journal}
	for !one.over {
		place, err := p.enter(ctx, inputs.Project, one)
		if err != nil {
			return scripts.Outcome{}, err
		}
		if place == nil {
			break
		}
		runtime.Gosched() // lets those come along who are about to ask
		p.lead(ctx, one, place)
		p.leave(place)
	}
	return one.outcome, one.err
}

// lead carries out a pass, and others that wait. If the child ends over more than one of them, none is answered that was not before: each
// goes alone then. One that takes long while others wait is begun again later, and the others go on without it.
func (p *Pool) lead(ctx context.Context, first *passing, place *seat) {
	if ctx.Err() != nil {
		first.fail(context.Cause(ctx))
		return
	}
	c, fresh, err := p.take(ctx, first.request.Program, first.request.Run, place.long)
	if err != nil {
		first.fail(err)
		return
	}
	all := p.company(c, first)
	err = c.round(ctx, all, p.patienceWith(place))
	keep := false
	left := slices.DeleteFunc(slices.Clone(all), func(one *passing) bool { return one.over })
	var blamed []*passing
	switch {
	case errors.Is(err, errFrameTooBig):
		keep = true // it was not even asked
		if blamed = left; len(left) == 1 {
			first.answer(scripts.Outcome{Status: scripts.Failed, Failure: &writ.Failure{Error: *errFrameTooBig}})
		}
	case errors.Is(err, errGone) && !fresh:
		c.end() // it died while it had nothing to do, which is not the script's fault
	case errors.Is(err, errLong):
		c.end()
		p.remember(left[0].request.Program, quantum)
		blamed = left[:1]
	case err != nil && len(left) == 1 && (left[0] == first || ctx.Err() == nil): // that nobody waits for the first one is not the fault of another
		left[0].fail(p.bury(ctx, c, left[0].request.Run, err))
	case err != nil:
		if _ = p.bury(ctx, c, first.request.Run, err); ctx.Err() == nil {
			blamed = left
		}
	case c.retired:
		c.end()
	default:
		keep = true
	}
	for _, one := range all {
		if one.over && one.cost > 0 {
			p.remember(one.request.Program, one.cost)
		}
	}
	place.cost = p.charge(all, first, c.spent())
	if keep {
		p.give(c)
	}
	p.again(left, first, blamed)
}

// patienceWith says whether a pass makes room that takes longer than a quantum: nil for one that takes long anyway.
func (p *Pool) patienceWith(place *seat) (crowded func() bool) {
	if place.long {
		return nil
	}
	return p.crowded
}

// Plan implements scripts.Evaluator.
func (p *Pool) Plan(ctx context.Context, bundle scripts.Bundle, inputs scripts.Inputs) (scripts.Plan, error) {
	r := request{Program: bundle.Digest(), Bundle: &bundle, Run: inputs.Run, Inputs: &inputs, Plan: true}
	for {
		place, err := p.enterAs(ctx, inputs.Project, r.Program)
		if err != nil {
			return scripts.Plan{}, err
		}
		plan, err := p.plan(ctx, r, place)
		p.leave(place)
		if plan != nil || err != nil {
			return *cmp.Or(plan, new(scripts.Plan)), err
		}
	}
}

// plan makes a plan; nil without an error is to be tried again.
func (p *Pool) plan(ctx context.Context, r request, place *seat) (*scripts.Plan, error) {
	c, fresh, err := p.take(ctx, r.Program, r.Run, place.long)
	if err != nil {
		return nil, err
	}
	keep := false
	defer func() {
		place.cost = c.spent()
		if keep {
			p.give(c)
		}
	}()
	plan, err := c.plan(ctx, r, p.patienceWith(place))
	switch {
	case errors.Is(err, errFrameTooBig):
		keep = true // it was not even asked
		return nil, errFrameTooBig
	case errors.Is(err, errGone) && !fresh:
		c.end() // it died while it had nothing to do, which is not the script's fault
		return nil, nil
	case errors.Is(err, errLong):
		c.end()
		p.remember(r.Program, quantum)
		return nil, nil
	case err != nil:
		return nil, p.bury(ctx, c, r.Run, err)
	case c.retired:
		c.end()
	default:
		keep = true
	}
	return plan, nil
}

// take returns a child that has the run's journal, else one that has the program, else the one that was used last, else a fresh one. Those
// for passes that take long are others: they leave the processors to everybody else.
func (p *Pool) take(ctx context.Context, program writ.Digest, run writ.RunID, long bool) (c *child, fresh bool, err error) {
	if c := p.kept(program, run, long); c != nil {
		return c, false, nil
	}
	if c, err = p.start(ctx); err == nil && long {
		c.long = true
		yieldTo(c.cmd.Process.Pid)
	}
	return c, true, err
}

// start starts a child. What confines the first one is told to the log.
func (p *Pool) start(ctx context.Context) (*child, error) {
	executable := p.Executable
	if executable == "" {
		var err error
		if executable, err = ownBinary(); err != nil {
			return nil, err
		}
	}
	c, err := startChild(ctx, executable, cmp.Or(p.patience, maxWall))
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	first := p.layers == nil
	p.layers = c.layers
	p.mu.Unlock()
	if first {
		p.tell(c.layers)
	}
	return c, nil
}

func (p *Pool) tell(layers Layers) {
	if p.Log == nil {
		return
	}
	if missing := layers.Missing(); len(missing) > 0 {
		p.Log.Warn("scripts are evaluated with fewer confinements than possible", "held", layers.Held(), "missing", missing)
		return
	}
	p.Log.Info("scripts are evaluated in confined children", "held", layers.Held())
}

func (p *Pool) kept(program writ.Digest, run writ.RunID, long bool) *child {
	p.mu.Lock()
	defer p.mu.Unlock()
	best := -1
	for i, c := range slices.Backward(p.idle) {
		if c.long != long {
			continue
		}
		if c.keeps(run) {
			best = i
			break
		}
		if best < 0 || c.programs[program] && !p.idle[best].programs[program] {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	c := p.idle[best]
	p.idle = slices.Delete(p.idle, best, best+1)
	return c
}

// give keeps a child for others. What it has used must be counted by then: from now on somebody else may have it.
func (p *Pool) give(c *child) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, c)
}

// bury ends a child that failed and says why the pass did not take place.
func (p *Pool) bury(ctx context.Context, c *child, run writ.RunID, err error) error {
	words := c.end()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	reason, kind := c.cmd.ProcessState.String(), ""
	switch {
	case errors.Is(err, scripts.ErrImpossible):
		reason, kind = "it was taken over: "+err.Error(), "taken over"
	case errors.Is(err, errCPU), errors.Is(err, errWall):
		reason, kind = "it "+errors.Unwrap(err).Error(), "time"
	case strings.Contains(words, "out of memory") || strings.Contains(words, "cannot allocate"):
		reason, kind = "it took more memory than it may", "memory"
	case strings.Contains(words, "stack overflow"):
		reason, kind = "it recursed without end", "stack"
	}
	if times, say := p.ends.Say(kind, time.Now()); say && p.Log != nil { // scripts can end as many as there are passes
		p.Log.Warn("evaluator child ended", "run", run, "code", writ.CodeEvaluatorCrashed, "err", err, "state", c.cmd.ProcessState.String(), "words", words, "times", times)
	}
	return &writ.Error{Code: writ.CodeEvaluatorCrashed, Message: "evaluating the script ended its process: " + reason, Err: err}
}

// Close waits for the passes that are under way and ends all children. A Pool can be used again afterwards.
func (p *Pool) Close() error {
	size := p.children()
	places := make([]*seat, size)
	for i := range places {
		// As somebody who takes long: one who does not gets a child beside all that are at work on what takes long.
		p.mu.Lock()
		places[i], _ = p.wait(context.Background(), &waiter{long: true, closes: true, turn: make(chan *seat, 1)})
	}
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, c := range idle {
		c.end()
	}
	for _, place := range places {
		p.leave(place)
	}
	return nil
}
