// Package catalog declares every operation of the house once: its arguments, results, mutable fields, whether it destroys, whether
// it may be repeated, how long it may take and which driver it needs. From here come the modules of scripts and their checks, the
// strict decoding on nodes, placement, the reference manual and the plan's text. It is pure data: it knows no driver and does no I/O.
package catalog

import (
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
)

// Repeat says whether an operation may be carried out again when nobody knows whether it was.
type Repeat string

// The two sorts of operations.
const (
	Safe Repeat = "safe" // "make it so": again is the same
	Once Repeat = "once" // at most once: OUTCOME_UNKNOWN instead of a second time
)

// Operation is one entry of the catalogue.
type Operation struct {
	Module      string            // "machine"; also the driver's slot on a node
	Verb        string            // "create"
	Help        string            // one sentence
	Kind        writ.ResourceKind // of the resource that Name names, "" if the operation has none
	Effect      Effect
	Destructive bool // deletes or overwrites data; needs `destructive: yes` in the payload
	Repeat      Repeat
	Timeout     time.Duration                           // from start to end, if the script gives none
	Args        Schema                                  // of the spec map
	Result      Schema                                  // of the fields that a handle offers
	Needs       func(args map[string]any) writ.Capacity // what it uses up on its node; nil if nothing
	newArgs     func() any                              // a pointer to the argument struct
}

// Name is "module.verb".
func (o *Operation) Name() string { return o.Module + "." + o.Verb }

// Named reports whether the operation's first argument is the name of a resource.
func (o *Operation) Named() bool { return o.Kind != "" }

// Type is the type of a field.
type Type string

// The types. A Handle field takes a handle to a resource of the field's kinds; in the arguments of a job it is a writ.Ref.
const (
	String Type = "string"
	Bool   Type = "bool"
	Int    Type = "int"
	List   Type = "list"
	Map    Type = "map" // string keys, Elem values
	Object Type = "object"
	Handle Type = "handle"
)

// Schema lists fields in the order in which manuals show them.
type Schema []Field

// Field is one key of a spec or of a result.
type Field struct {
	Name     string
	Help     string
	Type     Type
	Required bool
	Mutable  bool // may be changed by a later `create` of the same resource
	Default  any  // a value, nil if none
	Min, Max *int64
	Pattern  string              // that a string must match as a whole
	Enum     []string            // the only strings that are allowed
	Kinds    []writ.ResourceKind // of a Handle
	Elem     *Field              // of a List or Map
	Fields   Schema              // of an Object
}
