// Package catalog declares every operation of writ once: its arguments, results and mutable fields, whether it is
// destructive or repeatable, its timeout, and its driver. The modules and checks of scripts, the strict decoding on
// nodes, placement, the reference manual and the text of plans are derived from it. It is pure data: it is independent
// of drivers and does no I/O.
//
// The arguments and the result of an operation are Go structs, VolumeCreate and Volume for volume.create; drivers work
// with these. Their schemas are derived from struct tags, so each list is written once. tag.go documents the tags.
package catalog

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"writ"
)

// Effect is the effect of an operation on the resource it names.
type Effect string

// The effects.
const (
	Make   Effect = "make"   // create(name, spec): idempotent
	Alter  Effect = "alter"  // changes an existing resource
	Look   Effect = "look"   // only reads
	Remove Effect = "remove" // deletes the resource
	Find   Effect = "find"   // answered by the supervisor from its own records, without driver or job
	// Run makes a temporary resource under an unused name, and removes it before the operation ends. The supervisor
	// stores no resource; the open call reserves the name and the capacity.
	Run Effect = "run"
)

// Repeat states whether an operation may be executed again if the outcome of its first execution is unknown.
type Repeat string

// The values of Repeat.
const (
	Safe Repeat = "safe" // idempotent
	Once Repeat = "once" // at most once: OUTCOME_UNKNOWN instead of a second execution
	// At most once, and the driver continues an interrupted execution: see sal.Driver.
	Resume Repeat = "resume"
)

// Data is the possible effect of an operation on existing data: the content of volumes, databases, machines, containers
// and images. Every operation declares it. Without a payload signed by a person, nodes only execute operations that
// read: see Signed.
type Data string

// The values, from harmless to destructive.
const (
	DataReads Data = "reads" // changes neither data nor the resources that hold it
	DataAdds  Data = "adds"  // creates new data beside existing data, or provides more space
	// Runs programs with data, or changes or stops resources that hold data; data can be lost.
	DataUses     Data = "uses"
	DataDestroys Data = "destroys" // its purpose is to delete or overwrite data
)

// Operation is one entry of the catalogue. It is shared and must not be modified.
type Operation struct {
	Module      string            // "machine"; also the driver's slot on a node
	Verb        string            // "create"
	Help        string            // one sentence
	Kind        writ.ResourceKind // of the resource that the first argument names; "" if no argument names one
	Effect      Effect
	Data        Data   // its possible effect on existing data
	Risk        string // which data can be lost and when, as a sentence; "" if none
	Makes       bool   // Effect is Make or Run: the operation makes something on a node
	Destructive bool   // Data is DataDestroys: the payload must permit the destruction of the resource
	Repeat      Repeat
	// Aside means that the operation reads data that may grow meanwhile, such as a log. Such a call and the calls of
	// other runs on the resource are sent without waiting for each other. The node still runs one operation on the
	// resource at a time.
	Aside   bool
	Timeout time.Duration // time limit of a call, from start to end, without the option timeout
	Args    Schema        // schema of the spec map
	Result  Schema        // schema of the fields of a handle
	// Fetches means that the operation mostly waits for an external server. On its node it occupies a transfer slot
	// instead of a job slot.
	Fetches bool
	// Origin is the field of Args that names the source of a copy, which may be on another node. It is "" if all
	// resources must be on one node.
	Origin string
	// Needs returns the capacity of the node that the resource uses after the operation. It is nil if the operation does
	// not change the used capacity. A zero component means that this capacity is unchanged. Handles among the arguments
	// may be in any form.
	Needs func(args map[string]any) writ.Capacity
	// Uses returns the disk space of the resource that a result contains, in GiB, including archives and snapshots, which
	// only the node measures. ok is false if the result does not contain it. Uses is nil if the schema of the result has
	// no such field.
	Uses func(result map[string]any) (diskGiB int64, ok bool)
	// Measured means that only the node can measure the added disk space, after the operation. Such a call needs a node
	// with free disk space.
	Measured bool

	// AwaitsHealth means that the operation waits until its resource passes its health check, which is in the arguments
	// that made the resource.
	AwaitsHealth bool

	newArgs func() any // returns a pointer to a zero argument struct
	structs map[reflect.Type]Schema
}

// Name returns "module.verb".
func (o *Operation) Name() string { return o.Module + "." + o.Verb }

// Named reports whether the operation's first argument is the name of a resource.
func (o *Operation) Named() bool { return o.Kind != "" }

// Signed reports whether a node executes the operation only with the verified payload of its run.
func (o *Operation) Signed() bool { return o.Data != DataReads }

// Remake returns the fields that this Make operation must change on an existing resource. made is the name of the
// operation that created the resource, and old its arguments. Remake returns RESOURCE_CONFLICT or IMMUTABLE_FIELD if
// the operation cannot change the resource.
func (o *Operation) Remake(
	resource writ.ResourceID, made string, old, new map[string]any,
) (fields []string, err error) {
	if made != o.Name() {
		return nil, writ.Errorf(writ.CodeResourceConflict, "%s was created by %s and cannot be created by %s", resource,
			made, o.Name()).
			WithHint("use %s.get(%q) for the existing resource, or another name", o.Module, resource.Name)
	}
	mutable, immutable := o.Args.Changed(old, new)
	if len(immutable) > 0 {
		return nil, writ.Errorf(writ.CodeImmutableField, "%s exists, and its %s cannot be changed", resource,
			strings.Join(immutable, " and ")).
			WithHint("%s", remakeHint(o.Kind))
	}
	return mutable, nil
}

// remakeHint returns the hint for a call that would change an immutable field of a resource.
func remakeHint(kind writ.ResourceKind) string {
	if kind == writ.KindImage { // it cannot be deleted while a container or machine uses it
		return "put the version into the name, such as web-1-28, use that, and delete the old image afterwards"
	}
	return "delete it first, or use another name"
}

// index holds the catalogue.
type index struct {
	operations []*Operation            // in the order of the manual
	byName     map[string]*Operation   // by "module.verb"
	byType     map[reflect.Type]Schema // of argument and result structs
}

// declared returns the catalogue. It is made at the first call, because most commands do not need it.
var declared = sync.OnceValue(func() index {
	i := index{operations: slices.Concat(
		imageOperations(),
		volumeOperations(),
		networkOperations(),
		machineOperations(),
		containerOperations(),
		herodbOperations(),
		nodeOperations(),
		runOperations(),
	), byName: map[string]*Operation{}, byType: map[reflect.Type]Schema{}}
	for _, o := range i.operations {
		i.byName[o.Name()] = o
		maps.Copy(i.byType, o.structs)
	}
	return i
})

// Operations returns every operation, module by module, in the order of the manual.
func Operations() []*Operation { return slices.Clone(declared().operations) }

// Lookup returns the operation with a name like "machine.create".
func Lookup(name string) (*Operation, bool) {
	o, ok := declared().byName[name]
	return o, ok
}

// Modules returns the names of all modules, in the order of the manual. Package scripts adds functions to the module
// "run" that are not operations: they concern the run itself.
func Modules() []string {
	var names []string
	for _, o := range declared().operations {
		if !slices.Contains(names, o.Module) {
			names = append(names, o.Module)
		}
	}
	return names
}

// Of returns the operations of a module, nil for an unknown module.
func Of(module string) []*Operation {
	var all []*Operation
	for _, o := range declared().operations {
		if o.Module == module {
			all = append(all, o)
		}
	}
	return all
}
