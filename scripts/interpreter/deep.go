package interpreter

import (
	"errors"

	"github.com/d5/tengo/v2"
)

// Tengo prints, compares and copies values by unbounded recursion, and a value can contain itself: a := [0]; a[0] = a.
// The functions here have limits, like printer.

var errDepth = errors.New("the value is nested too deeply, or contains itself")

// scalar reports whether o contains no other values.
func scalar(o tengo.Object) bool {
	switch o.(type) {
	case *tengo.Int, *tengo.String, *tengo.Bool, *tengo.Float, *tengo.Char, *tengo.Bytes, *tengo.Time, *tengo.Undefined:
		return true
	default:
		return false
	}
}

// equal compares as == does.
func equal(fuel *meter, x, y tengo.Object, depth int) (bool, error) {
	if depth > maxDepth {
		return false, errDepth
	}
	if list, ok := elementsOf(x); ok {
		other, ok := elementsOf(y)
		if !ok || len(list) != len(other) {
			return false, nil
		}
		if err := fuel.burn(int64(len(list))); err != nil {
			return false, err
		}
		for i := range list {
			if same, err := equal(fuel, list[i], other[i], depth+1); !same || err != nil {
				return false, err
			}
		}
		return true, nil
	}
	if m, ok := pairsOf(x); ok {
		other, ok := pairsOf(y)
		if !ok || len(m) != len(other) {
			return false, nil
		}
		keys, err := fuel.keys(m) // in order: the first failure and the fuel burned must be deterministic
		if err != nil {
			return false, err
		}
		for _, key := range keys {
			value, ok := other[key]
			if !ok {
				return false, nil
			}
			if same, err := equal(fuel, m[key], value, depth+1); !same || err != nil {
				return false, err
			}
		}
		return true, nil
	}
	if err := fuel.weigh(x, 64); err != nil {
		return false, err
	}
	return x.Equals(y), nil
}

// copied returns a deep copy, as copy() does: its lists and maps can be changed.
func copied(fuel *meter, o tengo.Object, depth int) (tengo.Object, error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	if list, ok := elementsOf(o); ok {
		if err := fuel.burnMemory(2*sizeObject + 3*sizeObject*len(list)); err != nil {
			return nil, err
		}
		to := make([]tengo.Object, len(list))
		for i, e := range list {
			c, err := copied(fuel, e, depth+1)
			if err != nil {
				return nil, err
			}
			to[i] = c
		}
		return &tengo.Array{Value: to}, nil
	}
	if m, ok := pairsOf(o); ok {
		if err := fuel.burnMemory(sizeMap + sizeKey*len(m)); err != nil {
			return nil, err
		}
		keys, err := fuel.keys(m)
		if err != nil {
			return nil, err
		}
		to := make(map[string]tengo.Object, len(m))
		for _, key := range keys {
			c, err := copied(fuel, m[key], depth+1)
			if err != nil {
				return nil, err
			}
			to[key] = c
		}
		return &tengo.Map{Value: to}, nil
	}
	switch o := o.(type) {
	case *tengo.Error:
		if o.Value == nil {
			return o, nil
		}
		c, err := copied(fuel, o.Value, depth+1)
		return &tengo.Error{Value: c}, err
	case *tengo.Bytes:
		return o.Copy(), fuel.burnMemory(len(o.Value))
	case *tengo.CompiledFunction:
		return o, fuel.burn(1) // a copy would lose its source positions
	default:
		return o.Copy(), nil
	}
}

func builtinCopy(fuel *meter, args []tengo.Object) (tengo.Object, error) {
	if len(args) != 1 {
		return nil, tengo.ErrWrongNumArguments
	}
	return copied(fuel, args[0], 0)
}
