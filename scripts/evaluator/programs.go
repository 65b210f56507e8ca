package evaluator

import (
	"context"
	"slices"
	"sync"

	"writ"
	"writ/scripts"
	"writ/scripts/interpreter"
)

// keptVMs limits the programs of a child that keep an idle VM. A VM takes 100 KiB, plus the values that the last pass
// left on its stack.
const keptVMs = 8

// programs holds the most recently used compiled programs.
type programs struct {
	mu   sync.Mutex
	list recent[*compiled]
}

// compiled is the result of compiling a bundle: a program or an error.
type compiled struct {
	program *interpreter.Program
	failure *writ.Error
}

// find returns a compiled program, or nil.
func (p *programs) find(digest writ.Digest) *compiled {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, found := p.list.find(digest)
	if found {
		p.moved()
	}
	return c
}

// has reports whether a compiled program is stored.
func (p *programs) has(c *compiled) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.list.list, func(one used[*compiled]) bool { return one.value == c })
}

// moved releases the VM of the program that has just moved behind the keptVMs most recently used programs. The caller
// holds the lock.
func (p *programs) moved() {
	if len(p.list.list) > keptVMs && p.list.list[keptVMs].value.program != nil {
		p.list.list[keptVMs].value.program.Rest()
	}
}

// compile compiles a bundle and stores the result.
func (p *programs) compile(digest writ.Digest, bundle *scripts.Bundle) *compiled {
	c := &compiled{}
	var err error
	if c.program, err = interpreter.Compile(*bundle); err != nil {
		c.failure = writ.AsError(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list.add(digest, sizeOf(bundle), c)
	p.moved()
	return c
}

// pass runs a pass. A bundle that does not compile has a failed outcome.
func (c *compiled) pass(ctx context.Context, inputs scripts.Inputs, journal []scripts.Entry) (scripts.Outcome, error) {
	if c.failure != nil {
		return scripts.Outcome{Status: scripts.Failed, Failure: &writ.Failure{Error: writ.Error{
			Code: c.failure.Code, Message: c.failure.Message, Hint: c.failure.Hint,
		}}}, nil
	}
	return c.program.Pass(ctx, inputs, journal)
}

// InProcess evaluates in this process, for tests with virtual time or the race detector, and for commands that check a
// person's own script. Only the engine limits a script then; no process limits its memory or time. The zero value is
// ready to use.
type InProcess struct {
	programs programs
}

var _ scripts.Evaluator = (*InProcess)(nil)

// Pass implements scripts.Evaluator.
func (e *InProcess) Pass(
	ctx context.Context, bundle scripts.Bundle, inputs scripts.Inputs, journal []scripts.Entry,
) (scripts.Outcome, error) {
	whole, journal, err := inputs.WithEarlier(ctx, journal)
	if err != nil {
		return scripts.Outcome{}, err
	}
	digest := bundle.Digest()
	c := e.programs.find(digest)
	if c == nil {
		c = e.programs.compile(digest, &bundle)
	}
	return c.pass(ctx, *whole, journal)
}

// Plan implements scripts.Evaluator.
func (e *InProcess) Plan(ctx context.Context, bundle scripts.Bundle, inputs scripts.Inputs) (scripts.Plan, error) {
	return interpreter.PlanOf(ctx, bundle, inputs)
}

// Confinement returns nil: a script in this process is not confined.
func (e *InProcess) Confinement(context.Context) (Layers, error) { return nil, nil }
