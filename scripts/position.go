package scripts

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/d5/tengo/v2"
	"github.com/d5/tengo/v2/parser"
)

// maxTrace is how many positions an error keeps.
const maxTrace = 32

// frames reads from a VM where it is, and from where that was called, innermost first. Tengo keeps this to itself: it says it only in
// the text of an error of the script, and neither a function that is called nor a panic has one. Reading its fields by reflection is
// safe while the VM stands still, and right for the one version of Tengo that is used; a test holds both together.
func frames(vm *tengo.VM, files *parser.SourceFileSet) []string {
	v := reflect.ValueOf(vm).Elem()
	ip, count, stack := v.FieldByName("ip"), v.FieldByName("framesIndex"), v.FieldByName("frames")
	if !ip.IsValid() || !count.IsValid() || !stack.IsValid() {
		return nil
	}
	var trace []string
	at := ip.Int()
	for i := int(count.Int()) - 1; i >= 0 && len(trace) < maxTrace; i-- {
		frame := stack.Index(i)
		trace = append(trace, files.Position(sourcePos(frame.FieldByName("fn"), at-1)).String())
		if i > 0 {
			at = stack.Index(i - 1).FieldByName("ip").Int()
		}
	}
	return trace
}

// spot is a place in the code of a VM: cheap to take, because most are never shown.
type spot struct {
	fn reflect.Value
	ip int64
}

// The places of the fields that here reads: to find a field by its name takes most of the time of a read.
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

// here returns the current place of a VM.
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
	return spot{fn.Elem(), v.Field(vmIP).Int() - 1} // not the frame's field, which has another function later
}

// position says where that is, "" if it is nowhere.
func (s spot) position(files *parser.SourceFileSet) string {
	if !s.fn.IsValid() {
		return ""
	}
	return files.Position(positionIn(s.fn, s.ip)).String()
}

// sourcePos does what CompiledFunction.SourcePos does, with a function that can only be read by reflection.
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

// unwind takes an error of the VM apart: what went wrong, and where, innermost first. The VM wraps the cause once per frame, each time
// with a line "at file:line:column" behind it.
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
	return trace[:min(len(trace), maxTrace)], err
}

// crashText says what a panic of the VM means to an author.
func crashText(c *crash) string {
	text := c.Error()
	if strings.Contains(text, "index out of range") {
		return "too many values at once: calls are nested too deeply"
	}
	return text
}
