package scripts

import (
	"slices"

	"github.com/d5/tengo/v2"

	"writ/sal/catalog"
)

// unknownRule says what a native makes of arguments in a plan: the unknown that its result is; nil if it can be called with them as ever,
// because they are known as far as it looks; or the error that ends the plan. Nil is that of pure functions: as soon as anything in the
// arguments is not known, the result is not.
type unknownRule func(p *planning, args []tengo.Object) (*unknown, error)

// planNative applies the unknownRule of a native. The result is nil if the native is to be called.
func (p *planning) planNative(n *native, args []tengo.Object) (tengo.Object, error) {
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
func ends(what string) unknownRule {
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
func endsDeep(what string) unknownRule {
	return func(p *planning, args []tengo.Object) (*unknown, error) {
		u, err := p.within(args)
		if u == nil || err != nil {
			return nil, err
		}
		return nil, u.here(what)
	}
}

// wholeParts is for operations: any part of a spec need not be known, but which parts there are.
func wholeParts(op *catalog.Operation) unknownRule {
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

// unknownRules are those of operators, statements and builtins that need one.
var unknownRules = map[string]unknownRule{
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
