package scripts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/d5/tengo/v2"
	"github.com/d5/tengo/v2/token"

	"writ/sal/catalog"
)

// unknown is a value that a plan does not know: a result, or what was made of one. It can be put somewhere and computed with. What asks it
// for its value ends the plan: functions that a script calls are asked by treat before, and should one be forgotten, the methods below
// panic with the horizon rather than let anything take an unknown for a value.
type unknown struct {
	tengo.ObjectImpl
	after []int // the calls that it depends on, ascending; shared, so never changed
}

// here is where a plan ends because what depends on u.
func (u *unknown) here(what string) *horizon { return &horizon{what: what, after: u.after} }

func (u *unknown) TypeName() string         { panic(u.here("what happens")) }
func (u *unknown) String() string           { panic(u.here("a text")) }
func (u *unknown) IsFalsy() bool            { panic(u.here("the condition")) }
func (u *unknown) Equals(tengo.Object) bool { panic(u.here("a comparison")) }
func (u *unknown) CanIterate() bool         { panic(u.here("the number of rounds")) }
func (u *unknown) Copy() tengo.Object       { return u }

// BinaryOp is that of x--: everything else that has operators is a native.
func (u *unknown) BinaryOp(_ token.Token, right tengo.Object) (tengo.Object, error) {
	if _, ok := right.(*tengo.Int); !ok {
		return nil, u.here("the result of an operator")
	}
	return u, nil
}

// IndexGet returns a part of what is not known.
func (u *unknown) IndexGet(tengo.Object) (tengo.Object, error) { return u, nil }

// IndexSet ends the plan: what it would change may be part of a value that is known.
func (u *unknown) IndexSet(_, _ tengo.Object) error { return u.here("what is changed") }

func (u *unknown) CanCall() bool { return true }

// Call ends the plan.
func (u *unknown) Call(...tengo.Object) (tengo.Object, error) {
	return nil, u.here("which function is called")
}

// value is how a plan writes it; see KnownAfter.
func (u *unknown) value() any {
	list := make([]any, len(u.after))
	for i, seq := range u.after {
		list[i] = int64(seq)
	}
	return map[string]any{knownAfter: list}
}

// replaceUnknown returns a copy of v with something else in the place of what is not known.
func replaceUnknown(v any, replace func(*unknown) any) any {
	switch v := v.(type) {
	case *unknown:
		return replace(v)
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = replaceUnknown(e, replace)
		}
		return list
	case map[string]any:
		m := make(map[string]any, len(v))
		for key, e := range v {
			m[key] = replaceUnknown(e, replace)
		}
		return m
	default:
		return v
	}
}

// horizon unwinds a script that decides by what is not known.
type horizon struct {
	what  string // depends on the calls
	after []int
}

func (h *horizon) Error() string { return fmt.Sprintf("%s depends on the calls %d", h.what, h.after) }

// treatment says what a native makes of arguments in a plan: the unknown that its result is; nil if it can be called with them as ever,
// because they are known as far as it looks; or the error that ends the plan. Nil is that of pure functions: as soon as anything in the
// arguments is not known, the result is not.
type treatment func(p *planning, args []tengo.Object) (*unknown, error)

// treat applies the treatment of a native. The result is nil if the native is to be called.
func (p *planning) treat(n *native, args []tengo.Object) (tengo.Object, error) {
	if !p.born {
		return nil, nil
	}
	how := n.unknown
	if how == nil {
		how = flows
	}
	u, err := how(p, args)
	if u == nil || err != nil {
		return nil, err
	}
	return u, nil
}

// flows is for functions that read all of their arguments and change none.
func flows(p *planning, args []tengo.Object) (*unknown, error) {
	return p.within(args)
}

// flat is for functions that do not look into lists and maps.
func flat(p *planning, args []tengo.Object) (*unknown, error) {
	if !slices.ContainsFunc(args, isUnknown) {
		return nil, nil
	}
	return p.within(args)
}

// first is for functions that look at their first argument, not into it, and pass the others on.
func first(p *planning, args []tengo.Object) (*unknown, error) {
	if len(args) == 0 || !isUnknown(args[0]) {
		return nil, nil
	}
	return p.within(args)
}

// carries is for functions that know what to do with values that are not known.
func carries(*planning, []tengo.Object) (*unknown, error) { return nil, nil }

// ends is for what must know its arguments, though not what is in them.
func ends(what string) treatment {
	return func(_ *planning, args []tengo.Object) (*unknown, error) {
		for _, arg := range args {
			if u, ok := arg.(*unknown); ok {
				return nil, u.here(what)
			}
		}
		return nil, nil
	}
}

// endsDeep is for what must know all of its arguments.
func endsDeep(what string) treatment {
	return func(p *planning, args []tengo.Object) (*unknown, error) {
		u, err := p.within(args)
		if u == nil || err != nil {
			return nil, err
		}
		return nil, u.here(what)
	}
}

// wholeParts is for operations: any part of a spec need not be known, but which parts there are.
func wholeParts(op *catalog.Operation) treatment {
	return func(_ *planning, args []tengo.Object) (*unknown, error) {
		if op.Named() && len(args) > 0 {
			args = args[1:]
		}
		for i, arg := range args {
			if u, ok := arg.(*unknown); ok {
				return nil, u.here([...]string{"the spec", "the options"}[min(i, 1)] + " of " + op.Name())
			}
		}
		return nil, nil
	}
}

// treatments are those of operators, statements and builtins that need one.
var treatments = map[string]treatment{
	nativeDecide:  ends("the condition"),
	nativeIterate: ends("the number of rounds"),
	nativeWeigh:   carries,
	nativeIndex:   ends("the key or index"),
	nativeElement: func(p *planning, args []tengo.Object) (*unknown, error) { return ends("the key or index")(p, args[1:]) },
	nativeSpread:  ends("the number of arguments"),
	nativeSlice:   flat,
	nativeAdd: func(p *planning, args []tengo.Object) (*unknown, error) {
		if _, text := args[0].(*tengo.String); text { // which the other one is printed behind
			return flows(p, args)
		}
		return flat(p, args)
	},

	nativeBuiltin + "append": first,
	nativeBuiltin + "copy":   flat,
	nativeBuiltin + "len":    flat,
	nativeBuiltin + "bool":   flat,
	nativeBuiltin + "delete": ends("what is deleted"),
	nativeBuiltin + "splice": func(p *planning, args []tengo.Object) (*unknown, error) {
		return ends("what is changed")(p, args[:min(3, len(args))])
	},

	nativeBuiltin + "type_name": flat, nativeBuiltin + "is_int": flat, nativeBuiltin + "is_float": flat, nativeBuiltin + "is_string": flat,
	nativeBuiltin + "is_bool": flat, nativeBuiltin + "is_char": flat, nativeBuiltin + "is_bytes": flat, nativeBuiltin + "is_array": flat,
	nativeBuiltin + "is_immutable_array": flat, nativeBuiltin + "is_map": flat, nativeBuiltin + "is_immutable_map": flat,
	nativeBuiltin + "is_iterable": flat, nativeBuiltin + "is_time": flat, nativeBuiltin + "is_error": flat,
	nativeBuiltin + "is_undefined": flat, nativeBuiltin + "is_function": flat, nativeBuiltin + "is_callable": flat,
}

func isUnknown(o tengo.Object) bool {
	_, ok := o.(*unknown)
	return ok
}

// within looks for what is not known in objects and everything inside them: nil if there is nothing, else one value that depends on all of
// it. A handle whose name is not known counts, as it is printed with it. Lists and maps can contain themselves, and each other often.
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
		for _, v := range m { // in any order: a union has none
			open = append(open, v)
		}
	}
	return found, nil
}

// union returns what depends on both.
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
	both = slices.Clone(slices.Compact(both)) // no bigger than it must be: there may be many
	switch len(both) {
	case len(a.after):
		return a, nil
	case len(b.after):
		return b, nil
	default:
		return &unknown{after: both}, nil
	}
}

// slice is x[low:high] as Tengo has it.
func slice(o, low, high tengo.Object) (tengo.Object, error) {
	from, to, length := int64(0), int64(0), int64(0)
	if low != tengo.UndefinedValue {
		n, ok := low.(*tengo.Int)
		if !ok {
			return nil, fmt.Errorf("invalid slice index type: %s", low.TypeName())
		}
		from = n.Value
	}
	list, isList := elementsOf(o)
	switch o := o.(type) {
	case *tengo.String:
		length = int64(len(o.Value))
	case *tengo.Bytes:
		length = int64(len(o.Value))
	default:
		if !isList {
			return nil, fmt.Errorf("not indexable: %s", o.TypeName())
		}
		length = int64(len(list))
	}
	if to = length; high != tengo.UndefinedValue {
		n, ok := high.(*tengo.Int)
		if !ok {
			return nil, fmt.Errorf("invalid slice index type: %s", high.TypeName())
		}
		to = n.Value
	}
	if from > to {
		return nil, fmt.Errorf("invalid slice index: %d > %d", from, to)
	}
	from, to = min(max(from, 0), length), min(max(to, 0), length)
	switch o := o.(type) {
	case *tengo.String:
		return &tengo.String{Value: o.Value[from:to]}, nil
	case *tengo.Bytes:
		return &tengo.Bytes{Value: o.Value[from:to]}, nil
	default:
		return &tengo.Array{Value: list[from:to]}, nil
	}
}

// operatorNamed returns the native of an operator that a pass leaves to the VM, nil if there is none. None of these looks into lists and
// maps: one side is a scalar, or lists and maps have no such operator.
func operatorNamed(name string) *native {
	if text, ok := strings.CutPrefix(name, nativeUnary); ok {
		n, _ := strconv.Atoi(text)
		op := token.Token(n)
		return &native{name: op.String(), unknown: flat, call: func(_ *pass, args []tengo.Object) (tengo.Object, error) {
			return unary(op, args[0])
		}}
	}
	text, ok := strings.CutPrefix(name, nativeOperator)
	if !ok {
		return nil
	}
	n, _ := strconv.Atoi(text)
	op := token.Token(n)
	return &native{name: op.String(), unknown: flat, call: func(_ *pass, args []tengo.Object) (tengo.Object, error) {
		left, right := args[0], args[1]
		switch op {
		case token.Equal:
			return boolean(left.Equals(right)), nil
		case token.NotEqual:
			return boolean(!left.Equals(right)), nil
		}
		result, err := left.BinaryOp(op, right)
		if err == tengo.ErrInvalidOperator {
			err = operands(op, left, right)
		}
		return result, err
	}}
}

// unary is what the VM does for an operator with one operand.
func unary(op token.Token, o tengo.Object) (tengo.Object, error) {
	if op == token.Not {
		return boolean(o.IsFalsy()), nil
	}
	switch n := o.(type) {
	case *tengo.Int:
		if op == token.Sub {
			return &tengo.Int{Value: -n.Value}, nil
		}
		return &tengo.Int{Value: ^n.Value}, nil
	case *tengo.Float:
		if op == token.Sub {
			return &tengo.Float{Value: -n.Value}, nil
		}
	}
	return nil, fmt.Errorf("invalid operation: %s%s", op, o.TypeName())
}
