package interpreter

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/d5/tengo/v2"
	"github.com/d5/tengo/v2/token"

	"writ"
	"writ/internal/clip"
	"writ/scripts/interpreter/instrument"
	"writ/scripts/syntax"
)

// operators are the natives that implement syntax.
var operators = map[string]pureFunc{
	instrument.Iterate: func(fuel *meter, args []tengo.Object) (tengo.Object, error) { return iterable(fuel, args[0]) },
	instrument.Add: func(fuel *meter, args []tengo.Object) (tengo.Object, error) {
		return add(fuel, args[0], args[1])
	},
	instrument.Divide: divides(token.Quo),
	instrument.Rest:   divides(token.Rem),
	instrument.Equal: func(fuel *meter, args []tengo.Object) (tengo.Object, error) {
		equal, err := equal(fuel, args[0], args[1], 0)
		return boolean(equal), err
	},
	instrument.Weigh: func(fuel *meter, args []tengo.Object) (tengo.Object, error) {
		return args[0], fuel.weigh(args[0], 64)
	},
	instrument.Index: func(fuel *meter, args []tengo.Object) (tengo.Object, error) { return index(fuel, args[0]) },
	instrument.Element: func(fuel *meter, args []tengo.Object) (tengo.Object, error) {
		return element(fuel, args[0], args[1])
	},
	instrument.Spread: func(fuel *meter, args []tengo.Object) (tengo.Object, error) { return spread(fuel, args[0]) },
	instrument.Decide: func(_ *meter, args []tengo.Object) (tengo.Object, error) { return args[0], nil },
	instrument.Slice: func(_ *meter, args []tengo.Object) (tengo.Object, error) {
		return slice(args[0], args[1], args[2])
	},
}

// operands returns Tengo's error for operands of unsuitable types.
func operands(op token.Token, left, right tengo.Object) error {
	return fmt.Errorf("invalid operation: %s %s %s", left.TypeName(), op, right.TypeName())
}

func add(fuel *meter, left, right tengo.Object) (tengo.Object, error) {
	switch l := left.(type) {
	case *tengo.String:
		text, err := text(fuel, right)
		if err != nil {
			return nil, err
		}
		if len(l.Value)+len(text) > maxString {
			return nil, tengo.ErrStringLimit
		}
		return &tengo.String{Value: l.Value + text}, fuel.burnMemory(len(l.Value) + len(text))
	case *tengo.Bytes:
		r, ok := right.(*tengo.Bytes)
		if !ok {
			return nil, operands(token.Add, left, right)
		}
		if len(l.Value)+len(r.Value) > maxString {
			return nil, tengo.ErrBytesLimit
		}
		return &tengo.Bytes{Value: slices.Concat(l.Value, r.Value)}, fuel.burnMemory(len(l.Value) + len(r.Value))
	}
	if l, ok := elementsOf(left); ok {
		r, ok := elementsOf(right)
		if !ok || left.TypeName() != right.TypeName() {
			return nil, operands(token.Add, left, right)
		}
		if err := fuel.burnMemory(sizeObject * (len(l) + len(r))); err != nil {
			return nil, err
		}
		return &tengo.Array{Value: slices.Concat(l, r)}, nil
	}
	return binaryOp(token.Add, left, right)
}

// binaryOp evaluates an operator, with an error that names the types of the operands.
func binaryOp(op token.Token, left, right tengo.Object) (tengo.Object, error) {
	result, err := left.BinaryOp(op, right)
	if err == tengo.ErrInvalidOperator {
		err = operands(op, left, right)
	}
	return result, err
}

// divides returns the operator / or %, which returns an error for a zero divisor instead of a panic.
func divides(op token.Token) pureFunc {
	return func(_ *meter, args []tengo.Object) (tengo.Object, error) { return divide(op, args[0], args[1]) }
}

func divide(op token.Token, left, right tengo.Object) (tengo.Object, error) {
	if r, ok := right.(*tengo.Int); ok && r.Value == 0 {
		if _, ok := left.(*tengo.Int); ok {
			return nil, fmt.Errorf("division by zero")
		}
	}
	return binaryOp(op, left, right)
}

// index returns o if it is a valid index. Tengo would print any other value to make a key.
func index(fuel *meter, o tengo.Object) (tengo.Object, error) {
	const digits = 340 // length of the longest float
	switch o.(type) {
	case *tengo.String, *tengo.Int, *tengo.Char, *tengo.Bool, *tengo.Undefined:
		return o, nil
	case *tengo.Float:
		return o, fuel.burnMemory(digits)
	default:
		return nil, fmt.Errorf("invalid index type: %s", o.TypeName())
	}
}

// element returns x[i].
func element(fuel *meter, x, i tengo.Object) (tengo.Object, error) {
	i, err := index(fuel, i)
	if err != nil {
		return nil, err
	}
	if err := fuel.runes(x); err != nil {
		return nil, err
	}
	found, err := x.IndexGet(i)
	switch err {
	case tengo.ErrNotIndexable: // Tengo returns this error for the index
		err = elementError(x, i, fmt.Errorf("not indexable: %s", i.TypeName()))
	case tengo.ErrInvalidIndexType:
		err = elementError(x, i, fmt.Errorf("invalid index type: %s", i.TypeName()))
	}
	return found, err
}

// spread returns a list whose elements become arguments: f(list...).
func spread(fuel *meter, o tengo.Object) (tengo.Object, error) {
	list, ok := elementsOf(o)
	if !ok {
		return nil, fmt.Errorf("not an array: %s", o.TypeName())
	}
	if len(list) > syntax.MaxCallArguments {
		return nil, fmt.Errorf("%d arguments; at most %d are possible", len(list), syntax.MaxCallArguments)
	}
	return o, fuel.burnMemory(2 * sizeObject * len(list)) // as arguments, and possibly as a list of them
}

// iterable returns the value over which `for … in` iterates. Maps are iterated in the order of their keys.
func iterable(fuel *meter, o tengo.Object) (tengo.Object, error) {
	if m, ok := pairsOf(o); ok {
		keys, err := fuel.keys(m)
		if err != nil {
			return nil, err
		}
		return &sortedMap{pairs: m, keys: keys}, fuel.burnMemory(2 * sizeObject * len(m))
	}
	return o, fuel.runes(o)
}

// slice returns x[low:high], as Tengo does.
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

// operatorNamed returns the native of an operator that the VM executes in a pass, or nil. These operators never read
// the elements of lists and maps: one operand is a scalar, or lists and maps do not support the operator.
func operatorNamed(name string) *native {
	if text, ok := strings.CutPrefix(name, instrument.Unary); ok {
		n, _ := strconv.Atoi(text)
		op := token.Token(n)
		return &native{name: op.String(), unknown: flat, call: func(_ *pass, args []tengo.Object) (tengo.Object, error) {
			return unary(op, args[0])
		}}
	}
	text, ok := strings.CutPrefix(name, instrument.Operator)
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
		return binaryOp(op, left, right)
	}}
}

// unary evaluates an operator with one operand, as the VM does.
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

// maxMember limits the name of a member in an error, in bytes.
const maxMember = 60

// valuesInHints are the names of values in hints, by type.
var valuesInHints = map[string]string{syntax.TypeList: "list", syntax.TypeText: "s", syntax.TypeNumber: "n"}

// noMember returns the error for a member of a value whose type has no members. The hint names the function that does
// the work of this member in other languages.
func noMember(kind, member string, cause error) *writ.Error {
	return writ.Errorf(writ.CodeScriptFailed, "a %s has no %q: %w", kind, clip.Text(member, maxMember), cause).
		WithHint("%s", syntax.MemberHelp(kind, valuesInHints[kind], member, "…"))
}

// typeOf returns the type of an object for syntax.MemberHelp, "" for types that have members.
func typeOf(object reflect.Type) string {
	switch object {
	case reflect.TypeFor[*tengo.Array](), reflect.TypeFor[*tengo.ImmutableArray]():
		return syntax.TypeList
	case reflect.TypeFor[*tengo.String]():
		return syntax.TypeText
	case reflect.TypeFor[*tengo.Int](), reflect.TypeFor[*tengo.Float]():
		return syntax.TypeNumber
	}
	return ""
}

// elementError returns the error of x[i] for a member of a list, text or number, and cause for other values.
func elementError(x, i tengo.Object, cause error) error {
	name, isName := i.(*tengo.String)
	if kind := typeOf(reflect.TypeOf(x)); kind != "" && isName {
		return noMember(kind, name.Value, cause)
	}
	return cause
}

// explained is an error of the VM with a cause for people, which may have a hint.
type explained struct {
	error
	cause error
}

// Unwrap returns the next error of the chain that the VM made, as for the error itself.
func (e *explained) Unwrap() error { return errors.Unwrap(e.error) }

// explain adds a cause for people to an error of a VM that has stopped, if the error comes from a member or operator of
// another language.
func explain(vm *tengo.VM, err error) error {
	_, cause := unwind(err)
	text := cause.Error()
	for _, op := range []token.Token{token.Rem, token.Mul} {
		if strings.HasPrefix(text, "invalid operation: string "+op.String()+" ") {
			return &explained{err, writ.Errorf(writ.CodeScriptFailed, "%s", text).
				WithHint("%s", syntax.OperatorHelp(op, "text", "…"))}
		}
	}
	if text != "invalid index type: string" && text != "not indexable: string" {
		return err
	}
	if kind, member := indexed(vm); kind != "" {
		return &explained{err, noMember(kind, member, errors.New(text))}
	}
	return err
}

// indexed returns the type of the value and the key of x.key at which a VM has stopped, "" if the type may have members.
// The VM leaves both operands above its stack. They are only accessible by reflection, see frames.
func indexed(vm *tengo.VM) (kind, key string) {
	v := reflect.ValueOf(vm).Elem()
	stack, size := v.FieldByName("stack"), v.FieldByName("sp")
	if !stack.IsValid() || !size.IsValid() || int(size.Int())+1 >= stack.Len() {
		return "", ""
	}
	x, k := stack.Index(int(size.Int())).Elem(), stack.Index(int(size.Int())+1).Elem()
	if !x.IsValid() || !k.IsValid() || k.Type() != reflect.TypeFor[*tengo.String]() {
		return "", ""
	}
	return typeOf(x.Type()), k.Elem().FieldByName("Value").String()
}
