package scripts

import (
	"strconv"
	"strings"

	"github.com/d5/tengo/v2"
)

// native is a function of Go that a program calls. The program holds it as a constant; each pass puts a callable of its own there.
type native struct {
	name    string
	call    func(p *pass, args []tengo.Object) (tengo.Object, error)
	unknown unknownRule // in a plan, of arguments that are not known
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
	return o, throw(err)
}

// thrown takes an error through the VM, which writes down its text once for each call that is under way: a text of 256 KiB in a recursion
// would take all memory.
type thrown struct{ cause error }

func (t *thrown) Error() string { return "stopped" }
func (t *thrown) Unwrap() error { return t.cause }

// throw prepares an error for the VM. Those of Tengo, which are short, it must see as they are.
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

// The natives that take the place of operators and statements; see instrument.go. Their names cannot be written in a script.
const (
	nativeIterate = "\x00iterate"
	nativeAdd     = "\x00add"
	nativeDivide  = "\x00divide"
	nativeRest    = "\x00rest"
	nativeEqual   = "\x00equal"
	nativeWeigh   = "\x00weigh"
	nativeIndex   = "\x00index"
	nativeElement = "\x00element"
	nativeSpread  = "\x00spread"
	nativeFuel    = "\x00fuel:" // followed by how much

	// Only in plans.
	nativeDecide   = "\x00decide"
	nativeSlice    = "\x00slice"
	nativeUnary    = "\x00unary:"    // followed by the token
	nativeOperator = "\x00operator:" // followed by the token
)

// nativeBuiltin is followed by the name of a bounded builtin.
const nativeBuiltin = "\x00builtin:"

// nativeNamed returns the native of a name that only the instrumentation writes, nil if there is none.
func nativeNamed(name string) *native {
	if cost, ok := strings.CutPrefix(name, nativeFuel); ok {
		n, _ := strconv.ParseInt(cost, 10, 64)
		return &native{name: "fuel", call: func(p *pass, _ []tengo.Object) (tengo.Object, error) { return nil, p.burn(n) }}
	}
	if index, ok := strings.CutPrefix(name, nativeSelected); ok {
		return selectedTest(index)
	}
	if call, ok := operators[name]; ok {
		return &native{name: name[1:], call: call, unknown: unknownRules[name]}
	}
	if builtin, ok := strings.CutPrefix(name, nativeBuiltin); ok {
		return builtinNamed(builtin)
	}
	return operatorNamed(name)
}

// builtinNamed returns a builtin function as a native. Those of Tengo that need no bounds are natives in plans only.
func builtinNamed(name string) *native {
	n := &native{name: name, call: bounded[name], unknown: unknownRules[nativeBuiltin+name]}
	for _, own := range tengo.GetAllBuiltinFunctions() {
		if n.call == nil && own.Name == name {
			n.call = func(_ *pass, args []tengo.Object) (tengo.Object, error) { return own.Value(args...) }
		}
	}
	if n.call == nil {
		return nil
	}
	return n
}
