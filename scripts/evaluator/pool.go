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
	"writ/scripts"
)

// Pool evaluates in children of this process: this binary, started again with `evaluator` as its only argument, without environment,
// with limits on memory, CPU time and files, and behind every other Layer that the kernel has. A script that kills its child costs one
// pass: that pass is an EVALUATOR_CRASHED error, the child is replaced, and nothing else notices. Children are started when they are
// needed and kept; Close ends them.
//
// Whatever uses a Pool must call Main, and nothing else, when IsChild says so.
type Pool struct {
	Executable string       // the program to start; this one if empty
	Size       int          // the most children at a time; one for each CPU if 0
	Log        *slog.Logger // may be nil

	patience time.Duration // how long a pass may take; maxWall if 0

	mu     sync.Mutex
	lobby  lobby
	idle   []*child // the last used last
	layers Layers   // of the first child; nil before there was one
}

var _ scripts.Evaluator = (*Pool)(nil)

// Confinement returns what confines children, as the first one said; if there was none yet, one is started. A supervisor asks when it
// starts, so that a host on which no child can live is known before there is a run. The error says why none can.
func (p *Pool) Confinement(ctx context.Context) (Layers, error) {
	if _, err := p.enter(ctx, nil); err != nil {
		return nil, err
	}
	defer p.leave()
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
	one := &passing{request: request{Program: bundle.Digest(), Bundle: &bundle, Run: inputs.Run, Inputs: &inputs}, journal: journal}
	first, err := p.enter(ctx, one)
	if err != nil {
		return scripts.Outcome{}, err
	}
	if first {
		defer p.leave()
		runtime.Gosched() // lets those come along who are about to ask
		for !one.over {
			p.lead(ctx, one)
		}
	}
	return one.outcome, one.err
}

// lead carries out a pass, and others that wait. If the child ends over more than one of them, none is answered that was not before: each
// goes alone then.
func (p *Pool) lead(ctx context.Context, first *passing) {
	if ctx.Err() != nil {
		first.fail(context.Cause(ctx))
		return
	}
	c, fresh, err := p.take(ctx, first.request.Program, first.request.Run)
	if err != nil {
		first.fail(err)
		return
	}
	all := append([]*passing{first}, p.company(c, first)...)
	err = c.round(ctx, all)
	p.remember(all)
	left := slices.DeleteFunc(all, func(one *passing) bool { return one.over })
	switch {
	case errors.Is(err, errFrameTooBig):
		p.give(c) // it was not even asked
		if len(left) == 1 {
			first.answer(scripts.Outcome{Status: scripts.Failed, Failure: &writ.Failure{Error: *errFrameTooBig}}, false)
		}
	case errors.Is(err, errGone) && !fresh:
		c.end() // it died while it had nothing to do, which is not the script's fault
	case err != nil && len(left) == 1:
		left[0].fail(p.bury(ctx, c, left[0].request.Run, err))
	case err != nil:
		_ = p.bury(ctx, c, first.request.Run, err)
	case c.retired:
		c.end()
	default:
		p.give(c)
	}
	p.again(left, first, ctx.Err() == nil && !errors.Is(err, errGone))
}

// Plan implements scripts.Evaluator.
func (p *Pool) Plan(ctx context.Context, bundle scripts.Bundle, inputs scripts.Inputs) (scripts.Plan, error) {
	r := request{Program: bundle.Digest(), Bundle: &bundle, Run: inputs.Run, Inputs: &inputs, Plan: true}
	if _, err := p.enter(ctx, nil); err != nil {
		return scripts.Plan{}, err
	}
	defer p.leave()
	for {
		c, fresh, err := p.take(ctx, r.Program, r.Run)
		if err != nil {
			return scripts.Plan{}, err
		}
		plan, err := c.plan(ctx, r)
		switch {
		case errors.Is(err, errFrameTooBig):
			p.give(c) // it was not even asked
			return scripts.Plan{}, errFrameTooBig
		case errors.Is(err, errGone) && !fresh:
			c.end() // it died while it had nothing to do, which is not the script's fault
			continue
		case err != nil:
			return scripts.Plan{}, p.bury(ctx, c, r.Run, err)
		case c.retired:
			c.end()
		default:
			p.give(c)
		}
		return *plan, nil
	}
}

// take returns a child that has the run's journal, else one that has the program, else the one that was used last, else a fresh one.
func (p *Pool) take(ctx context.Context, program writ.Digest, run writ.RunID) (c *child, fresh bool, err error) {
	if c := p.kept(program, run); c != nil {
		return c, false, nil
	}
	c, err = p.start(ctx)
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
		p.Log.Warn("scripts are evaluated behind fewer walls than there could be", "held", layers.Held(), "missing", missing)
		return
	}
	p.Log.Info("scripts are evaluated in confined children", "held", layers.Held())
}

func (p *Pool) kept(program writ.Digest, run writ.RunID) *child {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	i := slices.IndexFunc(p.idle, func(c *child) bool { return c.keeps(run) })
	if i < 0 {
		i = slices.IndexFunc(p.idle, func(c *child) bool { return c.programs[program] })
	}
	if i < 0 {
		i = n - 1
	}
	c := p.idle[i]
	p.idle = slices.Delete(p.idle, i, i+1)
	return c
}

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
	reason := c.cmd.ProcessState.String()
	switch {
	case errors.Is(err, scripts.ErrImpossible):
		reason = "it was taken over: " + err.Error()
	case errors.Is(err, errCPU), errors.Is(err, errWall):
		reason = "it " + errors.Unwrap(err).Error()
	case strings.Contains(words, "out of memory") || strings.Contains(words, "cannot allocate"):
		reason = "it took more memory than it may"
	case strings.Contains(words, "stack overflow"):
		reason = "it recursed without end"
	}
	if p.Log != nil {
		p.Log.Warn("a child of the evaluator ended", "run", run, "err", err, "state", c.cmd.ProcessState.String(), "words", words)
	}
	return &writ.Error{Code: writ.CodeEvaluatorCrashed, Message: "evaluating the script ended its process: " + reason, Err: err}
}

// Close waits for the passes that are under way and ends all children. A Pool can be used again afterwards.
func (p *Pool) Close() error {
	size := p.children()
	for range size {
		_, _ = p.enter(context.Background(), nil)
	}
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, c := range idle {
		c.end()
	}
	for range size {
		p.leave()
	}
	return nil
}
