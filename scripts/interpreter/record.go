package interpreter

import (
	"fmt"
	"maps"
	"slices"

	"github.com/d5/tengo/v2"

	"writ/internal/meant"
)

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
