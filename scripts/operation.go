package scripts

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/d5/tengo/v2"

	"writ"
	"writ/sal/catalog"
)

// request is one call of an operation by the script.
type request struct {
	op      *catalog.Operation
	name    tengo.Object // a string, or a handle to the resource; nil if the operation has none
	spec    tengo.Object // nil if not given
	options tengo.Object
	unknown bool // a part of it is unknown, as found by encode
}

// newRequest assigns the arguments of an operation.
func newRequest(op *catalog.Operation, args []tengo.Object) (*request, error) {
	least, most := arity(op)
	if len(args) < least || len(args) > most {
		return nil, fmt.Errorf("%s takes %s, not %d arguments", op.Name(), argumentsOf(op), len(args))
	}
	r := &request{op: op}
	if op.Named() {
		r.name, args = args[0], args[1:]
	}
	for i, to := range []*tengo.Object{&r.spec, &r.options} {
		if i >= len(args) || args[i] == tengo.UndefinedValue {
			continue
		}
		if _, ok := pairsOf(args[i]); !ok {
			return nil, fmt.Errorf("%s takes %s; one of them is a %s", op.Name(), argumentsOf(op), args[i].TypeName())
		}
		*to = args[i]
	}
	return r, nil
}

// arity returns the minimum and maximum number of arguments of op.
func arity(op *catalog.Operation) (least, most int) {
	if op.Named() {
		least, most = 1, 1
	}
	switch {
	case op.Effect == catalog.Find:
		return least, most
	case slices.ContainsFunc(op.Args, func(f catalog.Field) bool { return f.Required }):
		least++
	}
	return least, most + 2
}

// argumentsOf describes the arguments of op, for errors.
func argumentsOf(op *catalog.Operation) string {
	if op.Effect == catalog.Find {
		if op.Named() {
			return "a name"
		}
		return "no arguments"
	}
	if op.Named() {
		return "a name, a spec and options"
	}
	return "a spec and options"
}

// encode appends CBOR [operation, name, spec, options] to buf, the input of the hash of a call. It contains everything
// that the script gave, and no defaults, which a later catalogue could change.
func (r *request) encode(p *pass, buf []byte) ([]byte, error) {
	e := encoder{pass: p, buf: buf}
	e.head(majorList, 4)
	e.text(r.op.Name())
	switch name := r.name.(type) {
	case nil:
		e.text("")
	case *tengo.String:
		if !utf8.ValidString(name.Value) {
			return nil, within("the name", errNotText)
		}
		e.text(name.Value)
	case *unknown:
		e.later(name)
	case *handle:
		if name.op.Kind != r.op.Kind {
			return nil, fmt.Errorf("%s takes the name of a %s or a handle to one, not %s", r.op.Name(), r.op.Kind, name)
		}
		e.reference(name)
	default:
		return nil, fmt.Errorf("%s takes the name of a %s or a handle to one, not a %s", r.op.Name(), r.op.Kind, name.TypeName())
	}
	for i, part := range []tengo.Object{r.spec, r.options} {
		if part == nil {
			e.head(majorMap, 0)
			continue
		}
		if err := e.object(part, 0); err != nil {
			return nil, within([...]string{"the spec", "the options"}[i], err)
		}
	}
	r.unknown = e.unknown
	if len(e.buf) > MaxArguments {
		return nil, errArguments
	}
	return e.buf, nil
}

// resource returns the name of the call's resource.
func (r *request) resource() string {
	switch name := r.name.(type) {
	case *tengo.String:
		return name.Value
	case *handle:
		return name.name
	default:
		return ""
	}
}

// later returns the name of the resource if a plan does not know it yet.
func (r *request) later() *unknown {
	switch name := r.name.(type) {
	case *unknown:
		return name
	case *handle:
		return name.later
	default:
		return nil
	}
}

// checkable returns values in the form that the catalogue can check.
func (r *request) checkable(values map[string]any) map[string]any {
	if !r.unknown {
		return values
	}
	checkable, _ := replaceUnknown(values, func(*unknown) any { return catalog.Unknown{} }).(map[string]any)
	return checkable
}

// newCall validates the request and returns the call for the journal.
func (r *request) newCall(seq int) (*NewCall, error) {
	call := &NewCall{Seq: seq, Operation: r.op.Name(), Name: r.resource()}
	if r.op.Named() && r.later() == nil && !writ.ValidName(call.Name) {
		return nil, invalid(r.op, fmt.Sprintf("%q is not a name: 1 to 63 lower-case letters, digits and hyphens", call.Name))
	}
	after := make(map[int]bool)
	if h, ok := r.name.(*handle); ok {
		after[h.seq] = true
	}
	args := map[string]any{}
	if r.spec != nil {
		args, _ = valueOf(r.spec).(map[string]any)
	}
	if problems := r.op.Args.Check(r.checkable(args), isHandle); len(problems) > 0 {
		texts := make([]string, len(problems))
		for i, p := range problems {
			texts[i] = p.String()
		}
		return nil, invalid(r.op, strings.Join(texts, "; "))
	}
	var err error
	call.Args, err = r.op.Args.ReplaceHandles(r.op.Args.Fill(args), func(v any) (any, error) {
		if _, unknown := v.(*unknown); unknown {
			return v, nil
		}
		h, ok := v.(*handle)
		if !ok {
			return nil, writ.Errorf(writ.CodeInternal, "a %T is not a handle", v)
		}
		after[h.seq] = true
		return h.form(), nil
	})
	if err != nil {
		return nil, err
	}
	if len(call.Args) == 0 {
		call.Args = nil
	}
	if r.options != nil {
		options, _ := valueOf(r.options).(map[string]any)
		var problems []catalog.Problem
		if call.Options, problems = optionsFor(r.op, r.checkable(options)); len(problems) > 0 {
			return nil, invalid(r.op, optionText(problems[0]))
		}
	}
	for s := range after {
		call.After = append(call.After, s)
	}
	slices.Sort(call.After)
	return call, nil
}

// optionText describes an invalid option.
func optionText(p catalog.Problem) string {
	if p.Reason == catalog.UnknownField {
		p.Message = fmt.Sprintf("unknown option %q", p.Path[0])
	}
	return p.String()
}

func invalid(op *catalog.Operation, why string) error {
	return writ.Errorf(writ.CodeArgumentsInvalid, "%s: %s", op.Name(), why).
		WithHint("`writ explain %s` lists its fields and options", op.Name())
}

// durationForm describes a duration in a script.
const durationForm = `a duration such as "30s", "5m" or "2h", at most "168h"`

// optionSchema describes the options of a call.
var optionSchema = catalog.Schema{
	{Name: "retries", Type: catalog.Int, Min: new(int64(0)), Max: new(int64(100)),
		Help: "the number of retries after a temporary error; 5 by default"},
	{Name: "timeout", Type: catalog.String, Form: durationForm,
		Help: "the maximum duration of one attempt; the default depends on the operation"},
	{Name: "on_loss", Type: catalog.String, Enum: []string{"fail", "wait", onLossReplace},
		Help: "the reaction to the loss of a node that may have started the call: fail, wait for the node, or replace it. With replace the call " +
			"waits for the signed loss of the node and moves to another one. A call that never started moves to another node, or waits if it needs this one"},
	{Name: "node", Type: catalog.String, Min: new(int64(1)),
		Help: "the name or id of the node for the call"},
	{Name: "labels", Type: catalog.Map, Max: new(int64(writ.MaxLabels)), Key: &catalog.Field{Type: catalog.String, Min: new(int64(1)), Max: new(int64(63))}, Elem: &catalog.Field{Type: catalog.String, Max: new(int64(63))},
		Help: "labels that the node must have"},
	{Name: "idempotent", Type: catalog.Bool,
		Help: "repeating the operation is harmless, so it may be repeated if its outcome is unknown"},
	{Name: "adopt", Type: catalog.Bool,
		Help: "take the resource over if another deployment of the project owns it"},
}

// maxTimeout is the maximum duration of a run, see docs/trust.md.
const maxTimeout = 7 * 24 * time.Hour

// ParseOptions reads the options of a planned call. Values that are catalog.Unknown are skipped.
func ParseOptions(given map[string]any) (writ.CallOptions, error) {
	options, problems := parseOptions(given)
	if len(problems) > 0 {
		return options, writ.Errorf(writ.CodeArgumentsInvalid, "%s", optionText(problems[0]))
	}
	return options, nil
}

// onLossReplace is the value of the option on_loss that repeats a call on another node after the signed loss of its
// node.
const onLossReplace = "replace"

// optionsFor reads the options of a call like parseOptions, and also reports options that make no sense for its
// operation.
func optionsFor(op *catalog.Operation, given map[string]any) (writ.CallOptions, []catalog.Problem) {
	o, problems := parseOptions(given)
	if why := irreplaceable(op, o); len(problems) == 0 && o.OnLoss == onLossReplace && why != "" {
		problems = []catalog.Problem{{Path: catalog.Path{"on_loss"}, Reason: catalog.WrongValue,
			Message: fmt.Sprintf("on_loss cannot be %q: %s", onLossReplace, why)}}
	}
	return o, problems
}

// irreplaceable returns why another node cannot make a call after the loss of its node, or "" if it can.
func irreplaceable(op *catalog.Operation, o writ.CallOptions) string {
	switch {
	case op.Effect == catalog.Find:
		return op.Name() + " runs on the supervisor, not on a node"
	case op.Repeat == catalog.Once && !o.Idempotent:
		return op.Name() + " must not run twice, and the lost node may have run it"
	case op.Named() && op.Effect != catalog.Make && op.Effect != catalog.Remove:
		return op.Name() + " acts on data of its node, which is lost with it"
	case o.Node != "":
		return "the call asks for the node " + o.Node + ", so no other node can run it"
	}
	return ""
}

// parseOptions reads the options of a call. Values that are catalog.Unknown are skipped.
func parseOptions(given map[string]any) (writ.CallOptions, []catalog.Problem) {
	var o writ.CallOptions
	problems := optionSchema.Check(given, isHandle)
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
		if err != nil || d < time.Millisecond || d > maxTimeout {
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
