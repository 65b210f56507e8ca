// Package operation reads the form of a call: the arguments of an operation and the options of a call. It contains only
// data and rules, and depends neither on the values of the interpreter nor on the journal.
package operation

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"writ"
	"writ/sal/catalog"
)

// OptionText describes an invalid option.
func OptionText(p catalog.Problem) string {
	if p.Reason == catalog.UnknownField {
		p.Message = fmt.Sprintf("unknown option %q", p.Path[0])
	}
	return p.String()
}

// durationForm describes a duration in a script.
const durationForm = `a duration such as "30s", "5m" or "2h", at most "168h"`

// OptionSchema describes the options of a call.
var OptionSchema = catalog.Schema{
	{Name: "retries", Type: catalog.Int, Min: new(int64(0)), Max: new(int64(100)),
		Help: "the number of retries after a temporary error; 5 by default"},
	{Name: "timeout", Type: catalog.String, Form: durationForm,
		Help: "the maximum duration of one attempt; the default depends on the operation, and " +
			"is longer with a long grace_seconds"},
	{Name: "on_loss", Type: catalog.String, Enum: []string{"fail", "wait", OnLossReplace},
		Help: "the reaction to the loss of a node that may have started the call: fail, wait for the node, or replace it. With replace the call " +
			"waits until a person signs that the node is lost, and then moves to another node. A call that never started moves to another node, or waits if it needs the lost node"},
	{Name: "node", Type: catalog.String, Min: new(int64(1)),
		Help: "the name or id of the node for the call"},
	{Name: "labels", Type: catalog.Map, Max: new(int64(writ.MaxLabels)),
		Key:  &catalog.Field{Type: catalog.String, Min: new(int64(1)), Max: new(int64(63))},
		Elem: &catalog.Field{Type: catalog.String, Max: new(int64(63))},
		Help: "labels that the node must have"},
	{Name: "idempotent", Type: catalog.Bool,
		Help: "repeating the operation is harmless, so it may be repeated if its outcome is unknown"},
	{Name: "adopt", Type: catalog.Bool,
		Help: "take the resource over if another deployment of the project owns it"},
}

// MaxTimeout limits the option timeout. A run cannot last longer, see docs/trust.md.
const MaxTimeout = 7 * 24 * time.Hour

// PlannedOptions reads the options of a planned call. Values that are catalog.Unknown are skipped.
func PlannedOptions(given map[string]any) (writ.CallOptions, error) {
	options, problems := ParseOptions(given, nil)
	if len(problems) > 0 {
		return options, writ.Errorf(writ.CodeArgumentsInvalid, "%s", OptionText(problems[0]))
	}
	return options, nil
}

// OnLossReplace is the value of the option on_loss that repeats a call on another node, once a person has signed that
// its node is lost.
const OnLossReplace = "replace"

// Options reads the options of a call like ParseOptions, and also reports options that make no sense for its operation.
func Options(
	op *catalog.Operation, given map[string]any, isHandle catalog.IsHandle,
) (writ.CallOptions, []catalog.Problem) {
	o, problems := ParseOptions(given, isHandle)
	if why := Irreplaceable(op, o); len(problems) == 0 && o.OnLoss == OnLossReplace && why != "" {
		problems = []catalog.Problem{{Path: catalog.Path{"on_loss"}, Reason: catalog.WrongValue,
			Message: fmt.Sprintf("on_loss cannot be %q: %s", OnLossReplace, why)}}
	}
	return o, problems
}

// Irreplaceable returns why another node cannot make a call after the loss of its node, or "" if it can.
func Irreplaceable(op *catalog.Operation, o writ.CallOptions) string {
	switch {
	case op.Effect == catalog.Find:
		return op.Name() + " runs on the supervisor, not on a node"
	case op.Repeat != catalog.Safe && !o.Idempotent:
		return op.Name() + " must not run twice, and the lost node may have run it"
	case op.Named() && !op.Makes && op.Effect != catalog.Remove:
		return op.Name() + " acts on data of its node, which is lost with it"
	case o.Node != "":
		return "the call asks for the node " + o.Node + ", so no other node can run it"
	}
	return ""
}

// ShortTimeout reports a timeout that would end a call before the wait that its arguments request.
func ShortTimeout(op *catalog.Operation, args map[string]any, o writ.CallOptions) []catalog.Problem {
	timeout := time.Duration(o.Timeout) * time.Millisecond
	name, wait := op.LongestWait(args)
	if timeout == 0 || wait < timeout {
		return nil
	}
	return []catalog.Problem{{Path: catalog.Path{"timeout"}, Reason: catalog.WrongValue,
		Message: fmt.Sprintf("timeout must be longer than %s: after %v the call ends before its wait of %v",
			name, timeout, wait)}}
}

// ParseOptions reads the options of a call. Values that are catalog.Unknown are skipped.
func ParseOptions(given map[string]any, isHandle catalog.IsHandle) (writ.CallOptions, []catalog.Problem) {
	var o writ.CallOptions
	problems := OptionSchema.Check(given, isHandle)
	if len(problems) == 0 {
		problems = impossibleNodes(given)
	}
	if len(problems) > 0 {
		return o, problems
	}
	if n, ok := given["retries"].(int64); ok {
		retries := int(n)
		o.Retries = &retries
	}
	if text, ok := given["timeout"].(string); ok {
		d, err := time.ParseDuration(text)
		if err != nil || d < time.Millisecond || d > MaxTimeout {
			return o, []catalog.Problem{{Path: catalog.Path{"timeout"}, Reason: catalog.WrongValue,
				Message: fmt.Sprintf("timeout must be %s; got %q", durationForm, text)}}
		}
		o.Timeout = d.Milliseconds()
	}
	o.OnLoss, _ = given["on_loss"].(string)
	o.Node, _ = given["node"].(string)
	o.Idempotent, _ = given["idempotent"].(bool)
	o.Adopt, _ = given["adopt"].(bool)
	if labels, ok := given["labels"].(map[string]any); ok {
		o.Labels = make(map[string]string, len(labels))
		for key, v := range labels {
			o.Labels[key], _ = v.(string)
		}
	}
	return o, nil
}

// impossibleNodes returns the options of a call that no node can match. The call would wait forever.
func impossibleNodes(options map[string]any) (problems []catalog.Problem) {
	add := func(at catalog.Path, format string, args ...any) {
		problems = append(problems,
			catalog.Problem{Path: at, Reason: catalog.WrongValue, Message: fmt.Sprintf(format, args...)})
	}
	if node, ok := options["node"].(string); ok && !writ.ValidName(node) && !writ.ValidUUID(node) {
		add(catalog.Path{"node"}, "node must be the name or id of a node such as \"n1\", not %q", node)
	}
	labels, _ := options["labels"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		value, known := labels[name].(string)
		if at := (catalog.Path{"labels", name}); !writ.ValidName(name) {
			add(at, "%s must be a valid label name, such as disk or rack-2: lower-case letters, digits and hyphens", at)
		} else if known && !writ.ValidLabel(name, value) {
			add(at, "%s must be a valid label value, such as ssd or rack/a1: letters, digits and . _ / -, not %q", at, value)
		}
	}
	return problems
}
