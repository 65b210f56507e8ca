package scripts

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"

	"writ"
)

// planning is what a pass keeps besides if it makes a plan.
type planning struct {
	given map[int]map[string]any // results that are known all the same, by seq
	calls []PlannedCall
	asked []writ.Digest // of each call: SHA-256 of what it asks for, with the places of what is not known
	read  map[int]bool  // calls whose results were read
	waits []int         // those of them since the last call
	born  bool          // there are values that are not known
	work  int           // that is left for following values that are not known
}

// PlanOf makes the plan of a script: see Plan. Inputs are those that the run will have; its id is not looked at. A script that does not
// compile is the plan's failure. The error is only that of ctx; then there is no plan.
func PlanOf(ctx context.Context, bundle Bundle, inputs Inputs) (Plan, error) {
	return Foresee(ctx, bundle, inputs, nil)
}

// Foresee is PlanOf where the results of some calls are given, by seq: of those that will find things as they are. It sees further than
// the plan, but only as far as that holds; its digest is not that of the plan, and no run can be held to it.
func Foresee(ctx context.Context, bundle Bundle, inputs Inputs, given map[int]map[string]any) (Plan, error) {
	a := analyse(bundle)
	var program *Program
	err := a.err()
	if err == nil {
		program, err = a.compile(true)
	}
	if err != nil {
		if _, err := Compile(bundle); err != nil {
			return newPlanning().plan(nil, failure(err)), nil
		}
		// What a plan adds to a program does not fit behind all that is there.
		return newPlanning().plan(&Horizon{Position: bundle.Main.Name + ":1:1", Reason: "the script is too big to be planned"}, nil), nil
	}
	run := &pass{inputs: inputs, fuel: MaxFuel, plan: newPlanning()}
	run.plan.given = given
	err = run.evaluate(ctx, program)
	if ctx.Err() != nil {
		return Plan{}, context.Cause(ctx)
	}
	return run.planned(err), nil
}

func newPlanning() *planning { return &planning{work: MaxFuel, read: make(map[int]bool)} }

// planned says how the plan ended.
func (p *pass) planned(err error) Plan {
	end, failed := p.plan.end(err)
	plan := p.plan.plan(end, failed)
	plan.Logs = p.logs
	if plan.Failure == nil {
		plan.Output = marked(p.output)
	}
	return plan
}

// plan puts a plan together.
func (p *planning) plan(end *Horizon, failed *writ.Failure) Plan {
	h := sha256.New()
	h.Write([]byte("writ-plan-v1\x00"))
	complete := byte(1)
	if end != nil {
		complete = 0
	}
	h.Write([]byte{complete})
	for _, asked := range p.asked {
		h.Write(asked[:])
	}
	return Plan{Digest: writ.Digest(h.Sum(nil)), Calls: p.calls, Horizon: end, Failure: failed}
}

// end tells where the plan ends from how the script did. What is counted is counted with stand-ins for values that are not known, and a
// plan needs more of the VM's stack than a pass; so reaching such a bound does not say that the run fails.
func (p *planning) end(err error) (*Horizon, *writ.Failure) {
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
		return &Horizon{Position: authored(trace), Reason: p.reason(beyond), After: beyond.after}, nil
	case isCrash, p.born && countedWithStandIns(cause):
	default:
		return nil, failure(err)
	}
	return &Horizon{Position: authored(trace), Reason: "it cannot be followed further: " + cause.Error()}, nil
}

var errPlanWork = writ.Errorf(writ.CodeScriptLimit, "too much in it depends on values that are not known")

func countedWithStandIns(err error) bool {
	return slices.ContainsFunc([]error{errPlanWork, errFuel, errArguments, errJournal, errOutput}, func(limit error) bool { return err == limit })
}

// authored is the innermost position that the author wrote.
func authored(trace []string) string {
	for _, at := range trace {
		if !strings.HasPrefix(at, "enum:") {
			return at
		}
	}
	return ""
}

// spend takes from the work that a plan has for following values. It is not fuel: a pass does not have to do it.
func (p *planning) spend(n int) error {
	if p.work -= n; p.work < 0 {
		return errPlanWork
	}
	return nil
}

// reads notes that the script reads the result of a call: its run waits there.
func (p *planning) reads(seq int) {
	if !p.read[seq] {
		p.read[seq] = true
		p.waits = append(p.waits, seq)
	}
}

// unknown makes a value that is known after some calls.
func (p *planning) unknown(after []int) *unknown {
	p.born = true
	return &unknown{after: after}
}

// add takes a call into the plan.
func (p *planning) add(r *request, asked writ.Digest, call *NewCall) {
	slices.Sort(p.waits)
	planned := PlannedCall{Seq: call.Seq, Operation: call.Operation, After: call.After, Waits: p.waits, Position: call.Position}
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
	p.calls, p.asked = append(p.calls, planned), append(p.asked, asked)
}

// marked returns values with what is not known as KnownAfter reads it, nil if there are none.
func marked(values map[string]any) map[string]any {
	if len(values) == 0 {
		return nil
	}
	m, _ := replaceUnknown(values, (*unknown).value).(map[string]any)
	return m
}

// reason is a sentence on why the plan ends.
func (p *planning) reason(h *horizon) string {
	if len(h.after) == 0 {
		return h.what + " depends on the run's id"
	}
	return h.what + " depends on " + names(p.calls, h.after)
}
