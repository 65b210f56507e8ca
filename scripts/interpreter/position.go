package interpreter

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/d5/tengo/v2"
	"github.com/d5/tengo/v2/parser"

	"writ/scripts"
)

// frames returns the current position of a VM and the positions of its callers, innermost first. Tengo does not export
// them: they are only in the text of a script error, and a called Go function or a panic has no such text. Reading
// private fields by reflection is safe while the VM is stopped, and correct for the pinned version of Tengo; a test
// compares the result with the text of an error.
func frames(vm *tengo.VM, files *parser.SourceFileSet) []string {
	v := reflect.ValueOf(vm).Elem()
	ip, count, stack := v.FieldByName("ip"), v.FieldByName("framesIndex"), v.FieldByName("frames")
	if !ip.IsValid() || !count.IsValid() || !stack.IsValid() {
		return nil
	}
	var trace []string
	at := ip.Int()
	for i := int(count.Int()) - 1; i >= 0 && len(trace) < scripts.MaxTrace; i-- {
		frame := stack.Index(i)
		trace = append(trace, files.Position(sourcePos(frame.FieldByName("fn"), at-1)).String())
		if i > 0 {
			at = stack.Index(i - 1).FieldByName("ip").Int()
		}
	}
	return trace
}

// spot is a place in the code of a VM. It is cheap to record, because most spots are never shown.
type spot struct {
	fn reflect.Value
	ip int64
}

// The indexes of the fields that the function here reads. A lookup of a field by name would take most of the time of a
// read.
var (
	vmIP     = fieldIndex[tengo.VM]("ip")
	vmDepth  = fieldIndex[tengo.VM]("framesIndex")
	vmFrames = fieldIndex[tengo.VM]("frames")
	frameFn  = func() int {
		f, _ := reflect.TypeFor[tengo.VM]().FieldByName("frames")
		fn, _ := f.Type.Elem().FieldByName("fn")
		return fn.Index[0]
	}()
)

func fieldIndex[T any](name string) int {
	f, _ := reflect.TypeFor[T]().FieldByName(name)
	return f.Index[0]
}

func here(vm *tengo.VM) (s spot) {
	v := reflect.ValueOf(vm).Elem()
	depth := int(v.Field(vmDepth).Int())
	if depth < 1 {
		return s
	}
	fn := v.Field(vmFrames).Index(depth - 1).Field(frameFn)
	if fn.IsNil() {
		return s
	}
	return spot{fn.Elem(), v.Field(vmIP).Int() - 1} // not the frame's field, which later holds another function
}

// position returns the source position of a spot, or "".
func (s spot) position(files *parser.SourceFileSet) string {
	if !s.fn.IsValid() {
		return ""
	}
	return files.Position(positionIn(s.fn, s.ip)).String()
}

// sourcePos is CompiledFunction.SourcePos for a function that is accessible only by reflection.
func sourcePos(fn reflect.Value, ip int64) parser.Pos {
	if !fn.IsValid() || fn.IsNil() {
		return parser.NoPos
	}
	return positionIn(fn.Elem(), ip)
}

func positionIn(fn reflect.Value, ip int64) parser.Pos {
	positions := fn.FieldByName("SourceMap")
	for ; ip >= 0; ip-- {
		if pos := positions.MapIndex(reflect.ValueOf(int(ip))); pos.IsValid() {
			return parser.Pos(pos.Int())
		}
	}
	return parser.NoPos
}

// unwind splits an error of the VM into its cause and its positions, innermost first. The VM wraps the cause once per
// frame, each time with an additional line "at file:line:column".
func unwind(err error) (trace []string, cause error) {
	if c, ok := errors.AsType[*crash](err); ok {
		return c.frames, errors.New(crashText(c))
	}
	const prefix, separator = "Runtime Error: ", "\n\tat "
	for e := err; e != nil; e = errors.Unwrap(e) {
		inner := errors.Unwrap(e)
		if inner == nil {
			break
		}
		at, found := strings.CutPrefix(e.Error(), inner.Error()+separator)
		if !found { // the innermost
			at, found = strings.CutPrefix(e.Error(), prefix+inner.Error()+separator)
		}
		if !found {
			break
		}
		trace = append(trace, at)
		err = inner
	}
	if t, ok := err.(*thrown); ok {
		err = t.cause
	}
	slices.Reverse(trace)
	return trace[:min(len(trace), scripts.MaxTrace)], err
}

// crashText describes a panic of the VM for the author of the script.
func crashText(c *crash) string {
	text := c.Error()
	if strings.Contains(text, "index out of range") {
		return "too many values at once: calls are nested too deeply"
	}
	return text
}
