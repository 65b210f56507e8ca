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

// Pool evaluates in child processes: this binary, started again with `evaluator` as its only argument, without
// environment, with limits on memory, CPU time and files, and with every other Layer that the kernel has. A script that
// kills its child costs one pass: that pass fails with EVALUATOR_CRASHED, and the child is replaced. Nothing else is
// affected. Children are started on demand and stay until Close.
//
// A program with a Pool must call Main, and nothing else, if IsChild returns true.
type Pool struct {
	Executable string // the program to start; this program if empty
	// Size is the maximum number of working children; one per CPU if 0. Slow passes get half of them, and programs that
	// take long to compile a quarter, but each at least one. If these occupy all children, there is one more for other
	// work. Slow passes have their own children, so the pool keeps up to one and a half times Size idle children.
	Size int
	// Weight returns the relative share of CPU time of a project while several projects compete. A result below 1
	// counts as 1. If Weight is nil, all projects have equal shares.
	Weight func(project string) int
	Log    *slog.Logger // may be nil

	patience time.Duration // maximum time of a pass; maxWall if 0
	ends     limit.Lines   // limits the log lines about ended children, by cause

	once  sync.Once
	queue *admission // set at the first use

	mu     sync.Mutex
	layers Layers // of the last started child; nil before the first start
}

var _ scripts.Evaluator = (*Pool)(nil)

// admission returns the queue for the children.
func (p *Pool) admission() *admission {
	p.once.Do(func() { p.queue = newAdmission(p.Size, p.Weight) })
	return p.queue
}

// Confinement returns the layers that the last started child reported. It starts a child if none was started before. A
// supervisor calls it at its start, so that a host on which no child can start is detected before the first run. The
// error is the reason why no child could start.
func (p *Pool) Confinement(ctx context.Context) (Layers, error) {
	place, err := p.admission().enter(ctx, "", nil)
	if err != nil {
		return nil, err
	}
	defer p.queue.leave(place)
	p.mu.Lock()
	layers := p.layers
	p.mu.Unlock()
	if layers == nil {
		if place.child, err = p.start(ctx); err != nil {
			return nil, err
		}
		layers = place.child.layers
	}
	return slices.Clone(layers), nil
}

// Pass implements scripts.Evaluator. If ctx ends during the pass, the pool ends the child. The caller must not change
// inputs and the values in the journal afterwards: the pool compares both with the next pass of the run, and sends only
// the difference to the child. After an error, it must not change the journal itself either.
func (p *Pool) Pass(
	ctx context.Context, bundle scripts.Bundle, inputs scripts.Inputs, journal []scripts.Entry,
) (scripts.Outcome, error) {
	one := newPassing(&bundle, &inputs, journal)
	for !one.over {
		place, err := p.admission().enter(ctx, inputs.Project, one)
		if err != nil {
			return scripts.Outcome{}, err
		}
		if place == nil {
			break
		}
		switch place.class {
		case loading:
			began := time.Now()
			one.load(ctx)
			place.cost = time.Since(began)
		case compiling:
			p.compile(ctx, one, place)
		default:
			runtime.Gosched() // passes that arrive now can join
			p.runRound(ctx, one, place)
		}
		p.queue.leave(place)
	}
	return one.outcome, one.err
}

// compile compiles the program of a pass in a child. The pass waits for a child again afterwards.
func (p *Pool) compile(ctx context.Context, one *passing, place *slot) {
	c, fresh, err := p.childOf(ctx, place)
	if err != nil {
		one.fail(err)
		return
	}
	took, err := c.compile(ctx, one.request.Program, one.request.Bundle)
	one.again = true
	switch {
	case errors.Is(err, errFrameTooBig):
		one.answer(scripts.Outcome{Status: scripts.Failed, Failure: &writ.Failure{Error: *errFrameTooBig}})
	case errors.Is(err, errGone) && !fresh:
		place.drop() // it died while it was idle
	case err != nil:
		one.fail(p.endFailed(ctx, place, one.request.Run, err))
	case took > 0:
		p.queue.record(func(c *costs) { c.recordCompile(one.request.Program, took) })
	}
	place.cost = c.spent()
}

// runRound runs a pass together with other waiting passes. If the child ends during several passes, the passes without
// an answer are repeated, each alone. A pass that takes long is repeated in the slow class.
func (p *Pool) runRound(ctx context.Context, first *passing, place *slot) {
	if ctx.Err() != nil {
		first.fail(context.Cause(ctx))
		return
	}
	c, fresh, err := p.childOf(ctx, place)
	if err != nil {
		first.fail(err)
		return
	}
	all := p.queue.join(c, first, place.class)
	err = c.round(ctx, all, p.queue.crowdOf(place))
	left := slices.DeleteFunc(slices.Clone(all), func(one *passing) bool { return one.over })
	asked := slices.DeleteFunc(slices.Clone(left), func(one *passing) bool { return one.journalState == tooShort })
	var blamed []*passing
	switch {
	case errors.Is(err, errFrameTooBig): // the child got no request
		if blamed = asked; len(asked) == 1 {
			asked[0].answer(scripts.Outcome{Status: scripts.Failed, Failure: &writ.Failure{Error: *errFrameTooBig}})
		}
	case errors.Is(err, errGone) && !fresh:
		place.drop() // it died while it was idle, so the script is not the reason
	case errors.Is(err, errLong):
		place.drop()
		// The program used up a quantum, for compiling or running.
		p.queue.record(func(c *costs) { c.record(asked[0].request.Program, quantum, quantum) })
		blamed = asked[:1]
	// The only pass left caused the error. An exception is another pass than `first` if ctx, the context of `first`, has
	// ended.
	case err != nil && len(asked) == 1 && (asked[0] == first || ctx.Err() == nil):
		asked[0].fail(p.endFailed(ctx, place, asked[0].request.Run, err))
	case err != nil:
		if _ = p.endFailed(ctx, place, first.request.Run, err); ctx.Err() == nil {
			blamed = asked
		}
	case c.retired:
		place.drop()
	}
	p.queue.recordRound(all)
	place.cost = p.queue.charge(all, first, c.spent())
	p.queue.retry(left, first, blamed)
}

// Plan implements scripts.Evaluator.
func (p *Pool) Plan(ctx context.Context, bundle scripts.Bundle, inputs scripts.Inputs) (scripts.Plan, error) {
	r := request{Program: bundle.Digest(), Bundle: &bundle, Run: inputs.Run, Inputs: &inputs, Plan: true}
	for {
		place, err := p.admission().wait(ctx, &waiter{
			project: inputs.Project, program: r.Program, size: sizeOf(&bundle), plan: true, turn: make(chan *slot, 1),
		})
		if err != nil {
			return scripts.Plan{}, err
		}
		plan, err := p.plan(ctx, r, place)
		p.queue.leave(place)
		if plan != nil || err != nil {
			return *cmp.Or(plan, new(scripts.Plan)), err
		}
	}
}

// plan makes a plan. If it returns neither a plan nor an error, the caller must try again.
func (p *Pool) plan(ctx context.Context, r request, place *slot) (*scripts.Plan, error) {
	c, fresh, err := p.childOf(ctx, place)
	if err != nil {
		return nil, err
	}
	defer func() { place.cost = c.spent() }()
	plan, took, err := c.plan(ctx, r, p.queue.crowdOf(place))
	switch {
	case errors.Is(err, errFrameTooBig): // the child got no request
		return nil, errFrameTooBig
	case errors.Is(err, errGone) && !fresh:
		place.drop() // it died while it was idle, so the script is not the reason
		return nil, nil
	case errors.Is(err, errLong):
		place.drop()
	case err != nil:
		return nil, p.endFailed(ctx, place, r.Run, err)
	case c.retired:
		place.drop()
	}
	if plan == nil {
		took = quantum
	}
	p.queue.record(func(c *costs) { c.recordPlan(r.Program, took) })
	return plan, nil
}

// childOf returns the child of a slot, and starts it if necessary. Children for slow work get a low priority.
func (p *Pool) childOf(ctx context.Context, place *slot) (c *child, fresh bool, err error) {
	if place.child != nil {
		return place.child, false, nil
	}
	if c, err = p.start(ctx); err != nil {
		return nil, true, err
	}
	if place.child = c; place.class == slow {
		c.slow = true
		yieldTo(c.cmd.Process.Pid)
	}
	return c, true, nil
}

// start starts a child. It logs the confinement of the first child.
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
		p.logLayers(c.layers)
	}
	return c, nil
}

func (p *Pool) logLayers(layers Layers) {
	if p.Log == nil {
		return
	}
	if missing := layers.Missing(); len(missing) > 0 {
		p.Log.Warn("script evaluation lacks layers of confinement", "held", layers.Held(), "missing", missing)
		return
	}
	p.Log.Info("scripts are evaluated in confined children", "held", layers.Held())
}

// endFailed ends a failed child and returns the reason why the pass was not evaluated.
func (p *Pool) endFailed(ctx context.Context, place *slot, run writ.RunID, err error) error {
	c := place.child
	words := place.drop()
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
		reason, kind = "it exceeded its memory limit", "memory"
	case strings.Contains(words, "stack overflow"):
		reason, kind = "it recursed without end", "stack"
	}
	if times, say := p.ends.Say(kind, time.Now()); say && p.Log != nil { // scripts can end one child per pass
		p.Log.Warn("evaluator child ended", "run", run, "code", writ.CodeEvaluatorCrashed, "err", err,
			"state", c.cmd.ProcessState.String(), "words", words, "times", times)
	}
	return &writ.Error{
		Code: writ.CodeEvaluatorCrashed, Message: "evaluating the script ended its process: " + reason, Err: err,
	}
}

// Close waits for running passes and ends all children. A Pool can be used again afterwards.
func (p *Pool) Close() error {
	queue := p.admission()
	places := make([]*slot, queue.slots.most)
	for i := range places {
		places[i], _ = queue.wait(context.Background(), &waiter{closes: true, turn: make(chan *slot, 1)})
	}
	queue.closeIdle()
	for _, place := range places {
		queue.leave(place)
	}
	return nil
}
