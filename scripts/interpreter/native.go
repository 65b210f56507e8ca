package interpreter

import (
	"strconv"
	"strings"

	"github.com/d5/tengo/v2"

	"writ/scripts/interpreter/instrument"
)

// native is a Go function that a program calls. The program holds it as a constant; each pass replaces it by its own
// callable.
type native struct {
	name    string
	call    passFunc
	unknown unknownRule // in a plan, for unknown arguments
}

// passFunc is a function that reads or changes the state of a pass.
type passFunc func(p *pass, args []tengo.Object) (tengo.Object, error)

// pureFunc is a function of its arguments alone.
type pureFunc func(fuel *meter, args []tengo.Object) (tengo.Object, error)

// inPass returns f as a function that burns the fuel of a pass.
func (f pureFunc) inPass() passFunc {
	return func(p *pass, args []tengo.Object) (tengo.Object, error) { return f(&p.meter, args) }
}

// callable is a native in one pass.
type callable struct {
	tengo.ObjectImpl
	native *native
	pass   *pass
}

func (c *callable) TypeName() string         { return "builtin-function:" + c.native.name }
func (c *callable) String() string           { return "<builtin-function>" }
func (c *callable) Copy() tengo.Object       { return c }
func (c *callable) Equals(tengo.Object) bool { return false }
func (c *callable) CanCall() bool            { return true }

func (c *callable) Call(args ...tengo.Object) (tengo.Object, error) {
	if c.pass.plan != nil {
		if result, err := c.pass.plan.planNative(c.native, args); result != nil || err != nil {
			return result, throw(err)
		}
	}
	o, err := c.native.call(c.pass, args)
	if wait, ok := err.(*suspension); ok {
		return c.pass.suspend(wait), nil
	}
	return o, throw(err)
}

// thrown passes an error through the VM. The VM copies the text of an error once for each active call: a text of 256
// KiB in a recursion would use all memory.
type thrown struct{ cause error }

func (t *thrown) Error() string { return "stopped" }
func (t *thrown) Unwrap() error { return t.cause }

// throw wraps an error for the VM. Some errors of Tengo stay unwrapped, because the VM compares them; their texts are
// short.
func throw(err error) error {
	switch err.(type) {
	case nil, *thrown, tengo.ErrInvalidArgumentType:
		return err
	}
	switch err {
	case tengo.ErrWrongNumArguments, tengo.ErrInvalidIndexType, tengo.ErrNotIndexable:
		return err
	}
	return &thrown{err}
}

// nativeNamed returns the native of an instrumented name, or nil.
func nativeNamed(name string) *native {
	if cost, ok := strings.CutPrefix(name, instrument.Fuel); ok {
		n, _ := strconv.ParseInt(cost, 10, 64)
		return &native{name: "fuel", call: func(p *pass, _ []tengo.Object) (tengo.Object, error) {
			return nil, p.meter.burn(n)
		}}
	}
	if index, ok := strings.CutPrefix(name, nativeSelected); ok {
		return selectedTest(index)
	}
	if call, ok := operators[name]; ok {
		return &native{name: name[1:], call: call.inPass(), unknown: unknownRules[name]}
	}
	if builtin, ok := strings.CutPrefix(name, instrument.Builtin); ok {
		return builtinNamed(builtin)
	}
	return operatorNamed(name)
}

// builtinNamed returns a builtin function as a native. Builtins of Tengo without replacement are natives in plans only.
func builtinNamed(name string) *native {
	call := bounded[name]
	for _, own := range tengo.GetAllBuiltinFunctions() {
		if call == nil && own.Name == name {
			call = func(_ *meter, args []tengo.Object) (tengo.Object, error) { return own.Value(args...) }
		}
	}
	if call == nil {
		return nil
	}
	return &native{name: name, call: call.inPass(), unknown: unknownRules[instrument.Builtin+name]}
}
