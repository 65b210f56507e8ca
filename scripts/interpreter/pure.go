package interpreter

import (
	"fmt"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/d5/tengo/v2"
	"github.com/d5/tengo/v2/stdlib"

	"writ/scripts"
)

// The pure modules are the modules of Tengo's library without two kinds of functions: functions that read a clock, the
// host's time zone or a source of randomness, and functions that can use all memory or time in one call.

func mathModule() map[string]member {
	return stdlibModule("math", map[string][2]int{
		"abs": {1, 1}, "acos": {1, 1}, "acosh": {1, 1}, "asin": {1, 1}, "asinh": {1, 1}, "atan": {1, 1}, "atan2": {2, 2},
		"atanh": {1, 1}, "cbrt": {1, 1}, "ceil": {1, 1}, "copysign": {2, 2}, "cos": {1, 1}, "cosh": {1, 1}, "dim": {2, 2},
		"exp": {1, 1}, "exp2": {1, 1}, "expm1": {1, 1}, "floor": {1, 1}, "hypot": {2, 2}, "inf": {1, 1}, "is_inf": {2, 2},
		"is_nan": {1, 1}, "ldexp": {2, 2}, "log": {1, 1}, "log10": {1, 1}, "log1p": {1, 1}, "log2": {1, 1}, "max": {2, 2},
		"min": {2, 2}, "mod": {2, 2}, "nan": {0, 0}, "pow": {2, 2}, "pow10": {1, 1}, "signbit": {1, 1}, "sin": {1, 1},
		"sinh": {1, 1}, "sqrt": {1, 1}, "tan": {1, 1}, "tanh": {1, 1}, "trunc": {1, 1},
	}, map[string]member{})
}

func textModule() map[string]member {
	return stdlibModule("text", map[string][2]int{
		"atoi": {1, 1}, "compare": {2, 2}, "contains": {2, 2}, "contains_any": {2, 2}, "count": {2, 2}, "equal_fold": {2, 2},
		"fields": {1, 1}, "format_bool": {1, 1}, "format_int": {2, 2}, "has_prefix": {2, 2}, "has_suffix": {2, 2},
		"index": {2, 2}, "index_any": {2, 2}, "itoa": {1, 1}, "join": {2, 2}, "last_index": {2, 2}, "last_index_any": {2, 2},
		"pad_left": {2, 3}, "pad_right": {2, 3}, "parse_bool": {1, 1}, "parse_float": {2, 2}, "parse_int": {3, 3},
		"quote": {1, 1}, "repeat": {2, 2}, "split": {2, 2}, "split_after": {2, 2}, "split_after_n": {3, 3}, "split_n": {3, 3},
		"substr": {2, 3}, "title": {1, 1}, "to_lower": {1, 1}, "to_title": {1, 1}, "to_upper": {1, 1}, "trim": {2, 2},
		"trim_left": {2, 2}, "trim_prefix": {2, 2}, "trim_right": {2, 2}, "trim_space": {1, 1}, "trim_suffix": {2, 2},
		"unquote": {1, 1},
	}, map[string]member{
		"format_float": pure(4, 4, textFormatFloat),
		"re_find":      pure(2, 3, textFind),
		"re_match":     expression("re_match", 2, 2),
		"re_replace":   expression("re_replace", 3, 3),
		"re_split":     expression("re_split", 2, 3),
		"replace":      pure(4, 4, textReplace),
	})
}

func base64Module() map[string]member {
	return stdlibModule("base64", map[string][2]int{
		"encode": {1, 1}, "decode": {1, 1}, "raw_encode": {1, 1}, "raw_decode": {1, 1},
		"url_encode": {1, 1}, "url_decode": {1, 1}, "raw_url_encode": {1, 1}, "raw_url_decode": {1, 1},
	}, map[string]member{})
}

func hexModule() map[string]member {
	return stdlibModule("hex", map[string][2]int{"encode": {1, 1}, "decode": {1, 1}}, map[string]member{})
}

// timesModule returns functions on times in UTC and on durations in nanoseconds. A time may also be given as seconds
// since 1970.
func timesModule() map[string]member {
	return stdlibModule("times", map[string][2]int{
		"parse_duration": {1, 1}, "duration_hours": {1, 1}, "duration_minutes": {1, 1}, "duration_nanoseconds": {1, 1},
		"duration_seconds": {1, 1}, "duration_string": {1, 1}, "month_string": {1, 1},
	}, map[string]member{
		"add": onTimes("add", 1, 2), "add_date": onTimes("add_date", 1, 4), "sub": onTimes("sub", 2, 2),
		"after": onTimes("after", 2, 2), "before": onTimes("before", 2, 2), "time_year": onTimes("time_year", 1, 1),
		"time_month": onTimes("time_month", 1, 1), "time_day": onTimes("time_day", 1, 1),
		"time_weekday": onTimes("time_weekday", 1, 1), "time_hour": onTimes("time_hour", 1, 1),
		"time_minute": onTimes("time_minute", 1, 1), "time_second": onTimes("time_second", 1, 1),
		"time_nanosecond": onTimes("time_nanosecond", 1, 1), "time_unix": onTimes("time_unix", 1, 1),
		"time_unix_nano": onTimes("time_unix_nano", 1, 1), "time_format": onTimes("time_format", 1, 2),
		"time_string": onTimes("time_string", 1, 1), "is_zero": onTimes("is_zero", 1, 1),
		"date":  pure(3, 7, timesDate),
		"parse": pure(2, 2, timesParse),
		"unix":  pure(1, 2, timesUnix),
	})
}

// stdlibModule returns a module with functions of Tengo's library, all constants of the library's module, and the given
// members.
func stdlibModule(name string, functions map[string][2]int, members map[string]member) map[string]member {
	for key, o := range stdlib.BuiltinModules[name] {
		if _, isFunc := o.(*tengo.UserFunction); !isFunc {
			members[key] = member{value: o}
		}
	}
	for key, arity := range functions {
		members[key] = pure(arity[0], arity[1], fromLibrary(name, key))
	}
	return members
}

// sets lists the functions of module text that search a text for characters of a set.
var sets = []string{"contains_any", "index_any", "last_index_any", "trim", "trim_left", "trim_right"}

// fromLibrary returns a safe version of a function of Tengo's library. Its arguments must be scalars, because the
// library would print all other values. Its work burns fuel, its result is limited, and a panic becomes an error.
func fromLibrary(module, name string) pureFunc {
	function, ok := stdlib.BuiltinModules[module][name].(*tengo.UserFunction)
	if !ok {
		panic(module + "." + name + " is not a function of Tengo's library") // a mistake in the tables above
	}
	return func(fuel *meter, args []tengo.Object) (result tengo.Object, err error) {
		work := int64(0)
		for i, arg := range args {
			size, err := scalars(arg, name == "join" && i == 0)
			if err != nil {
				return nil, fmt.Errorf("%s.%s: argument %d %w", module, name, i+1, err)
			}
			work += size
		}
		if module == "text" && slices.Contains(sets, name) {
			work += length(args[0]) * length(args[1])
		}
		if err := fuel.burn(work / 16); err != nil {
			return nil, err
		}
		defer func() {
			if r := recover(); r != nil {
				result, err = nil, fmt.Errorf("%s.%s does not take these arguments", module, name)
			}
		}()
		if result, err = function.Value(args...); err != nil {
			return nil, err
		}
		size, err := scalars(result, true)
		if err == nil && size > 64*maxString {
			err = tengo.ErrStringLimit
		}
		if err != nil {
			return nil, err
		}
		return result, fuel.burnMemory(int(size))
	}
}

// length returns the length of a text, or 0 for other values.
func length(o tengo.Object) int64 {
	s, ok := o.(*tengo.String)
	if !ok {
		return 0
	}
	return int64(len(s.Value))
}

// scalars estimates the memory of o in bytes. It is an error if o is not a scalar, or, if listPossible, a list of
// scalars.
func scalars(o tengo.Object, listPossible bool) (int64, error) {
	if list, ok := elementsOf(o); ok && listPossible {
		size := int64(0)
		for _, e := range list {
			n, err := scalars(e, false)
			if err != nil {
				return 0, fmt.Errorf("has an element that %w", err)
			}
			size += 96 + n
		}
		return size, nil
	}
	switch o := o.(type) {
	case *tengo.String:
		return int64(len(o.Value)), nil
	case *tengo.Bytes:
		return int64(len(o.Value)), nil
	case *tengo.Error:
		if o.Value != nil {
			return scalars(o.Value, false)
		}
	case *handle:
		return 0, fmt.Errorf("is %s, a handle; read one of its fields", o)
	case *secret:
		return 0, fmt.Errorf("is a secret: %w", o.misused())
	default:
		if !scalar(o) {
			return 0, fmt.Errorf("is a %s", o.TypeName())
		}
	}
	return 8, nil
}

func textFormatFloat(_ *meter, args []tengo.Object) (tengo.Object, error) {
	f, okFloat := tengo.ToFloat64(args[0])
	format, okFormat := args[1].(*tengo.String)
	precision, okPrecision := args[2].(*tengo.Int)
	bits, okBits := args[3].(*tengo.Int)
	switch {
	case !okFloat || !okFormat || !okPrecision || !okBits || len(format.Value) != 1:
	case precision.Value < -1 || precision.Value > 100 || bits.Value != 32 && bits.Value != 64:
	default:
		return &tengo.String{Value: strconv.FormatFloat(f, format.Value[0], int(precision.Value), int(bits.Value))}, nil
	}
	return nil, fmt.Errorf(`text.format_float takes a number, one letter, a precision from -1 to 100 and 32 or 64`)
}

// textReplace replaces the first n occurrences, or all if n is negative.
func textReplace(fuel *meter, args []tengo.Object) (tengo.Object, error) {
	var texts [3]string
	for i := range texts {
		s, ok := args[i].(*tengo.String)
		if !ok {
			return nil, mismatch("number "+strconv.Itoa(i+1), "string", args[i])
		}
		texts[i] = s.Value
	}
	limit, ok := args[3].(*tengo.Int)
	if !ok {
		return nil, mismatch("number 4", "int", args[3])
	}
	text, old, with := texts[0], texts[1], texts[2]
	count := int64(strings.Count(text, old))
	if limit.Value >= 0 {
		count = min(count, limit.Value)
	}
	size := int64(len(text)) + count*int64(len(with)-len(old))
	if size > maxString {
		return nil, tengo.ErrStringLimit
	}
	if err := fuel.burnMemory(len(text) + int(size)); err != nil {
		return nil, err
	}
	return &tengo.String{Value: strings.Replace(text, old, with, int(count))}, nil
}

// Limits of a regular expression. Matching takes time proportional to pattern times text, and memory proportional to
// groups times matches.
const (
	maxGroups  = 20
	maxMatches = 1_000
	maxSubject = 64 << 10
)

// compileExpression compiles a regular expression and burns fuel for matching it against a text.
func compileExpression(fuel *meter, pattern, text tengo.Object) (*regexp.Regexp, *tengo.Error, error) {
	expr, ok1 := pattern.(*tengo.String)
	subject, ok2 := text.(*tengo.String)
	switch {
	case !ok1 || !ok2:
		return nil, nil, fmt.Errorf("a regular expression and the text are strings")
	case len(expr.Value) > scripts.MaxPattern:
		return nil, nil, fmt.Errorf("a regular expression may have %d bytes", scripts.MaxPattern)
	case len(subject.Value) > maxSubject:
		return nil, nil, fmt.Errorf("a text for a regular expression may have %d bytes", maxSubject)
	}
	size := int64(0)
	if parsed, err := syntax.Parse(expr.Value, syntax.Perl); err == nil {
		if size = instructions(parsed); size > scripts.MaxFuel/16 {
			return nil, nil, errFuel
		}
	}
	if err := fuel.burn(100 + 4*size + int64(len(subject.Value))*(size+8)/8); err != nil {
		return nil, nil, err
	}
	re, err := regexp.Compile(expr.Value)
	if err != nil {
		return nil, &tengo.Error{Value: &tengo.String{Value: err.Error()}}, nil
	}
	if re.NumSubexp() > maxGroups {
		return nil, nil, fmt.Errorf("a regular expression may have %d groups", maxGroups)
	}
	return re, nil, nil
}

// instructions estimates the size of the program of an expression. Nested repetitions multiply.
func instructions(re *syntax.Regexp) int64 {
	size := int64(1 + len(re.Rune)/2)
	for _, sub := range re.Sub {
		size += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= int64(max(re.Min, re.Max, 1))
	}
	return min(size, math.MaxInt32)
}

// expression returns a safe version of a library function on regular expressions.
func expression(name string, least, most int) member {
	call := fromLibrary("text", name)
	return pure(least, most, func(fuel *meter, args []tengo.Object) (tengo.Object, error) {
		_, wrong, err := compileExpression(fuel, args[0], args[1])
		if wrong != nil || err != nil {
			return wrong, err
		}
		if name == "re_replace" { // each match reads the replacement
			if err := fuel.burn(length(args[1]) * length(args[2]) / 16); err != nil {
				return nil, err
			}
		}
		return call(fuel, args)
	})
}

// textFind returns the matches with their groups: [[{text, begin, end}, …], …], or undefined without a match.
func textFind(fuel *meter, args []tengo.Object) (tengo.Object, error) {
	re, wrong, err := compileExpression(fuel, args[0], args[1])
	if wrong != nil || err != nil {
		return wrong, err
	}
	count := 1
	if len(args) == 3 {
		n, ok := args[2].(*tengo.Int)
		if !ok {
			return nil, mismatch("third", "int", args[2])
		}
		if count = maxMatches; n.Value >= 0 {
			count = int(min(n.Value, maxMatches))
		}
	}
	text := args[1].(*tengo.String).Value
	found := re.FindAllStringSubmatchIndex(text, count)
	if found == nil {
		return tengo.UndefinedValue, nil
	}
	if err := fuel.burnMemory(len(found) * len(found[0]) / 2 * (sizeMap + 3*sizeKey)); err != nil {
		return nil, err
	}
	matches := make([]tengo.Object, len(found))
	for i, m := range found {
		groups := make([]tengo.Object, 0, len(m)/2)
		for j := 0; j < len(m); j += 2 {
			if m[j] < 0 { // the group did not participate
				groups = append(groups, tengo.UndefinedValue)
				continue
			}
			groups = append(groups, &tengo.ImmutableMap{Value: map[string]tengo.Object{
				"text":  &tengo.String{Value: text[m[j]:m[j+1]]},
				"begin": &tengo.Int{Value: int64(m[j])},
				"end":   &tengo.Int{Value: int64(m[j+1])},
			}})
		}
		matches[i] = &tengo.Array{Value: groups}
	}
	return &tengo.Array{Value: matches}, nil
}

// onTimes returns a library function that computes in UTC: it converts its first `times` arguments to times in UTC.
func onTimes(name string, times, arity int) member {
	call := fromLibrary("times", name)
	return pure(arity, arity, func(fuel *meter, args []tengo.Object) (tengo.Object, error) {
		for i := range times {
			switch t := args[i].(type) {
			case *tengo.Time:
				args[i] = &tengo.Time{Value: t.Value.UTC()}
			case *tengo.Int:
				args[i] = &tengo.Time{Value: time.Unix(t.Value, 0).UTC()}
			}
		}
		return call(fuel, args)
	})
}

// timesDate returns a time for year, month, day and, optionally, hour, minute, second and nanosecond.
func timesDate(_ *meter, args []tengo.Object) (tengo.Object, error) {
	var parts [7]int
	if err := integers(args, parts[:]); err != nil {
		return nil, err
	}
	at := time.Date(parts[0], time.Month(parts[1]), parts[2], parts[3], parts[4], parts[5], parts[6], time.UTC)
	return &tengo.Time{Value: at}, nil
}

// timesParse parses a time by its layout. A zone given only by name counts as UTC, because its meaning depends on the
// host.
func timesParse(fuel *meter, args []tengo.Object) (tengo.Object, error) {
	layout, ok1 := args[0].(*tengo.String)
	text, ok2 := args[1].(*tengo.String)
	if !ok1 || !ok2 {
		return nil, fmt.Errorf("times.parse takes two strings")
	}
	if err := fuel.burn(int64(len(layout.Value)+len(text.Value)) / 4); err != nil {
		return nil, err
	}
	at, err := time.ParseInLocation(layout.Value, text.Value, time.UTC)
	if err != nil {
		why := err.Error() // it contains layout and text
		return &tengo.Error{Value: &tengo.String{Value: why}}, fuel.burnMemory(len(why))
	}
	return &tengo.Time{Value: at.UTC()}, nil
}

func timesUnix(_ *meter, args []tengo.Object) (tengo.Object, error) {
	var parts [2]int64
	if err := integers(args, parts[:]); err != nil {
		return nil, err
	}
	return &tengo.Time{Value: time.Unix(parts[0], parts[1]).UTC()}, nil
}

// integers copies the values of arguments, which must be ints.
func integers[N int | int64](args []tengo.Object, to []N) error {
	for i, arg := range args {
		n, ok := arg.(*tengo.Int)
		if !ok {
			return mismatch("number "+strconv.Itoa(i+1), "int", arg)
		}
		to[i] = N(n.Value)
	}
	return nil
}
