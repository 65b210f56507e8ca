package supervisor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"writ"
	"writ/identity"
	"writ/scripts"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
)

// Bounds of the programs that are kept in memory; the others are read and planned again for each pass. The sources of one have 512 KiB at
// most, its plan some 16 MiB.
const (
	maxPrograms     = 256
	maxProgramBytes = 32 << 20
)

// program is what a pass of a run needs besides its journal.
type program struct {
	bundle scripts.Bundle
	inputs scripts.Inputs
	bound  writ.Digest   // of the plan that the run is bound to, zero if it is bound to none
	plan   *scripts.Plan // that plan, once it was made
	size   int           // in memory, about, in bytes
}

// bind returns the program with the plan that it was bound to: of that, what a run is held to.
func (p *program) bind(plan *scripts.Plan) *program {
	const inMemory, call = 4, 300 // how much more than its encoding a value takes, and a call without arguments
	bound := *p
	bound.plan = &scripts.Plan{Digest: plan.Digest, Calls: plan.Calls, Horizon: plan.Horizon}
	for i := range plan.Calls {
		bound.size += call + inMemory*(sizeOf(plan.Calls[i].Args)+sizeOf(plan.Calls[i].Options))
	}
	return &bound
}

// programs keeps the programs of active runs.
type programs struct {
	mu    sync.Mutex
	kept  map[writ.RunID]*program
	bytes int // of kept
}

func newPrograms() *programs { return &programs{kept: make(map[writ.RunID]*program)} }

func (p *programs) get(id writ.RunID) *program {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kept[id]
}

func (p *programs) put(id writ.RunID, program *program) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(id)
	for other := range p.kept { // any will do: it is read again when it is needed
		if len(p.kept) < maxPrograms && p.bytes+program.size <= maxProgramBytes {
			break
		}
		p.drop(other)
	}
	p.kept[id] = program
	p.bytes += program.size
}

func (p *programs) forget(id writ.RunID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(id)
}

// drop forgets a program. The caller holds the lock.
func (p *programs) drop(id writ.RunID) {
	if have := p.kept[id]; have != nil {
		p.bytes -= have.size
		delete(p.kept, id)
	}
}

// program returns bundle and inputs of a run, from its signed payload.
func (s *Supervisor) program(ctx context.Context, run *journal.Run) (*program, error) {
	if p := s.programs.get(run.ID); p != nil {
		return p, nil
	}
	_, signed, err := s.submission(ctx, run.ID)
	if err == nil {
		err = s.reverify(ctx, run, signed)
	}
	if err != nil {
		return nil, err
	}
	submitted, err := identity.ReadSubmission(signed)
	if err != nil {
		return nil, fmt.Errorf("read the payload of run %s: %w", run.ID, err)
	}
	p := programOf(run, submitted.Payload)
	s.programs.put(run.ID, p)
	return p, nil
}

// programOf returns the program of a run.
func programOf(run *journal.Run, payload *identity.Payload) *program {
	p := &program{
		bundle: bundleOf(payload),
		bound:  payload.Plan,
		inputs: scripts.Inputs{
			Params: payload.Params, Run: run.ID, Project: run.ProjectName, Datacenter: run.Datacenter,
			DatacenterName: run.DatacenterName, Allow: payload.Allow, MaxCalls: payload.MaxCalls,
			Secrets: payload.Secrets,
		},
		size: len(payload.Script.Text),
	}
	for _, m := range payload.Modules {
		p.size += len(m.Text)
	}
	return p
}

// runPrograms implements Programs.
type runPrograms struct{ s *Supervisor }

// MayAct implements Programs.
func (r runPrograms) MayAct(ctx context.Context, run *journal.Run) (*mail.Stop, error) {
	return r.s.mayAct(ctx, run)
}

// Pass implements Programs.
func (r runPrograms) Pass(ctx context.Context, run *journal.Run, calls []scripts.Entry, logged int) (scripts.Outcome, error) {
	p, err := r.s.program(ctx, run)
	if err != nil {
		return scripts.Outcome{}, err
	}
	began := time.Now()
	outcome, err := r.s.pass(ctx, p, calls, logged)
	r.s.counts.notePass(ctx, time.Since(began), err)
	return outcome, err
}

// pass evaluates a run. One that is bound to a plan does what is planned, or fails: before its first call if the plan that was signed is
// not the one that is made here, else before the first call that was not planned. The plan is made again after a restart, by the engine
// that was signed. The outcome has the lines of the log beyond those that are journaled.
func (s *Supervisor) pass(ctx context.Context, p *program, journaled []scripts.Entry, logged int) (scripts.Outcome, error) {
	inputs := p.inputs
	inputs.Logged = logged
	if p.bound.IsZero() {
		return s.Evaluator.Pass(ctx, p.bundle, inputs, journaled)
	}
	if p.plan == nil {
		plan, err := s.Evaluator.Plan(ctx, p.bundle, p.inputs)
		if err != nil {
			return scripts.Outcome{}, err
		}
		p = p.bind(&plan)
		s.programs.put(p.inputs.Run, p)
	}
	if p.plan.Digest != p.bound {
		err := writ.Errorf(writ.CodePlanMismatch, "the run is bound to the plan %s, but its script is planned here as %s", p.bound, p.plan.Digest).
			WithHint("plan it again with `writ plan`, and sign that plan")
		return scripts.Outcome{Status: scripts.Failed, Failure: &writ.Failure{Error: *err}}, nil
	}
	outcome, err := s.Evaluator.Pass(ctx, p.bundle, inputs, journaled)
	if err != nil {
		return scripts.Outcome{}, err
	}
	return p.plan.Follow(outcome, len(journaled)), nil
}

// payload returns a submission as it was signed.
func (s *Supervisor) payload(ctx context.Context, digest writ.Digest) ([]byte, error) {
	run, signed, err := s.submission(ctx, writ.RunIDOf(digest))
	if err == nil && run == nil {
		err = writ.Errorf(writ.CodeNotFound, "there is no payload %s in this datacenter", digest)
	}
	if err == nil {
		err = s.reverify(ctx, run, signed)
	}
	if err != nil {
		return nil, err
	}
	return signed, nil
}
