package interpreter

import (
	"slices"

	"github.com/d5/tengo/v2"

	"writ/sal/catalog"
	"writ/scripts/interpreter/instrument"
)

// unknownRule determines how a plan handles the arguments of a native. It returns the unknown that is the result of the
// native, or the error that ends the plan. It returns nil if the native can be called because it reads only known
// parts. A nil rule means the rule of pure functions: the result is unknown if any part of the arguments is unknown.
type unknownRule func(p *planning, args []tengo.Object) (*unknown, error)

// planNative applies the unknownRule of a native. A nil result means that the native must be called.
func (p *planning) planNative(n *native, args []tengo.Object) (tengo.Object, error) {
	if !p.hasUnknown {
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

// flows is the rule for functions that read all of their arguments and change none.
func flows(p *planning, args []tengo.Object) (*unknown, error) {
	return p.within(args)
}

// flat is the rule for functions that do not read the elements of lists and maps.
func flat(p *planning, args []tengo.Object) (*unknown, error) {
	if !slices.ContainsFunc(args, isUnknown) {
		return nil, nil
	}
	return p.within(args)
}

// first is the rule for functions that read their first argument, but not its elements, and store the other arguments.
func first(p *planning, args []tengo.Object) (*unknown, error) {
	if len(args) == 0 || !isUnknown(args[0]) {
		return nil, nil
	}
	return p.within(args)
}

// carries is the rule for functions that handle unknown values themselves.
func carries(*planning, []tengo.Object) (*unknown, error) { return nil, nil }

// ends is the rule for functions that need known arguments, but not known elements.
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

// endsDeep is the rule for functions that need known arguments with known elements.
func endsDeep(what string) unknownRule {
	return func(p *planning, args []tengo.Object) (*unknown, error) {
		u, err := p.within(args)
		if u == nil || err != nil {
			return nil, err
		}
		return nil, u.here(what)
	}
}

// wholeParts is the rule for operations: values in spec and options may be unknown, but not the spec or the options
// themselves.
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

// unknownRules are the rules of operators, statements and builtins that need a rule other than flows.
var unknownRules = map[string]unknownRule{
	instrument.Decide:  ends("the condition"),
	instrument.Iterate: ends("the number of rounds"),
	instrument.Weigh:   carries,
	instrument.Index:   ends("the key or index"),
	instrument.Element: func(p *planning, args []tengo.Object) (*unknown, error) {
		return ends("the key or index")(p, args[1:])
	},
	instrument.Spread: ends("the number of arguments"),
	instrument.Slice:  flat,
	instrument.Add: func(p *planning, args []tengo.Object) (*unknown, error) {
		if _, text := args[0].(*tengo.String); text { // the other operand is printed
			return flows(p, args)
		}
		return flat(p, args)
	},

	instrument.Builtin + "append": first,
	instrument.Builtin + "copy":   flat,
	instrument.Builtin + "len":    flat,
	instrument.Builtin + "bool":   flat,
	instrument.Builtin + "delete": ends("the deleted key"),
	instrument.Builtin + "splice": func(p *planning, args []tengo.Object) (*unknown, error) {
		return ends("the changed value")(p, args[:min(3, len(args))])
	},

	instrument.Builtin + "type_name": flat, instrument.Builtin + "is_int": flat,
	instrument.Builtin + "is_float":  flat,
	instrument.Builtin + "is_string": flat, instrument.Builtin + "is_bool": flat,
	instrument.Builtin + "is_char":  flat,
	instrument.Builtin + "is_bytes": flat, instrument.Builtin + "is_array": flat,
	instrument.Builtin + "is_immutable_array": flat,
	instrument.Builtin + "is_map":             flat, instrument.Builtin + "is_immutable_map": flat,
	instrument.Builtin + "is_iterable": flat,
	instrument.Builtin + "is_time":     flat, instrument.Builtin + "is_error": flat,
	instrument.Builtin + "is_undefined": flat,
	instrument.Builtin + "is_function":  flat, instrument.Builtin + "is_callable": flat,
}
