package interpreter

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/d5/tengo/v2"

	"writ"
	"writ/internal/lazyregexp"
	"writ/internal/meant"
	"writ/sal/catalog"
	"writ/scripts"
)

func boolean(b bool) tengo.Object {
	if b {
		return tengo.TrueValue
	}
	return tengo.FalseValue
}

// elementsOf returns the elements of a list.
func elementsOf(o tengo.Object) ([]tengo.Object, bool) {
	switch o := o.(type) {
	case *tengo.Array:
		return o.Value, true
	case *tengo.ImmutableArray:
		return o.Value, true
	default:
		return nil, false
	}
}

// pairsOf returns the keys and values of a map.
func pairsOf(o tengo.Object) (map[string]tengo.Object, bool) {
	switch o := o.(type) {
	case *tengo.Map:
		return o.Value, true
	case *tengo.ImmutableMap:
		return o.Value, true
	case *record:
		return o.fields, true
	default:
		return nil, false
	}
}

// sortedMap iterates over a map in the order of its keys. Keys deleted during the iteration are skipped; added keys do
// not appear.
type sortedMap struct {
	tengo.ObjectImpl
	pairs map[string]tengo.Object
	keys  []string
	next  int
}

func (s *sortedMap) TypeName() string        { return "map-iterator" }
func (s *sortedMap) String() string          { return "<map-iterator>" }
func (s *sortedMap) CanIterate() bool        { return true }
func (s *sortedMap) Iterate() tengo.Iterator { return s }
func (s *sortedMap) Key() tengo.Object       { return &tengo.String{Value: s.keys[s.next-1]} }
func (s *sortedMap) Value() tengo.Object     { return s.pairs[s.keys[s.next-1]] }

func (s *sortedMap) Next() bool {
	for s.next < len(s.keys) {
		s.next++
		if _, ok := s.pairs[s.keys[s.next-1]]; ok {
			return true
		}
	}
	return false
}

// record is an immutable map that returns an error for unknown keys.
type record struct {
	tengo.ObjectImpl
	what   string // "parameter"
	of     string // the owner of the fields, for errors; may be empty
	fields map[string]tengo.Object
}

func (r *record) TypeName() string { return "immutable-map" }

// String is never called: text prints records as maps.
func (r *record) String() string   { return "<" + r.what + "s>" }
func (r *record) IsFalsy() bool    { return len(r.fields) == 0 }
func (r *record) CanIterate() bool { return true }

func (r *record) Iterate() tengo.Iterator {
	return &sortedMap{pairs: r.fields, keys: slices.Sorted(maps.Keys(r.fields))} // few keys: parameters are declared
}

func (r *record) IndexGet(index tengo.Object) (tengo.Object, error) {
	o, err := r.field(index)
	return o, throw(err)
}

func (r *record) field(index tengo.Object) (tengo.Object, error) {
	key, ok := index.(*tengo.String)
	if !ok {
		return nil, tengo.ErrInvalidIndexType
	}
	if v, ok := r.fields[key.Value]; ok {
		return v, nil
	}
	err := fmt.Errorf("unknown %s %q", r.what, key.Value)
	if r.of != "" {
		err = fmt.Errorf("%s has no %s %q", r.of, r.what, key.Value)
	}
	if closest := meant.Closest(key.Value, slices.Sorted(maps.Keys(r.fields))); closest != "" {
		err = fmt.Errorf("%w; did you mean %q?", err, closest)
	}
	return nil, err
}

// secret is the result of run.secret, or a text with secrets from run.text. It represents a value that no script, pass
// or journal ever contains. It is valid only for fields that take secrets, and is printed with names.
type secret struct {
	tengo.ObjectImpl
	parts catalog.Composed // each secret in it has the signed version
}

func (s *secret) TypeName() string   { return "secret" }
func (s *secret) String() string     { return s.parts.String() }
func (s *secret) Copy() tengo.Object { return s }

// Equals returns false for every operand, including the secret itself, so that a comparison never discloses it.
func (s *secret) Equals(tengo.Object) bool { return false }

// IndexGet fails: a secret has no fields.
func (s *secret) IndexGet(tengo.Object) (tengo.Object, error) { return nil, s.misused() }

func (s *secret) misused() error {
	return fmt.Errorf("%s can only be given to a field that takes secrets", s)
}

// runSecret returns a secret of the signed header, in the version that the header names.
func runSecret(p *pass, args []tengo.Object) (tengo.Object, error) {
	name, ok := args[0].(*tengo.String)
	if !ok {
		return nil, fmt.Errorf("run.secret takes the name of a secret, not a %s", args[0].TypeName())
	}
	i := slices.IndexFunc(p.inputs.Secrets, func(ref string) bool { return strings.HasPrefix(ref, name.Value+"@") })
	if i < 0 || !writ.ValidName(name.Value) {
		return nil, writ.Errorf(writ.CodeSecretUnknown, "the signed header names no secret %q",
			scripts.Printable(name.Value)).
			WithHint("literal names are added automatically; sign others with --secret %s", scripts.Printable(name.Value))
	}
	return &secret{parts: catalog.Composed{catalog.Secret(p.inputs.Secrets[i])}}, p.meter.burn(8)
}

// value returns the form for the arguments of a call: a catalog.Secret or a catalog.Composed.
func (s *secret) value() any {
	if len(s.parts) == 1 {
		return s.parts[0]
	}
	return s.parts
}

// template is a text of run.text while its placeholders are filled.
type template struct {
	values map[string]tengo.Object
	used   map[string]bool
	parts  catalog.Composed
	text   strings.Builder // text after the last part
	size   int             // of all texts, in bytes
}

// runText fills the placeholders of a template. The result is a secret if one of the values is a secret.
func runText(p *pass, args []tengo.Object) (tengo.Object, error) {
	text, ok := args[0].(*tengo.String)
	if !ok {
		return nil, fmt.Errorf("run.text takes a template first, not %s", shortForm(args[0]))
	}
	values, ok := pairsOf(args[1])
	if !ok {
		return nil, fmt.Errorf("run.text takes a map second, not %s", shortForm(args[1]))
	}
	if err := p.meter.burn(int64(len(text.Value))/16 + 2*int64(len(values))); err != nil {
		return nil, err
	}
	t := template{values: values, used: map[string]bool{}}
	if err := t.fill(text.Value); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !t.used[name] {
			return nil, fmt.Errorf("the template of run.text has no {%s}", scripts.Printable(name))
		}
	}
	if err := p.meter.burnMemory(t.size + 48*len(t.parts)); err != nil {
		return nil, err
	}
	if len(t.parts) == 0 {
		return &tengo.String{Value: t.text.String()}, nil
	}
	t.endText()
	return &secret{parts: t.parts}, nil
}

// placeholder matches a doubled brace, a name in braces, or a single brace, which is an error.
var placeholder = lazyregexp.New(`\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}|[{}]`)

// fill appends a template with its values. A doubled brace means a single brace.
func (t *template) fill(text string) error {
	for {
		at := placeholder.FindStringSubmatchIndex(text)
		if at == nil {
			return t.add(text)
		}
		if err := t.add(text[:at[0]]); err != nil {
			return err
		}
		found := text[at[0]:at[1]]
		var err error
		switch {
		case at[2] >= 0:
			err = t.addValue(text[at[2]:at[3]])
		case len(found) == 2:
			err = t.add(found[:1])
		default:
			return fmt.Errorf("run.text needs {name} for a value and %s for the character %s, in %s", found+found, found,
				shortForm(&tengo.String{Value: text[at[0]:]}))
		}
		if err != nil {
			return err
		}
		text = text[at[1]:]
	}
}

// addValue appends the value of a placeholder.
func (t *template) addValue(name string) error {
	t.used[name] = true
	switch v := t.values[name].(type) {
	case *tengo.String:
		return t.add(v.Value)
	case *tengo.Int:
		return t.add(v.String())
	case *secret:
		for _, part := range v.parts {
			if err := t.add(part); err != nil {
				return err
			}
		}
		return nil
	case nil, *tengo.Undefined:
		return fmt.Errorf("run.text has no value for {%s}", name)
	case *handle:
		return fmt.Errorf("the value of {%s} is %s, a handle; read one of its fields", name, v)
	default:
		return fmt.Errorf("the value of {%s} is a %s; only string, int and secret are possible", name, v.TypeName())
	}
}

// add appends a text or a catalog.Secret.
func (t *template) add(part any) error {
	if text, is := part.(string); is {
		if t.size += len(text); t.size > maxString {
			return tengo.ErrStringLimit
		}
		t.text.WriteString(text)
		return nil
	}
	t.endText()
	if t.parts = append(t.parts, part); len(t.parts) >= catalog.MaxParts {
		return fmt.Errorf("a text of run.text can have %d parts", catalog.MaxParts)
	}
	return nil
}

// endText appends the text after the last part as a part.
func (t *template) endText() {
	if t.text.Len() > 0 {
		t.parts = append(t.parts, t.text.String())
		t.text.Reset()
	}
}
