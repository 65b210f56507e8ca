package interpreter

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"

	"writ"
	"writ/scripts"
	"writ/scripts/syntax"
)

// planning is the additional state of a pass that makes a plan.
type planning struct {
	given      map[int]map[string]any // results that are known in advance, by sequence number
	calls      []scripts.PlannedCall
	requests   []writ.Digest // for each call the SHA-256 of its request, including the places of unknown values
	read       map[int]bool  // calls whose results were read
	waits      []int         // calls whose results were first read since the last call
	hasUnknown bool          // unknown values exist
	work       int           // remaining work for tracing unknown values
}

// PlanOf returns the plan of a script: see scripts.Plan. Inputs must equal the inputs of the run, except its id, which
// is ignored. If the script does not compile, the plan has the failure. The only error is the cause of a cancelled ctx;
// the plan is then empty.
func PlanOf(ctx context.Context, bundle scripts.Bundle, inputs scripts.Inputs) (scripts.Plan, error) {
	return Foresee(ctx, bundle, inputs, nil)
}

// Foresee returns a plan like PlanOf, but with the given results of some calls, by sequence number: calls whose
// resources already exist. It may cover more of the script than the plan, but is valid only for these results. Its
// digest differs from the digest of the plan, and no run can be bound to it.
func Foresee(
	ctx context.Context, bundle scripts.Bundle, inputs scripts.Inputs, given map[int]map[string]any,
) (scripts.Plan, error) {
	a := syntax.Analyse(bundle)
	var program *Program
	err := a.Err()
	if err == nil {
		program, err = Build(a, true)
	}
	if err != nil {
		if _, err := Compile(bundle); err != nil {
			return newPlanning().plan(nil, failure(err)), nil
		}
		// The program is within all limits, but exceeds one with the additions for a plan.
		return newPlanning().plan(&scripts.Horizon{
			Position: bundle.Main.Name + ":1:1", Reason: "the script is too big to be planned",
		}, nil), nil
	}
	run := &pass{
		inputs: inputs, meter: newMeter(), plan: newPlanning(), images: signedImages{named: inputs.Images},
	}
	run.plan.given = given
	err = run.evaluate(ctx, program)
	if ctx.Err() != nil {
		return scripts.Plan{}, context.Cause(ctx)
	}
	return run.planned(err), nil
}

func newPlanning() *planning { return &planning{work: scripts.MaxFuel, read: make(map[int]bool)} }

// planned returns the plan of a pass that ended with err.
func (p *pass) planned(err error) scripts.Plan {
	end, failed := p.plan.end(err)
	if end != nil && p.pruning {
		end.Position = scripts.PrunePosition
	}
	plan := p.plan.plan(end, failed)
	plan.Logs = p.logs
	if plan.Failure == nil {
		plan.Output = marked(p.output)
	}
	return plan
}

// plan assembles the plan.
func (p *planning) plan(end *scripts.Horizon, failed *writ.Failure) scripts.Plan {
	h := sha256.New()
	h.Write([]byte("writ-plan-v1\x00"))
	complete := byte(1)
	if end != nil {
		complete = 0
	}
	h.Write([]byte{complete})
	for _, asked := range p.requests {
		h.Write(asked[:])
	}
	return scripts.Plan{
		Digest: writ.Digest(h.Sum(nil)), Calls: p.calls, Waits: p.waits, Horizon: end, Failure: failed,
	}
}

// end converts the error of an evaluation to the end of the plan. Some limits are counted with placeholders for unknown
// values, and a plan needs more of the VM's stack than a pass. Reaching such a limit does not imply that the run fails.
func (p *planning) end(err error) (*scripts.Horizon, *writ.Failure) {
	if err == nil {
		return nil, nil
	}
	trace, cause := unwind(err)
	crashed, isCrash := errors.AsType[*crash](err)
	if isCrash {
		if beyond, ok := crashed.cause.(*horizon); ok {
			cause = beyond
		}
	}
	beyond, isHorizon := cause.(*horizon)
	switch {
	case isHorizon:
		return &scripts.Horizon{Position: authorPosition(trace), Reason: p.reason(beyond), After: beyond.after}, nil
	case isCrash, p.hasUnknown && countedWithStandIns(cause):
	default:
		return nil, failure(err)
	}
	return &scripts.Horizon{Position: authorPosition(trace), Reason: "the plan cannot continue: " + cause.Error()}, nil
}

var errPlanWork = writ.Errorf(writ.CodeScriptLimit, "too many values depend on unknown values")

func countedWithStandIns(err error) bool {
	return slices.ContainsFunc([]error{errPlanWork, errFuel, errArguments, errJournal, errOutput},
		func(limit error) bool { return err == limit })
}

// authorPosition returns the innermost position in a source of the author.
func authorPosition(trace []string) string {
	for _, at := range trace {
		if !strings.HasPrefix(at, "enum:") {
			return at
		}
	}
	return ""
}

// spend uses n units of the work for tracing unknown values. It is not fuel, because a pass does not need it.
func (p *planning) spend(n int) error {
	if p.work -= n; p.work < 0 {
		return errPlanWork
	}
	return nil
}

// reads records that the script reads the result of a call; a run waits at this place.
func (p *planning) reads(seq int) {
	if !p.read[seq] {
		p.read[seq] = true
		p.waits = append(p.waits, seq)
	}
}

// unknown returns a value that is known after some calls.
func (p *planning) unknown(after []int) *unknown {
	p.hasUnknown = true
	return &unknown{after: after}
}

// add appends a call to the plan.
func (p *planning) add(r *request, asked writ.Digest, call *scripts.NewCall) {
	slices.Sort(p.waits)
	planned := scripts.PlannedCall{
		Seq: call.Seq, Operation: call.Operation, After: call.After, Waits: p.waits, Position: call.Position,
	}
	p.waits = nil
	if !r.unknown {
		planned.Hash = asked
	}
	switch u := r.later(); {
	case u != nil:
		planned.Name = u.value()
	case call.Name != "":
		planned.Name = call.Name
	}
	planned.Args = marked(call.Args)
	if r.options != nil {
		options, _ := valueOf(r.options).(map[string]any)
		planned.Options = marked(options)
	}
	p.calls, p.requests = append(p.calls, planned), append(p.requests, asked)
}

// marked returns values with unknown parts in the encoding of KnownAfter, or nil if values is empty.
func marked(values map[string]any) map[string]any {
	if len(values) == 0 {
		return nil
	}
	m, _ := replaceUnknown(values, (*unknown).value).(map[string]any)
	return m
}

// reason describes why the plan ends.
func (p *planning) reason(h *horizon) string {
	if len(h.after) == 0 {
		return h.what + " depends on the run's id"
	}
	return h.what + " depends on " + scripts.CallNames(p.calls, h.after)
}
