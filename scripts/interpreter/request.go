package interpreter

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/d5/tengo/v2"

	"writ"
	"writ/internal/imageref"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/scripts/operation"
)

// request is one call of an operation by the script.
type request struct {
	op      *catalog.Operation
	name    tengo.Object // a string, or a handle to the resource; nil for an operation without resource
	spec    tengo.Object // nil if not given
	options tengo.Object
	unknown bool // a part of it is unknown, as found by encode
}

// newRequest assigns the arguments of an operation.
func newRequest(op *catalog.Operation, args []tengo.Object) (*request, error) {
	least, most := operation.Arity(op)
	if len(args) < least || len(args) > most {
		return nil, fmt.Errorf("%s takes %s, not %d arguments", op.Name(), operation.Arguments(op), len(args))
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
			return nil, fmt.Errorf("%s takes %s; one of them is a %s", op.Name(), operation.Arguments(op), args[i].TypeName())
		}
		*to = args[i]
	}
	r.spec = withoutFloats(op, r.spec)
	return r, nil
}

// withoutFloats returns a spec with the floats of Decimal fields as ints or texts, the forms that calls have.
func withoutFloats(op *catalog.Operation, spec tengo.Object) tengo.Object {
	var changed map[string]tengo.Object
	for i := range op.Args {
		if op.Args[i].Type != catalog.Decimal || spec == nil {
			continue
		}
		name := op.Args[i].Name
		given, _ := pairsOf(spec)
		float, ok := given[name].(*tengo.Float)
		if !ok {
			continue
		}
		if changed == nil {
			changed = maps.Clone(given)
		}
		switch h, ok := catalog.HundredthsOf(float.Value); {
		case !ok: // refused later
			changed[name] = &tengo.String{Value: strconv.FormatFloat(float.Value, 'g', -1, 64)}
		case h%100 == 0:
			changed[name] = &tengo.Int{Value: int64(h / 100)}
		default:
			changed[name] = &tengo.String{Value: h.String()}
		}
	}
	if changed == nil {
		return spec
	}
	return &tengo.ImmutableMap{Value: changed}
}

// encode appends CBOR [operation, name, spec, options] to buf, the input of the hash of a call. It contains everything
// that the script gave, and no defaults, which a later catalogue could change.
func (r *request) encode(fuel *meter, buf []byte) ([]byte, error) {
	e := encoder{fuel: fuel, buf: buf}
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
		return nil, fmt.Errorf("%s takes the name of a %s or a handle to one, not a %s", r.op.Name(), r.op.Kind,
			name.TypeName())
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
	if len(e.buf) > scripts.MaxArguments {
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

// later returns the name of the resource if it is an unknown value of a plan, otherwise nil.
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
func (r *request) newCall(seq int) (*scripts.NewCall, error) {
	call := &scripts.NewCall{Seq: seq, Operation: r.op.Name(), Name: r.resource()}
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
		return nil, invalid(r.op, problemTexts(problems))
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
		if call.Options, problems = operation.Options(r.op, r.checkable(options), isHandle); len(problems) > 0 {
			return nil, invalid(r.op, operation.OptionText(problems[0]))
		}
	}
	for s := range after {
		call.After = append(call.After, s)
	}
	slices.Sort(call.After)
	return call, nil
}

func problemTexts(problems []catalog.Problem) string {
	texts := make([]string, len(problems))
	for i, p := range problems {
		texts[i] = p.String()
	}
	return strings.Join(texts, "; ")
}

func invalid(op *catalog.Operation, why string) error {
	return writ.Errorf(writ.CodeArgumentsInvalid, "%s: %s", op.Name(), why).
		WithHint("`writ explain %s` lists its fields and options", op.Name())
}

// signedImages finds the references that the signed header names. A script may repeat a call thousands of times, so each
// text is parsed once.
type signedImages struct {
	named []string          // full references with digests
	known map[string]string // results by text
}

// resolve returns the reference in the signed header, with its digest, that matches text, or "" if none matches.
func (s *signedImages) resolve(text string) (full string) {
	if full, ok := s.known[text]; ok {
		return full
	}
	if wanted, err := imageref.Parse(text); err == nil {
		i := slices.IndexFunc(s.named, func(one string) bool {
			r, err := imageref.Parse(one)
			return err == nil && (r == wanted || wanted.Digest == "" && r.Tagged() == wanted)
		})
		if i >= 0 {
			full = s.named[i]
		}
	}
	if s.known == nil {
		s.known = make(map[string]string)
	}
	s.known[text] = full
	return full
}

// addImages adds the digests of images to the encoded form of a call. If the digest of an image changes, the digest of
// the plan then changes, too.
func addImages(encoded []byte, r *request, signed *signedImages) []byte {
	if r.spec == nil || len(signed.named) == 0 {
		return encoded
	}
	spec, _ := pairsOf(r.spec)
	for i := range r.op.Args {
		if !r.op.Args[i].Registry {
			continue
		}
		if text, ok := spec[r.op.Args[i].Name].(*tengo.String); ok && imageref.Looks(text.Value) {
			encoded = append(append(encoded, 0), signed.resolve(text.Value)...)
		}
	}
	return encoded
}

// resolveImages returns the arguments of a call with the digests of its images at registries. A plan leaves references
// unchanged that the header does not name yet.
func resolveImages(p *pass, op *catalog.Operation, args map[string]any) (map[string]any, error) {
	return catalog.ReplaceImages(op.Args, args, func(text string) (string, error) {
		full := p.images.resolve(text)
		if full != "" || p.plan != nil {
			return cmp.Or(full, text), nil
		}
		return "", writ.Errorf(writ.CodeImageUnresolved, "the signed header names no digest of the image %q",
			scripts.Printable(text)).
			WithHint("references in the script are added automatically; sign others with --image %s", scripts.Printable(text))
	})
}
