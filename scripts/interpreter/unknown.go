package interpreter

import (
	"fmt"
	"slices"

	"github.com/d5/tengo/v2"
	"github.com/d5/tengo/v2/token"

	"writ/scripts"
)

// unknown is an unknown value of a plan: the result of a call, or a value derived from such a result. Scripts can store
// it and compute with it. An access to its value ends the plan. The unknownRule of a function determines how it handles
// unknown arguments. If a function has no rule, the methods below panic with the horizon, so an unknown is never used
// as a value.
type unknown struct {
	tengo.ObjectImpl
	after []int // the calls that it depends on, ascending; shared, so never changed
}

// here returns the horizon of a plan that ends because of u. what names the unknown for the message, as a noun phrase.
func (u *unknown) here(what string) *horizon { return &horizon{what: what, after: u.after} }

func (u *unknown) TypeName() string         { panic(u.here("the type of a value")) }
func (u *unknown) String() string           { panic(u.here("a text")) }
func (u *unknown) IsFalsy() bool            { panic(u.here("the condition")) }
func (u *unknown) Equals(tengo.Object) bool { panic(u.here("a comparison")) }
func (u *unknown) CanIterate() bool         { panic(u.here("the number of rounds")) }
func (u *unknown) Copy() tengo.Object       { return u }

// BinaryOp handles x--. All other operators are natives.
func (u *unknown) BinaryOp(_ token.Token, right tengo.Object) (tengo.Object, error) {
	if _, ok := right.(*tengo.Int); !ok {
		return nil, u.here("the result of an operator")
	}
	return u, nil
}

// IndexGet returns u: a part of an unknown value is unknown.
func (u *unknown) IndexGet(tengo.Object) (tengo.Object, error) { return u, nil }

// IndexSet ends the plan: the change may affect a part of a known value.
func (u *unknown) IndexSet(_, _ tengo.Object) error { return u.here("the changed value") }

func (u *unknown) CanCall() bool { return true }

// Call ends the plan: the function is unknown.
func (u *unknown) Call(...tengo.Object) (tengo.Object, error) {
	return nil, u.here("the called function")
}

// EncodedSize estimates the size of the encoding in bytes.
func (u *unknown) EncodedSize() int { return 5 + 9*len(u.after) }

// value returns the encoding of u; see KnownAfter.
func (u *unknown) value() any {
	list := make([]any, len(u.after))
	for i, seq := range u.after {
		list[i] = int64(seq)
	}
	return map[string]any{scripts.KnownAfterKey: list}
}

// replaceUnknown returns a copy of v with each unknown value replaced by the result of replace.
func replaceUnknown(v any, replace func(*unknown) any) any {
	return rewritten(v, func(part any) (any, bool) {
		u, ok := part.(*unknown)
		if !ok {
			return nil, false
		}
		return replace(u), true
	})
}

// horizon unwinds a script whose control flow depends on an unknown value.
type horizon struct {
	what  string // the noun phrase for the message
	after []int
}

func (h *horizon) Error() string { return fmt.Sprintf("%s depends on the calls %d", h.what, h.after) }

func isUnknown(o tengo.Object) bool {
	_, ok := o.(*unknown)
	return ok
}

// within searches objects and everything inside them for unknown values. It returns nil, or one unknown that depends on
// all of them. A handle with an unknown name counts, because the name is printed with it. Lists and maps can contain
// themselves, and each other many times, so each is searched once.
func (p *planning) within(objects []tengo.Object) (*unknown, error) {
	var found *unknown
	seen := make(map[tengo.Object]bool)
	open := slices.Clone(objects)
	for len(open) > 0 {
		o := open[len(open)-1]
		open = open[:len(open)-1]
		if h, ok := o.(*handle); ok && h.later != nil {
			o = h.later
		}
		switch o := o.(type) {
		case *unknown:
			union, err := p.union(found, o)
			if err != nil {
				return nil, err
			}
			found = union
			continue
		case *tengo.Error:
			if o.Value != nil && !seen[o] {
				seen[o] = true
				open = append(open, o.Value)
			}
			continue
		}
		list, isList := elementsOf(o)
		m, isMap := pairsOf(o)
		if !isList && !isMap || seen[o] {
			continue
		}
		seen[o] = true
		if err := p.spend(16 + len(list) + len(m)); err != nil {
			return nil, err
		}
		open = append(open, list...)
		for _, v := range m { // in any order: a union is unordered
			open = append(open, v)
		}
	}
	return found, nil
}

// union returns an unknown that depends on the calls of both.
func (p *planning) union(a, b *unknown) (*unknown, error) {
	switch {
	case a == nil || a == b || len(a.after) == 0:
		return b, nil
	case len(b.after) == 0:
		return a, nil
	}
	if err := p.spend(4 * (len(a.after) + len(b.after))); err != nil {
		return nil, err
	}
	both := slices.Concat(a.after, b.after)
	slices.Sort(both)
	both = slices.Clone(slices.Compact(both)) // no excess capacity: there may be many
	switch len(both) {
	case len(a.after):
		return a, nil
	case len(b.after):
		return b, nil
	default:
		return &unknown{after: both}, nil
	}
}
