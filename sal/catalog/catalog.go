// Package catalog declares every operation of writ once: its arguments, results, mutable fields, whether it destroys, whether
// it may be repeated, how long it may take and which driver it needs. From here come the modules of scripts and their checks, the
// strict decoding on nodes, placement, the reference manual and the plan's text. It is pure data: it knows no driver and does no I/O.
//
// The arguments and the result of an operation are Go structs, VolumeCreate and Volume for volume.create; drivers work with these.
// Their schemas are derived from the struct tags, so that there is no second list. What the tags mean is said in schema.go.
package catalog

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"writ"
)

// Effect says what an operation does to the resource it names.
type Effect string

// The effects.
const (
	Make   Effect = "make"   // create(name, spec): make it so
	Alter  Effect = "alter"  // changes a resource that exists
	Look   Effect = "look"   // only reads
	Remove Effect = "remove" // the resource is gone afterwards
	Find   Effect = "find"   // answered by the supervisor from what it knows; no driver and no job
)

// Repeat says whether an operation may be carried out again when nobody knows whether it was.
type Repeat string

// The two sorts of operations.
const (
	Safe Repeat = "safe" // "make it so": again is the same
	Once Repeat = "once" // at most once: OUTCOME_UNKNOWN instead of a second time
)

// Operation is one entry of the catalogue. It is shared and must not be changed.
type Operation struct {
	Module      string            // "machine"; also the driver's slot on a node
	Verb        string            // "create"
	Help        string            // one sentence
	Kind        writ.ResourceKind // of the resource that Name names, "" if the operation has none
	Effect      Effect
	Data        Data   // what it can do to data that exists
	Risk        string // which data, and when, in a sentence; "" if none can get lost
	Destructive bool   // Data is DataDestroys: the payload must name what it is about as what may be destroyed
	Repeat      Repeat
	// Aside says that it reads what may grow meanwhile: no run waits for another one's call of it, nor does such a call wait for them before it
	// is sent. Its node lets it read between two other operations on the resource.
	Aside   bool
	Timeout time.Duration // from start to end, if the script gives none
	Args    Schema        // of the spec map
	Result  Schema        // of the fields that a handle offers
	// Fetches says that it mostly waits for somebody else's server: on its node it takes a place among transfers, and no slot.
	Fetches bool
	// Origin is the field of Args that names what the operation copies, which may be on another node; "" if everything has to be on one.
	Origin string
	// Needs says how much of its node the resource uses once the operation is done; it is nil if the operation changes nothing about
	// that. A part that is zero stays as it was. Handles among the arguments may be in any form.
	Needs func(args map[string]any) writ.Capacity
	// Uses returns the disk space of the resource according to a result, in GiB, and whether the result has the field. Archives and
	// snapshots are included: only the node measures them. Uses is nil if the schema of the result has no such field.
	Uses func(result map[string]any) (diskGiB int64, ok bool)
	// Measured reports whether only the node learns what the operation adds to its disk, when it is done. Such a call needs a node that has
	// some disk left.
	Measured bool

	newArgs func() any // a pointer to a zero argument struct
	structs map[reflect.Type]Schema
}

// Name is "module.verb".
func (o *Operation) Name() string { return o.Module + "." + o.Verb }

// Named reports whether the operation's first argument is the name of a resource.
func (o *Operation) Named() bool { return o.Kind != "" }

// operations is the catalogue, in the order of the manual.
var operations = slices.Concat(
	imageOperations(),
	volumeOperations(),
	networkOperations(),
	machineOperations(),
	containerOperations(),
	herodbOperations(),
	nodeOperations(),
	runOperations(),
)

// byName finds an operation by "module.verb".
var byName = func() map[string]*Operation {
	m := make(map[string]*Operation, len(operations))
	for _, o := range operations {
		m[o.Name()] = o
	}
	return m
}()

// byType finds the schema of an argument or result struct.
var byType = func() map[reflect.Type]Schema {
	m := map[reflect.Type]Schema{}
	for _, o := range operations {
		maps.Copy(m, o.structs)
	}
	return m
}()

// Operations returns every operation, module by module, in the order of the manual.
func Operations() []*Operation { return slices.Clone(operations) }

// Lookup finds an operation by its name, "machine.create".
func Lookup(name string) (*Operation, bool) {
	o, ok := byName[name]
	return o, ok
}

// Modules returns the names of all modules, in the order of the manual. The module "run" is not only made of operations: scripts
// add to it what a run knows of itself.
func Modules() []string {
	var names []string
	for _, o := range operations {
		if !slices.Contains(names, o.Module) {
			names = append(names, o.Module)
		}
	}
	return names
}

// Of returns the operations of one module, nil if there is no such module.
func Of(module string) []*Operation {
	var all []*Operation
	for _, o := range operations {
		if o.Module == module {
			all = append(all, o)
		}
	}
	return all
}

// declare completes an operation with the schemas of its argument struct A and its result struct R.
func declare[A, R any](o Operation) *Operation {
	o.Args, o.Result = schemaOf[A](), schemaOf[R]()
	o.newArgs = func() any { return new(A) }
	o.structs = map[reflect.Type]Schema{reflect.TypeFor[A](): o.Args, reflect.TypeFor[R](): o.Result}
	if i := slices.IndexFunc(o.Args, func(f Field) bool { return f.Elsewhere }); i >= 0 {
		o.Origin = o.Args[i].Name
	}
	if o.Args.uses() {
		o.Needs = o.Args.needs
	}
	if o.Result.uses() {
		o.Uses = o.Result.diskUsed
	}
	return &o
}

// with returns o for one verb.
func (o Operation) with(verb string, effect Effect, timeout time.Duration, help string) Operation {
	o.Verb, o.Effect, o.Timeout, o.Help = verb, effect, timeout, help
	return o
}

// measured returns o with Measured.
func (o Operation) measured() Operation {
	o.Measured = true
	return o
}

// fetches returns o as one that mostly waits for somebody else's server.
func (o Operation) fetches() Operation {
	o.Fetches = true
	return o
}

// once returns o as one that must not be repeated when its outcome is unknown.
func (o Operation) once() Operation {
	o.Repeat = Once
	return o
}

// aside returns o as one that other runs do not wait for.
func (o Operation) aside() Operation {
	o.Aside = true
	return o
}
