package interpreter

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/d5/tengo/v2"

	"writ"
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

// secret is the result of run.secret. It represents a value that no script, pass or journal ever contains. It is valid
// only for fields that take secrets, and is printed as its name.
type secret struct {
	tengo.ObjectImpl
	name catalog.Secret // with the signed version
}

func (s *secret) TypeName() string   { return "secret" }
func (s *secret) String() string     { return s.name.String() }
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
	return &secret{name: catalog.Secret(p.inputs.Secrets[i])}, p.meter.burn(8)
}
