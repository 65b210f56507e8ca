package scripts

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/d5/tengo/v2"
	"github.com/d5/tengo/v2/token"
)

// native is a function of Go that a program calls. The program holds it as a constant; each pass puts a callable of its own there.
type native struct {
	name    string
	call    func(p *pass, args []tengo.Object) (tengo.Object, error)
	unknown treatment // in a plan, of arguments that are not known
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
		if result, err := c.pass.plan.treat(c.native, args); result != nil || err != nil {
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

// operators are the natives behind syntax.
var operators = map[string]func(p *pass, args []tengo.Object) (tengo.Object, error){
	nativeIterate: func(p *pass, args []tengo.Object) (tengo.Object, error) { return p.iterable(args[0]) },
	nativeAdd:     func(p *pass, args []tengo.Object) (tengo.Object, error) { return p.add(args[0], args[1]) },
	nativeDivide:  func(p *pass, args []tengo.Object) (tengo.Object, error) { return divide(token.Quo, args[0], args[1]) },
	nativeRest:    func(p *pass, args []tengo.Object) (tengo.Object, error) { return divide(token.Rem, args[0], args[1]) },
	nativeEqual: func(p *pass, args []tengo.Object) (tengo.Object, error) {
		equal, err := p.equal(args[0], args[1], 0)
		return boolean(equal), err
	},
	nativeWeigh:   func(p *pass, args []tengo.Object) (tengo.Object, error) { return args[0], p.weigh(args[0], 64) },
	nativeIndex:   func(p *pass, args []tengo.Object) (tengo.Object, error) { return p.index(args[0]) },
	nativeElement: func(p *pass, args []tengo.Object) (tengo.Object, error) { return p.element(args[0], args[1]) },
	nativeSpread:  func(p *pass, args []tengo.Object) (tengo.Object, error) { return p.spread(args[0]) },
	nativeDecide:  func(_ *pass, args []tengo.Object) (tengo.Object, error) { return args[0], nil },
	nativeSlice:   func(_ *pass, args []tengo.Object) (tengo.Object, error) { return slice(args[0], args[1], args[2]) },
}

// bounded are the builtin functions of Tengo that are not left as they are: because one call can take all memory or recurse without end
// (range, bytes, copy, string, format, splice) or read a long text (int, float), because their result depends on how Go grows slices
// (append, splice), or on the time zone of the host (time).
var bounded = map[string]func(p *pass, args []tengo.Object) (tengo.Object, error){
	"append": builtinAppend,
	"bytes":  builtinBytes,
	"copy":   builtinCopy,
	"float":  weighed("float"),
	"format": builtinFormat,
	"int":    weighed("int"),
	"range":  builtinRange,
	"splice": builtinSplice,
	"string": builtinString,
	"time":   builtinTime,
}

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
		return &native{name: name[1:], call: call, unknown: treatments[name]}
	}
	if builtin, ok := strings.CutPrefix(name, nativeBuiltin); ok {
		return builtinNamed(builtin)
	}
	return operatorNamed(name)
}

// builtinNamed returns a builtin function as a native. Those of Tengo that need no bounds are natives in plans only.
func builtinNamed(name string) *native {
	n := &native{name: name, call: bounded[name], unknown: treatments[nativeBuiltin+name]}
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

// nativeBuiltin is followed by the name of a bounded builtin.
const nativeBuiltin = "\x00builtin:"

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

// operands returns the error that Tengo gives for operands that do not fit.
func operands(op token.Token, left, right tengo.Object) error {
	return fmt.Errorf("invalid operation: %s %s %s", left.TypeName(), op, right.TypeName())
}

func (p *pass) add(left, right tengo.Object) (tengo.Object, error) {
	switch l := left.(type) {
	case *tengo.String:
		text, err := p.text(right)
		if err != nil {
			return nil, err
		}
		if len(l.Value)+len(text) > maxString {
			return nil, tengo.ErrStringLimit
		}
		return &tengo.String{Value: l.Value + text}, p.keep(len(l.Value) + len(text))
	case *tengo.Bytes:
		r, ok := right.(*tengo.Bytes)
		if !ok {
			return nil, operands(token.Add, left, right)
		}
		if len(l.Value)+len(r.Value) > maxString {
			return nil, tengo.ErrBytesLimit
		}
		return &tengo.Bytes{Value: slices.Concat(l.Value, r.Value)}, p.keep(len(l.Value) + len(r.Value))
	}
	if l, ok := elementsOf(left); ok {
		r, ok := elementsOf(right)
		if !ok || left.TypeName() != right.TypeName() {
			return nil, operands(token.Add, left, right)
		}
		if err := p.keep(sizeObject * (len(l) + len(r))); err != nil {
			return nil, err
		}
		return &tengo.Array{Value: slices.Concat(l, r)}, nil
	}
	sum, err := left.BinaryOp(token.Add, right)
	if err == tengo.ErrInvalidOperator {
		err = operands(token.Add, left, right)
	}
	return sum, err
}

func divide(op token.Token, left, right tengo.Object) (tengo.Object, error) {
	if r, ok := right.(*tengo.Int); ok && r.Value == 0 {
		if _, ok := left.(*tengo.Int); ok {
			return nil, fmt.Errorf("division by zero")
		}
	}
	result, err := left.BinaryOp(op, right)
	if err == tengo.ErrInvalidOperator {
		err = operands(op, left, right)
	}
	return result, err
}

// weigh takes fuel for reading a text, a unit for so many bytes of it.
func (p *pass) weigh(o tengo.Object, bytes int) error {
	switch o := o.(type) {
	case *tengo.String:
		return p.burn(int64(len(o.Value) / bytes))
	case *tengo.Bytes:
		return p.burn(int64(len(o.Value) / bytes))
	default:
		return nil
	}
}

// weighed is a builtin function of Tengo that may read a text.
func weighed(name string) func(p *pass, args []tengo.Object) (tengo.Object, error) {
	all := tengo.GetAllBuiltinFunctions()
	builtin := all[slices.IndexFunc(all, func(f *tengo.BuiltinFunction) bool { return f.Name == name })]
	return func(p *pass, args []tengo.Object) (tengo.Object, error) {
		for _, arg := range args {
			if err := p.weigh(arg, 16); err != nil {
				return nil, err
			}
		}
		return builtin.Value(args...)
	}
}

// index lets through what can be an index. Tengo would print anything else to make a key of it.
func (p *pass) index(o tengo.Object) (tengo.Object, error) {
	const digits = 340 // of the longest float
	switch o.(type) {
	case *tengo.String, *tengo.Int, *tengo.Char, *tengo.Bool, *tengo.Undefined:
		return o, nil
	case *tengo.Float:
		return o, p.keep(digits)
	default:
		return nil, fmt.Errorf("invalid index type: %s", o.TypeName())
	}
}

// element is x[i].
func (p *pass) element(x, i tengo.Object) (tengo.Object, error) {
	i, err := p.index(i)
	if err != nil {
		return nil, err
	}
	if err := p.runes(x); err != nil {
		return nil, err
	}
	found, err := x.IndexGet(i)
	switch err {
	case tengo.ErrNotIndexable: // which Tengo says of the index
		err = fmt.Errorf("not indexable: %s", i.TypeName())
	case tengo.ErrInvalidIndexType:
		err = fmt.Errorf("invalid index type: %s", i.TypeName())
	}
	return found, err
}

// runes takes fuel for the characters of a text, which Tengo keeps from the first time that one of them is asked for.
func (p *pass) runes(o tengo.Object) error {
	s, ok := o.(*tengo.String)
	if !ok || !reflect.ValueOf(s).Elem().FieldByName("runeStr").IsNil() {
		return nil
	}
	return p.keep(4 * len(s.Value))
}

// spread lets through a list whose elements become arguments: f(list...).
func (p *pass) spread(o tengo.Object) (tengo.Object, error) {
	list, ok := elementsOf(o)
	if !ok {
		return nil, fmt.Errorf("not an array: %s", o.TypeName())
	}
	if len(list) > maxArguments {
		return nil, fmt.Errorf("%d arguments; at most %d are possible", len(list), maxArguments)
	}
	return o, p.keep(2 * sizeObject * len(list)) // as arguments, and maybe as a list of them
}

// iterable returns what `for … in` walks over: maps in the order of their keys.
func (p *pass) iterable(o tengo.Object) (tengo.Object, error) {
	if m, ok := pairsOf(o); ok {
		keys, err := p.keys(m)
		if err != nil {
			return nil, err
		}
		return &sortedMap{pairs: m, keys: keys}, p.keep(2 * sizeObject * len(m))
	}
	return o, p.runes(o)
}

// keys returns the keys of a map in their order. What that takes depends on how long they are, too.
func (p *pass) keys(m map[string]tengo.Object) ([]string, error) {
	size := len(m)
	for key := range m {
		size += len(key) / 8
	}
	if err := p.burn(int64(size)); err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(m)), nil
}

// sortedMap walks over a map in the order of its keys. A key that is deleted on the way is passed over; one that is added is not seen.
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

func mismatch(name, expected string, found tengo.Object) error {
	return tengo.ErrInvalidArgumentType{Name: name, Expected: expected, Found: found.TypeName()}
}

// append never changes an element that another list has. In Tengo it may: how lists share their elements depends there on how Go grows
// slices. Here the end of a list that append made says how much of it is in use, so that only the longest list grows in its place.
func builtinAppend(p *pass, args []tengo.Object) (tengo.Object, error) {
	if len(args) < 2 {
		return nil, tengo.ErrWrongNumArguments
	}
	list, ok := elementsOf(args[0])
	if !ok {
		return nil, mismatch("first", "array", args[0])
	}
	items := args[1:]
	need := len(list) + len(items)
	if whole := list[:cap(list)]; len(whole) > need {
		if end, ok := whole[len(whole)-1].(*spare); ok && end.first == &whole[0] && end.used == len(list) {
			end.used = need
			copy(whole[len(list):], items)
			return &tengo.Array{Value: whole[:need]}, p.keep(2*sizeObject + sizeObject*len(items))
		}
	}
	room := 2*need + 8
	if err := p.keep(sizeObject * room); err != nil {
		return nil, err
	}
	whole := make([]tengo.Object, room+1)
	copy(whole[copy(whole, list):], items)
	whole[room] = &spare{first: &whole[0], used: need}
	return &tengo.Array{Value: whole[:need]}, nil
}

// spare is the last element of a slice that append made, behind its room to grow.
type spare struct {
	tengo.ObjectImpl
	first *tengo.Object // of the slice: a part of it may not grow
	used  int
}

func builtinSplice(p *pass, args []tengo.Object) (tengo.Object, error) {
	if len(args) == 0 {
		return nil, tengo.ErrWrongNumArguments
	}
	list, ok := args[0].(*tengo.Array)
	if !ok {
		return nil, mismatch("first", "array", args[0])
	}
	n := int64(len(list.Value))
	bounds := [2]int64{0, n} // where, and how many
	for i, name := range []string{"second", "third"} {
		if len(args) <= i+1 {
			break
		}
		number, ok := args[i+1].(*tengo.Int)
		if !ok {
			return nil, mismatch(name, "int", args[i+1])
		}
		bounds[i] = number.Value
	}
	start, count := bounds[0], bounds[1]
	if start < 0 || start > n || count < 0 {
		return nil, tengo.ErrIndexOutOfBounds
	}
	end := start + min(count, n-start)
	if err := p.keep(2 * sizeObject * (len(list.Value) + len(args))); err != nil {
		return nil, err
	}
	deleted := slices.Clone(list.Value[start:end])
	list.Value = slices.Concat(list.Value[:start], args[min(3, len(args)):], list.Value[end:])
	return &tengo.Array{Value: deleted}, nil
}

func builtinRange(p *pass, args []tengo.Object) (tengo.Object, error) {
	if len(args) < 2 || len(args) > 3 {
		return nil, tengo.ErrWrongNumArguments
	}
	numbers := [3]int64{2: 1}
	for i, name := range []string{"start", "stop", "step"}[:len(args)] {
		number, ok := args[i].(*tengo.Int)
		if !ok {
			return nil, mismatch(name, "int", args[i])
		}
		numbers[i] = number.Value
	}
	start, stop, step := numbers[0], numbers[1], numbers[2]
	if step <= 0 {
		return nil, tengo.ErrInvalidRangeStep
	}
	way := uint64(max(start, stop)) - uint64(min(start, stop)) // fits even if the difference of the two does not fit an int64
	count := way / uint64(step)
	if way%uint64(step) > 0 {
		count++
	}
	if count > MaxFuel {
		return nil, errFuel
	}
	if err := p.keep(2 * sizeObject * int(count)); err != nil {
		return nil, err
	}
	if start > stop {
		step = -step
	}
	list := make([]tengo.Object, count)
	for i := range list {
		list[i] = &tengo.Int{Value: start + int64(i)*step}
	}
	return &tengo.Array{Value: list}, nil
}

func builtinBytes(p *pass, args []tengo.Object) (tengo.Object, error) {
	if len(args) < 1 || len(args) > 2 {
		return nil, tengo.ErrWrongNumArguments
	}
	if n, ok := args[0].(*tengo.Int); ok {
		if n.Value < 0 || n.Value > maxString {
			return nil, tengo.ErrBytesLimit
		}
		return &tengo.Bytes{Value: make([]byte, n.Value)}, p.keep(int(n.Value))
	}
	if b, ok := tengo.ToByteSlice(args[0]); ok {
		return &tengo.Bytes{Value: slices.Clone(b)}, p.keep(len(b))
	}
	return otherwise(args)
}

// otherwise returns the second argument of a conversion that is not possible, undefined if there is none.
func otherwise(args []tengo.Object) (tengo.Object, error) {
	if len(args) == 2 {
		return args[1], nil
	}
	return tengo.UndefinedValue, nil
}

func builtinString(p *pass, args []tengo.Object) (tengo.Object, error) {
	if len(args) < 1 || len(args) > 2 {
		return nil, tengo.ErrWrongNumArguments
	}
	switch o := args[0].(type) {
	case *tengo.String:
		return o, nil
	case *tengo.Undefined:
		return otherwise(args)
	default:
		text, err := p.text(o)
		if err != nil {
			return nil, err
		}
		return &tengo.String{Value: text}, nil
	}
}

func builtinFormat(p *pass, args []tengo.Object) (tengo.Object, error) {
	if len(args) == 0 {
		return nil, tengo.ErrWrongNumArguments
	}
	format, ok := args[0].(*tengo.String)
	if !ok {
		return nil, mismatch("format", "string", args[0])
	}
	values := make([]tengo.Object, len(args)-1)
	for i, arg := range args[1:] {
		values[i] = arg
		if scalar(arg) {
			continue
		}
		text, err := p.text(arg)
		if err != nil {
			return nil, err
		}
		values[i] = &printed{typeName: arg.TypeName(), text: text}
	}
	text, err := tengo.Format(format.Value, values...)
	if err != nil {
		return nil, err
	}
	if len(text) > maxString {
		return nil, tengo.ErrStringLimit
	}
	return &tengo.String{Value: text}, p.keep(len(format.Value) + 2*len(text))
}

// printed stands for a value in a format.
type printed struct {
	tengo.ObjectImpl
	typeName, text string
}

func (o *printed) TypeName() string { return o.typeName }
func (o *printed) String() string   { return o.text }

// time converts to a time in UTC.
func builtinTime(_ *pass, args []tengo.Object) (tengo.Object, error) {
	if len(args) < 1 || len(args) > 2 {
		return nil, tengo.ErrWrongNumArguments
	}
	switch o := args[0].(type) {
	case *tengo.Time:
		return o, nil
	case *tengo.Int:
		return &tengo.Time{Value: time.Unix(o.Value, 0).UTC()}, nil
	default:
		return otherwise(args)
	}
}
