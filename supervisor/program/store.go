// Package program handles the signed submissions of runs. It verifies each submission that the journal returns, keeps
// the programs of active runs in memory and evaluates them. The journal may be a database on another machine: its
// content is trusted only with a person's valid signature. The package must not depend on the code that advances runs.
package program

import (
	"context"
	"fmt"
	"sync"
	"time"

	"writ"
	"writ/identity"
	"writ/scripts"
	"writ/supervisor/bound"
	"writ/supervisor/journal"
)

// maxProgramBytes limits the programs in memory. Other programs are read and planned again for each pass. The sources of
// a program have up to 512 KiB, its plan about 16 MiB. A program without parameters needs about 1 KiB.
const maxProgramBytes = 16 << 20

// Estimates of the memory of a program.
const (
	inMemory  = 4       // factor of a value's size in memory to its encoding
	fixedSize = 1 << 10 // bytes without values
	nameSize  = 64      // bytes of a name
)

// program is the input of a pass that does not change during a run.
type program struct {
	bundle scripts.Bundle
	inputs scripts.Inputs
	bound  writ.Digest   // digest of the signed plan, zero without one
	plan   *scripts.Plan // the plan as computed here, to compare with bound; nil until computed
	size   int           // approximate size in memory without the bundle, in bytes
	round  int           // round of the cache at the last use of the program
}

// bind returns a copy of the program with its plan. Parts of the plan that do not bind the run are left out.
func (p *program) bind(plan *scripts.Plan) *program {
	const call = 300 // bytes of a call without arguments
	planned := *p
	planned.plan = &scripts.Plan{Digest: plan.Digest, Calls: plan.Calls, Horizon: plan.Horizon}
	for i := range plan.Calls {
		planned.size += call + inMemory*(bound.Size(plan.Calls[i].Args)+bound.Size(plan.Calls[i].Options))
	}
	return &planned
}

// cache keeps programs of active runs, up to maxProgramBytes. Runs of one script share its sources.
type cache struct {
	mu      sync.Mutex
	kept    map[writ.RunID]*program
	bundles map[writ.Digest]*sharedBundle
	bytes   int // of kept and bundles
	round   int // number of calls of trim
}

// sharedBundle is the sources of programs.
type sharedBundle struct {
	scripts.Bundle
	size, users int
}

func newCache() *cache {
	return &cache{kept: make(map[writ.RunID]*program), bundles: make(map[writ.Digest]*sharedBundle)}
}

func (p *cache) get(id writ.RunID) *program {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := p.kept[id]
	if found != nil {
		found.round = p.round
	}
	return found
}

// trim removes the programs that were not used since the last call of trim.
func (p *cache) trim() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, program := range p.kept {
		if program.round < p.round {
			p.drop(id)
		}
	}
	p.round++
}

// put adds a program. It changes the program, so no other goroutine may use the program before the call.
func (p *cache) put(id writ.RunID, program *program) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(id)
	digest := program.bundle.Digest()
	shared := p.bundles[digest]
	if shared == nil {
		shared = &sharedBundle{Bundle: program.bundle, size: sizeOf(program.bundle)}
		p.bundles[digest] = shared
		p.bytes += shared.size
	}
	program.bundle = shared.Bundle
	shared.users++
	program.round = p.round
	p.kept[id] = program
	p.bytes += program.size
	for other := range p.kept { // drop any other program; it can be read again
		if p.bytes <= maxProgramBytes {
			break
		}
		if other != id {
			p.drop(other)
		}
	}
}

// sizeOf returns the size of the sources of a bundle, in bytes.
func sizeOf(b scripts.Bundle) int {
	size := len(b.Main.Text)
	for _, m := range b.Modules {
		size += len(m.Text)
	}
	return size
}

func (p *cache) forget(id writ.RunID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(id)
}

// drop removes a program. The caller holds the lock.
func (p *cache) drop(id writ.RunID) {
	have := p.kept[id]
	if have == nil {
		return
	}
	p.bytes -= have.size
	delete(p.kept, id)
	digest := have.bundle.Digest()
	if shared := p.bundles[digest]; shared.users > 1 {
		shared.users--
	} else {
		p.bytes -= shared.size
		delete(p.bundles, digest)
	}
}

// program returns the program of a run, from its signed payload.
func (s *Store) program(ctx context.Context, run *journal.Run) (*program, error) {
	if p := s.kept.get(run.ID); p != nil {
		return p, nil
	}
	_, signed, err := s.Submission(ctx, run.ID)
	if err == nil {
		err = s.Verify(ctx, run, signed)
	}
	if err != nil {
		return nil, err
	}
	submitted, err := identity.ReadSubmission(signed)
	if err != nil {
		return nil, fmt.Errorf("read the payload of run %s: %w", run.ID, err)
	}
	p := programOf(run, submitted.Payload, BundleOf(submitted.Payload))
	s.kept.put(run.ID, p)
	return p, nil
}

// programOf returns the program of a run, given the sources of its payload.
func programOf(run *journal.Run, payload *identity.Payload, bundle scripts.Bundle) *program {
	return &program{
		bundle: bundle,
		bound:  payload.Plan,
		inputs: scripts.Inputs{
			Params: payload.Params, Run: run.ID, Project: run.ProjectName, Datacenter: run.Datacenter,
			DatacenterName: run.DatacenterName, Allow: payload.Allow, MaxCalls: payload.MaxCalls,
			Secrets: payload.Secrets, Images: payload.Images, Prune: payload.Prune,
		},
		size: fixedSize + inMemory*bound.Size(payload.Params) + nameSize*len(payload.Prune),
	}
}

// Pass evaluates the script of a run, given its calls.
func (s *Store) Pass(
	ctx context.Context, run *journal.Run, calls []scripts.Entry, past scripts.Past,
) (scripts.Outcome, error) {
	p, err := s.program(ctx, run)
	if err != nil {
		return scripts.Outcome{}, err
	}
	began := time.Now()
	inputs := p.inputs
	inputs.Logged, inputs.Past = run.Logs, past
	outcome, err := s.pass(ctx, p, inputs, calls)
	s.passes.record(ctx, time.Since(began), err)
	return outcome, err
}

// pass evaluates a script. If the run has a signed plan, pass also plans the script, unless the plan is in memory. The
// run fails before its first call if the two plans differ, and before any call that is not in the plan.
func (s *Store) pass(
	ctx context.Context, p *program, inputs scripts.Inputs, journaled []scripts.Entry,
) (scripts.Outcome, error) {
	if p.bound.IsZero() {
		return s.Evaluator.Pass(ctx, p.bundle, inputs, journaled)
	}
	if p.plan == nil {
		plan, err := s.Evaluator.Plan(ctx, p.bundle, p.inputs)
		if err != nil {
			return scripts.Outcome{}, err
		}
		p = p.bind(&plan)
		s.kept.put(p.inputs.Run, p)
	}
	if p.plan.Digest != p.bound {
		err := writ.Errorf(writ.CodePlanMismatch, "the run is bound to the plan %s, but its script is planned here as %s",
			p.bound, p.plan.Digest).
			WithHint("plan it again with `writ plan`, and sign that plan")
		return scripts.Outcome{Status: scripts.Failed, Failure: &writ.Failure{Error: *err}}, nil
	}
	outcome, err := s.Evaluator.Pass(ctx, p.bundle, inputs, journaled)
	if err != nil {
		return scripts.Outcome{}, err
	}
	return p.plan.Follow(outcome, inputs.First+len(journaled)), nil
}

// Payload returns the submission of an open run with its signature. For an ended run it returns RUN_CANCELLED. An
// attacker with access to Redis may have copied a job of the run before the job was withdrawn.
func (s *Store) Payload(ctx context.Context, digest writ.Digest) ([]byte, error) {
	run, signed, err := s.Submission(ctx, writ.RunIDOf(digest))
	switch {
	case err != nil:
		return nil, err
	case run == nil:
		return nil, writ.Errorf(writ.CodeNotFound, "the payload %s is unknown in this datacenter", digest)
	case run.State.Ended():
		return nil, writ.Errorf(writ.CodeRunCancelled, "the run %s has ended (%s), so none of its jobs may start", run.ID,
			run.State)
	}
	if err := s.Verify(ctx, run, signed); err != nil {
		return nil, err
	}
	return signed, nil
}

// Accepted caches the program of a new run, so that the first step does not read it again. The bundle is BundleOf(p).
func (s *Store) Accepted(run *journal.Run, p *identity.Payload, bundle scripts.Bundle, signed []byte) {
	s.kept.put(run.ID, programOf(run, p, bundle))
	s.verified.put(run.ID, reverifiedRun{SignedDigestOf(run.Payload, signed), int32(run.Roster)})
}

// IsAccepted reports whether the signed text with this digest is the verified submission of a run that is in memory.
func (s *Store) IsAccepted(run writ.RunID, signed ShortDigest) bool {
	return s.verified.get(run).signed == signed
}

// Trim removes from memory the programs that were not used since the last call of Trim.
func (s *Store) Trim() { s.kept.trim() }

// Forget removes from memory a run that has ended.
func (s *Store) Forget(run writ.RunID) {
	s.kept.forget(run)
	s.verified.forget(run)
}

// BundleOf returns the sources of a payload, with their digest.
func BundleOf(p *identity.Payload) scripts.Bundle {
	b := scripts.Bundle{Main: scripts.Source{Name: p.Script.Name, Text: p.Script.Text}}
	for _, m := range p.Modules {
		b.Modules = append(b.Modules, scripts.Source{Name: m.Name, Text: m.Text})
	}
	return b.WithDigest()
}
