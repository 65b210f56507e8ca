package interpreter

import (
	"slices"
	"time"

	"github.com/d5/tengo/v2"

	"writ/scripts"
)

// bounded replaces builtin functions of Tengo. In Tengo one call can use all memory or recurse without end (range,
// bytes, copy, string, format, splice) or parse a long text (int, float). The result of append and splice depends on
// how Go grows slices, and the result of time on the time zone of the host.
var bounded = map[string]pureFunc{
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

// weighed wraps a builtin function of Tengo that may parse a text, so that it burns fuel for its arguments.
func weighed(name string) pureFunc {
	all := tengo.GetAllBuiltinFunctions()
	builtin := all[slices.IndexFunc(all, func(f *tengo.BuiltinFunction) bool { return f.Name == name })]
	return func(fuel *meter, args []tengo.Object) (tengo.Object, error) {
		for _, arg := range args {
			if err := fuel.weigh(arg, 16); err != nil {
				return nil, err
			}
		}
		return builtin.Value(args...)
	}
}

func mismatch(name, expected string, found tengo.Object) error {
	return tengo.ErrInvalidArgumentType{Name: name, Expected: expected, Found: found.TypeName()}
}

// builtinAppend never changes an element that another list shares. Tengo's append may: in Tengo, the growth of Go's
// slices determines which lists share their elements. Here the last slot of a slice that append made records the length
// in use. So only the longest list on that slice grows in place.
func builtinAppend(fuel *meter, args []tengo.Object) (tengo.Object, error) {
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
			return &tengo.Array{Value: whole[:need]}, fuel.burnMemory(2*sizeObject + sizeObject*len(items))
		}
	}
	room := 2*need + 8
	if err := fuel.burnMemory(sizeObject * room); err != nil {
		return nil, err
	}
	whole := make([]tengo.Object, room+1)
	copy(whole[copy(whole, list):], items)
	whole[room] = &spare{first: &whole[0], used: need}
	return &tengo.Array{Value: whole[:need]}, nil
}

// spare is the last element of a slice that append made, after its free capacity.
type spare struct {
	tengo.ObjectImpl
	first *tengo.Object // the first element of the slice; a subslice with another first element must not grow in place
	used  int
}

func builtinSplice(fuel *meter, args []tengo.Object) (tengo.Object, error) {
	if len(args) == 0 {
		return nil, tengo.ErrWrongNumArguments
	}
	list, ok := args[0].(*tengo.Array)
	if !ok {
		return nil, mismatch("first", "array", args[0])
	}
	n := int64(len(list.Value))
	bounds := [2]int64{0, n} // start and count
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
	if err := fuel.burnMemory(2 * sizeObject * (len(list.Value) + len(args))); err != nil {
		return nil, err
	}
	deleted := slices.Clone(list.Value[start:end])
	list.Value = slices.Concat(list.Value[:start], args[min(3, len(args)):], list.Value[end:])
	return &tengo.Array{Value: deleted}, nil
}

func builtinRange(fuel *meter, args []tengo.Object) (tengo.Object, error) {
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
	// The unsigned distance fits even if the signed difference overflows int64.
	way := uint64(max(start, stop)) - uint64(min(start, stop))
	count := way / uint64(step)
	if way%uint64(step) > 0 {
		count++
	}
	if count > scripts.MaxFuel {
		return nil, errFuel
	}
	if err := fuel.burnMemory(2 * sizeObject * int(count)); err != nil {
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

func builtinBytes(fuel *meter, args []tengo.Object) (tengo.Object, error) {
	if len(args) < 1 || len(args) > 2 {
		return nil, tengo.ErrWrongNumArguments
	}
	if n, ok := args[0].(*tengo.Int); ok {
		if n.Value < 0 || n.Value > maxString {
			return nil, tengo.ErrBytesLimit
		}
		return &tengo.Bytes{Value: make([]byte, n.Value)}, fuel.burnMemory(int(n.Value))
	}
	if b, ok := tengo.ToByteSlice(args[0]); ok {
		return &tengo.Bytes{Value: slices.Clone(b)}, fuel.burnMemory(len(b))
	}
	return otherwise(args)
}

// otherwise returns the second argument of a failed conversion, or undefined without one.
func otherwise(args []tengo.Object) (tengo.Object, error) {
	if len(args) == 2 {
		return args[1], nil
	}
	return tengo.UndefinedValue, nil
}

func builtinString(fuel *meter, args []tengo.Object) (tengo.Object, error) {
	if len(args) < 1 || len(args) > 2 {
		return nil, tengo.ErrWrongNumArguments
	}
	switch o := args[0].(type) {
	case *tengo.String:
		return o, nil
	case *tengo.Undefined:
		return otherwise(args)
	default:
		text, err := text(fuel, o)
		if err != nil {
			return nil, err
		}
		return &tengo.String{Value: text}, nil
	}
}

func builtinFormat(fuel *meter, args []tengo.Object) (tengo.Object, error) {
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
		text, err := text(fuel, arg)
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
	return &tengo.String{Value: text}, fuel.burnMemory(len(format.Value) + 2*len(text))
}

// printed replaces an argument of format by its text.
type printed struct {
	tengo.ObjectImpl
	typeName, text string
}

func (o *printed) TypeName() string { return o.typeName }
func (o *printed) String() string   { return o.text }

// builtinTime converts to a time in UTC.
func builtinTime(_ *meter, args []tengo.Object) (tengo.Object, error) {
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
