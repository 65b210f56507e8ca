package catalog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Example returns a script that calls the operation with its required arguments and outputs a field of the result.
func (o *Operation) Example() string {
	e := example{modules: []string{o.Module}}
	call := o.Name() + "(" + strings.Join(e.arguments(o), ", ") + ")"
	switch own := o.Own(); {
	case o.Module == runModule: // run.now returns a time, not a handle
		call = e.output(o.Verb, call)
	case len(own) > 0:
		call = "result := " + call + "\n" + e.output(own[0].Name, "result."+own[0].Name)
	}
	var b strings.Builder
	for _, module := range e.modules {
		fmt.Fprintf(&b, "%s := import(%q)\n", module, module)
	}
	return b.String() + "\n" + call + "\n"
}

// runModule is the module of the run itself. It has more functions than its operations, such as output.
const runModule = "run"

// example collects the modules that an example imports.
type example struct{ modules []string }

func (e *example) use(module string) string {
	if !slices.Contains(e.modules, module) {
		e.modules = append(e.modules, module)
	}
	return module
}

func (e *example) output(name, value string) string {
	return fmt.Sprintf("%s.output({%s: %s})", e.use(runModule), name, value)
}

// sampleName is the name of resources in examples.
const sampleName = `"web"`

func (e *example) arguments(o *Operation) []string {
	var args []string
	if o.Named() {
		args = append(args, sampleName)
	}
	if spec := e.object(o.Args); spec != "{}" {
		args = append(args, spec)
	}
	return args
}

func (e *example) object(s Schema) string {
	var fields []string
	for i := range s {
		if s[i].Required {
			fields = append(fields, s[i].Name+": "+e.value(&s[i]))
		}
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// value returns a valid value for a field.
func (e *example) value(f *Field) string {
	switch {
	case f.Type == Handle && f.ByName:
		return sampleName
	case f.Type == Handle:
		return e.use(string(f.Kinds[0])) + `.get("data")`
	case f.Type == Int || f.Type == Decimal:
		return fmt.Sprint(map[string]int64{"cpus": 2, "memory_mib": 2048, "disk_gib": 10}[f.Uses])
	case f.Type == List && f.First != nil:
		return "[" + e.value(f.First) + "]"
	case f.Type == List && f.Min != nil:
		return "[" + e.value(f.Elem) + "]"
	case f.Type == List:
		return "[]"
	case f.Sample() != "":
		return strconv.Quote(f.Sample())
	default:
		return `"date"`
	}
}
