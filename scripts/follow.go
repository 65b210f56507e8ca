package scripts

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"writ"
	"writ/sal/catalog"
	"writ/scripts/operation"
)

// Follow checks the outcome of a pass against the plan that its run is bound to. `made` is the number of earlier calls
// of the run. At the first new call that differs from its planned call, Follow drops it and all later calls, and the
// run fails with CodePlanDeviated at its position. A script that ends without some planned calls deviates, too. Calls
// after the horizon of the plan are not checked.
func (p *Plan) Follow(o Outcome, made int) Outcome {
	for i, c := range o.Calls {
		if why := p.refuse(&c); why != "" {
			return deviated(o, o.Calls[:i], c.Position, why)
		}
	}
	made += len(o.Calls)
	if o.Status == Completed && made < len(p.Calls) {
		next := p.Calls[made]
		return deviated(o, o.Calls, next.Position,
			fmt.Sprintf("the script ended after %d calls; call %d of the plan is %s", made, next.Seq, p.title(&next)))
	}
	return o
}

func deviated(o Outcome, calls []NewCall, position, why string) Outcome {
	err := writ.Errorf(writ.CodePlanDeviated, "%s", Printable(why)).
		WithHint("plan the script again, and review the changes before you sign")
	return Outcome{
		Status: Failed, Calls: calls, Logs: o.Logs, Handled: o.Handled,
		Failure: &writ.Failure{Error: *err, Position: position},
	}
}

// refuse returns why a call differs from its planned call, or "" if it does not differ.
func (p *Plan) refuse(c *NewCall) string {
	if c.Seq > len(p.Calls) {
		if p.Horizon != nil {
			return ""
		}
		return fmt.Sprintf("call %d is %s; the plan ends after %d calls", c.Seq, titleOf(c.Operation, c.Name), len(p.Calls))
	}
	planned := &p.Calls[c.Seq-1]
	if planned.Hash == c.Hash {
		return ""
	}
	if planned.Operation != c.Operation || !fits(planned.Name, orNil(c.Name)) {
		return fmt.Sprintf("call %d is %s; the plan has %s", c.Seq, titleOf(c.Operation, c.Name), p.title(planned))
	}
	what := fmt.Sprintf("call %d, %s", c.Seq, titleOf(c.Operation, c.Name))
	for _, field := range slices.Sorted(maps.Keys(merged(planned.Args, c.Args))) {
		if !fits(planned.Args[field], c.Args[field]) {
			return fmt.Sprintf("%s, has %s %s; the plan has %s", what, field, p.describe(c.Args[field]),
				p.describe(planned.Args[field]))
		}
	}
	switch {
	case !fitOptions(planned.Options, c.Options):
		return what + ", has other options than planned"
	case !planned.Hash.IsZero(): // the whole call was known
		return what + ", is written differently than planned"
	default:
		return ""
	}
}

// title names a planned call: "machine.create web-0".
func (p *Plan) title(c *PlannedCall) string {
	if c.Name == nil {
		return c.Operation
	}
	return c.Operation + " " + p.Describe(c.Name)
}

func titleOf(operation, name string) string {
	if name == "" {
		return operation
	}
	return operation + " " + name
}

func orNil(name string) any {
	if name == "" {
		return nil
	}
	return name
}

func merged(a, b map[string]any) map[string]any {
	both := maps.Clone(b)
	if both == nil {
		both = make(map[string]any)
	}
	maps.Copy(both, a)
	return both
}

// fits reports whether v agrees with all known parts of a planned value.
func fits(planned, v any) bool {
	if _, unknown := KnownAfter(planned); unknown {
		return true
	}
	switch planned := planned.(type) {
	case []any:
		list, ok := v.([]any)
		return ok && slices.EqualFunc(planned, list, fits)
	case map[string]any:
		m, ok := v.(map[string]any)
		if !ok {
			return false
		}
		for key := range merged(planned, m) {
			if !fits(planned[key], m[key]) {
				return false
			}
		}
		return true
	default:
		return reflect.DeepEqual(planned, v)
	}
}

// fitOptions reports whether the options of a call agree with all known parts of planned options.
func fitOptions(planned map[string]any, got writ.CallOptions) bool {
	known := make(map[string]any, len(planned))
	got.Labels = maps.Clone(got.Labels)
	for name, v := range planned {
		known[name] = v
		if _, unknown := KnownAfter(v); unknown {
			known[name] = catalog.Unknown{}
			resetOption(&got, name)
			continue
		}
		labels, ok := v.(map[string]any)
		if !ok {
			continue
		}
		labels = maps.Clone(labels)
		for key, v := range labels {
			if _, unknown := KnownAfter(v); unknown {
				delete(labels, key)
				delete(got.Labels, key)
			}
		}
		known[name] = labels
	}
	want, problems := operation.ParseOptions(known, nil)
	if len(want.Labels) == 0 && len(got.Labels) == 0 {
		want.Labels, got.Labels = nil, nil
	}
	return len(problems) == 0 && reflect.DeepEqual(want, got)
}

// resetOption sets an option to the result of operation.ParseOptions for an unknown value.
func resetOption(o *writ.CallOptions, name string) {
	switch name {
	case "retries":
		o.Retries = nil
	case "timeout":
		o.Timeout = 0
	case "on_loss":
		o.OnLoss = ""
	case "node":
		o.Node = ""
	case "labels":
		o.Labels = nil
	case "idempotent":
		o.Idempotent = false
	case "adopt":
		o.Adopt = false
	}
}
