package catalog

import (
	"math"
	"slices"
	"strconv"

	"writ"
)

// Type is the type of a field.
type Type string

// The types. A Handle field holds a handle to a resource of one of the field's kinds; in the arguments of a job it is a
// writ.Ref.
const (
	String Type = "string"
	Bool   Type = "bool"
	Int    Type = "int"
	// Decimal is a number with at most two decimal places. Its value is an int64 if it is whole, otherwise a text such as
	// "0.25", because values have no floats.
	Decimal Type = "number"
	List    Type = "list"
	Map     Type = "map" // string keys, values of type Elem
	Object  Type = "object"
	Handle  Type = "handle"
)

// Schema lists fields in the order of the manual.
type Schema []Field

// Field is one key of a spec or of a result.
type Field struct {
	Name      string
	Help      string
	Type      Type
	Required  bool                // of a result: always present
	Mutable   bool                // a later `create` of the same resource may change it
	Default   any                 // nil if none; a missing field without default has the zero value of its type
	Min, Max  *int64              // limits of a number (a Decimal in hundredths), or of the number of bytes or elements
	Pattern   string              // regular expression for the whole string
	Form      string              // description of Pattern: "64 lower-case hex digits"
	Enum      []string            // the permitted strings
	Kinds     []writ.ResourceKind // of a Handle
	ByName    bool                // a Handle may also be the name of a resource of the project
	Formats   []string            // of a Handle to an image: the acceptable formats; any if empty
	Registry  bool                // a Handle may also be a reference to an image at a registry
	Elsewhere bool                // a Handle to a resource that may be on another node; at most one per operation
	Uses      string              // the node capacity that a number uses: "cpus", "memory_mib" or "disk_gib"
	Waits     bool                // an Int is a number of seconds that the call may wait
	Engine    string              // requirement for the engine: "name" (a List of acceptable names) or "version"
	Secret    bool                // a String that may be a secret: see Text
	Hidden    bool                // a String that must be a secret
	Key       *Field              // of a Map: its keys, strings
	Elem      *Field              // of a List or Map
	Fields    Schema              // of an Object

	Distinct string // of a List: "elements" must differ, or objects must differ in this field
	Short    string // of an Object: a value that is not a map stands for an object with only this field
	First    *Field // of a List: the form of its first element; nil if it has no separate form
	With     string // another field without which this one has no effect
	Not      string // FIELD:VALUE: the value of another field that makes this one useless

	valid   func(string) bool   // checks Pattern and the rest of the form
	useless func(string) string // returns the reason if a valid text cannot be useful; may be nil
	index   []int               // index of the struct field

	beside func(args map[string]any) string // returns the reason if the other arguments make it useless; may be nil
	// whole checks the fields of an Object together. It returns the problem, which continues the name of a field, or "".
	// Name "" is the object itself. It may be nil.
	whole func(object map[string]any) (name, problem string)
	// fits checks a field together with all other arguments. It returns the path below the field and the problem as whole
	// does. It may be nil.
	fits func(args map[string]any) (below, problem string)
}

// Field returns the field with a name.
func (s Schema) Field(name string) (*Field, bool) {
	for i := range s {
		if s[i].Name == name {
			return &s[i], true
		}
	}
	return nil, false
}

// Names returns the names of the fields, in order.
func (s Schema) Names() []string {
	names := make([]string, len(s))
	for i, f := range s {
		names[i] = f.Name
	}
	return names
}

// EngineOf returns the requirements for the engine: the acceptable names and the beginning of the version. Empty means
// any; see writ.Engine.
func (s Schema) EngineOf(args map[string]any) (names []string, version string) {
	for _, f := range s {
		switch v := args[f.Name].(type) {
		case []any:
			for _, name := range v {
				if name, ok := name.(string); ok && f.Engine == "name" {
					names = append(names, name)
				}
			}
		case string:
			if f.Engine == "version" {
				version = v
			}
		}
	}
	return names, version
}

// usesCapacity reports whether any field uses capacity of a node.
func usesCapacity(s Schema) bool {
	return slices.ContainsFunc(s, func(f Field) bool { return f.Uses != "" })
}

// HundredthsOf returns the value of a Decimal in one of its forms: an integer, the text of a number or, in a script, a
// float. A float may differ from the number by a rounding error.
func HundredthsOf(v any) (writ.Hundredths, bool) {
	const most = 1 << 40
	switch v := v.(type) {
	case int64:
		return writ.Hundredths(v * 100), v >= -most && v <= most
	case string:
		h, err := writ.ParseHundredths(v)
		return h, err == nil
	case float64:
		h := math.Round(v * 100)
		return writ.Hundredths(h), math.Abs(h) <= most && math.Abs(v*100-h) < 1e-6
	default:
		return 0, false
	}
}

// decimal returns the value of a Decimal in arguments and results.
func decimal(h writ.Hundredths) any {
	if h%100 == 0 {
		return int64(h / 100)
	}
	return h.String()
}

// limitText formats a limit of a field.
func limitText(f *Field, n int64) string {
	if f.Type == Decimal {
		return writ.Hundredths(n).String()
	}
	return strconv.FormatInt(n, 10)
}

// needs returns the node capacity that the arguments use.
func needs(s Schema, args map[string]any) writ.Capacity {
	var c writ.Capacity
	for _, f := range s {
		n, given := args[f.Name].(int64)
		if !given {
			n, _ = f.Default.(int64)
		}
		switch f.Uses {
		case "cpus":
			h, ok := HundredthsOf(args[f.Name])
			if !ok {
				h, _ = HundredthsOf(f.Default)
			}
			c = c.WithCPU(c.CPU() + h)
		case "memory_mib":
			c.MemoryMiB += n
		case "disk_gib":
			c.DiskGiB += n
		}
	}
	return c
}

// diskUsed returns the value of the field with uses=disk_gib, or its default if the value is missing. ok is false
// without either.
func diskUsed(s Schema, result map[string]any) (gib int64, ok bool) {
	for _, f := range s {
		if f.Uses != "disk_gib" {
			continue
		}
		if gib, ok = result[f.Name].(int64); !ok {
			gib, ok = f.Default.(int64)
		}
	}
	return gib, ok
}
