package evaluator

import (
	"context"
	"slices"
	"sync"

	"writ"
	"writ/scripts"
)

// keptPrograms is how many compiled programs are kept; one takes about 150 KiB. The first of them, those that were used last, may have a VM
// each besides, which takes 100 KiB and what the last pass left on its stack.
const (
	keptPrograms = 64
	keptVMs      = 8
)

// programs keeps the programs that were used last, by the digest of their bundles.
type programs struct {
	mu   sync.Mutex
	list []*compiled // the last used first
}

// compiled is a bundle that was compiled, or could not be.
type compiled struct {
	digest  writ.Digest
	program *scripts.Program
	failure *writ.Error
}

// find returns the program of a digest, nil if it is not kept.
func (p *programs) find(digest writ.Digest) *compiled {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.list, func(c *compiled) bool { return c.digest == digest })
	if i < 0 {
		return nil
	}
	found := p.list[i]
	copy(p.list[1:i+1], p.list[:i])
	p.list[0] = found
	p.moved()
	return found
}

// moved has the program rest that is not among the first any more. The caller holds the lock.
func (p *programs) moved() {
	if len(p.list) > keptVMs && p.list[keptVMs].program != nil {
		p.list[keptVMs].program.Rest()
	}
}

// compile makes a program and keeps it.
func (p *programs) compile(digest writ.Digest, bundle scripts.Bundle) *compiled {
	c := &compiled{digest: digest}
	var err error
	if c.program, err = scripts.Compile(bundle); err != nil {
		c.failure = writ.AsError(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = slices.Insert(p.list, 0, c)
	p.list = p.list[:min(len(p.list), keptPrograms)]
	p.moved()
	return c
}

// pass evaluates. That a bundle cannot be compiled is its outcome.
func (c *compiled) pass(ctx context.Context, inputs scripts.Inputs, journal []scripts.Entry) (scripts.Outcome, error) {
	if c.failure != nil {
		return scripts.Outcome{Status: scripts.Failed, Failure: &writ.Failure{Error: writ.Error{
			Code: c.failure.Code, Message: c.failure.Message, Hint: c.failure.Hint,
		}}}, nil
	}
	return c.program.Pass(ctx, inputs, journal)
}

// InProcess evaluates in this process, for tests with virtual time or the race detector and for commands that check a person's own
// script. What bounds a script is then the engine alone: no process limits memory or time. The zero value is ready.
type InProcess struct {
	programs programs
}

var _ scripts.Evaluator = (*InProcess)(nil)

// Pass implements scripts.Evaluator.
func (e *InProcess) Pass(ctx context.Context, bundle scripts.Bundle, inputs scripts.Inputs, journal []scripts.Entry) (scripts.Outcome, error) {
	digest := bundle.Digest()
	c := e.programs.find(digest)
	if c == nil {
		c = e.programs.compile(digest, bundle)
	}
	return c.pass(ctx, inputs, journal)
}

// Plan implements scripts.Evaluator.
func (e *InProcess) Plan(ctx context.Context, bundle scripts.Bundle, inputs scripts.Inputs) (scripts.Plan, error) {
	return scripts.PlanOf(ctx, bundle, inputs)
}

// Confinement returns nil: nothing holds a script that is evaluated in this process.
func (e *InProcess) Confinement(context.Context) (Layers, error) { return nil, nil }
