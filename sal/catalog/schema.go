package catalog

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

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
	List   Type = "list"
	Map    Type = "map" // string keys, values of type Elem
	Object Type = "object"
	Handle Type = "handle"
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
	Min, Max  *int64              // limits of an Int's value, a String's bytes, or the elements of a List or Map
	Pattern   string              // regular expression for the whole string
	Form      string              // description of Pattern: "64 lower-case hex digits"
	Enum      []string            // the permitted strings
	Kinds     []writ.ResourceKind // of a Handle
	ByName    bool                // a Handle may also be the name of a resource of the project
	Elsewhere bool                // a Handle to a resource that may be on another node; at most one per operation
	Uses      string              // the node capacity that an Int uses: "cpus", "memory_mib" or "disk_gib"
	Engine    string              // requirement for the engine: "name" (a List of acceptable names) or "version"
	Secret    bool                // a String that may be a secret: see Text
	Hidden    bool                // a String that must be a secret
	Key       *Field              // of a Map: its keys, strings
	Elem      *Field              // of a List or Map
	Fields    Schema              // of an Object

	Distinct string // of a List: "elements" must differ, or objects must differ in this field
	First    *Field // of a List: its first element, if that has a separate form
	With     string // another field without which this one has no effect
	Not      string // FIELD:VALUE: the value of another field that makes this one useless

	valid   func(string) bool   // checks Pattern and the rest of the form
	useless func(string) string // returns the reason if a valid text cannot be useful; may be nil
	index   []int               // index of the struct field
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

var refType = reflect.TypeFor[writ.Ref]()

// schemaOf derives the schema of a struct. Each field has a tag `writ:"name,option,…"` and a tag `help:"…"`; the fields
// of an embedded struct count as its own. Permitted Go types are string, Text, bool, int64, writ.Ref, slices of these
// and of structs, structs, map[string]string and map[string]Text. A field that may be a secret has type Text. The
// options:
//
//	required  mutable  byname  hidden  elsewhere    as in Field
//	min=N  max=N  default=V      as in Field
//	enum=a|b  kinds=a|b  form=F  of the field, or of the elements of a list or map
//	keys=F                       the form of a map's keys
//	each=N..M                    bounds of a list's integers
//	uses=P  engine=P             as in Field
//	distinct=elements|NAME       as in Field
//	first=F                      the form of a list's first element
//	with=NAME  not=NAME:VALUE    as in Field
//
// An invalid tag is a bug of this package and panics at program start.
func schemaOf[T any]() Schema { return structSchema(reflect.TypeFor[T](), nil) }

func structSchema(t reflect.Type, index []int) Schema {
	var s Schema
	for i := range t.NumField() {
		sf := t.Field(i)
		at := append(slices.Clone(index), i)
		if sf.Anonymous {
			s = append(s, structSchema(sf.Type, at)...)
			continue
		}
		f, err := newField(sf)
		if err != nil {
			panic(fmt.Sprintf("%s.%s: %v", t, sf.Name, err))
		}
		f.index = at
		s = append(s, f)
	}
	return s
}

func newField(sf reflect.StructField) (Field, error) {
	name, options, _ := strings.Cut(sf.Tag.Get("writ"), ",")
	f, err := typedField(sf.Type)
	if err != nil {
		return f, err
	}
	f.Name, f.Help = name, sf.Tag.Get("help")
	if f.Name == "" || f.Help == "" {
		return f, fmt.Errorf("name or help is missing")
	}
	if options == "" {
		return f, nil
	}
	for option := range strings.SplitSeq(options, ",") {
		if err := f.set(option); err != nil {
			return f, fmt.Errorf("option %q: %w", option, err)
		}
	}
	return f, nil
}

func typedField(t reflect.Type) (Field, error) {
	switch {
	case t == refType:
		return Field{Type: Handle}, nil
	case t == textType:
		return Field{Type: String, Secret: true}, nil
	case t.Kind() == reflect.String:
		return Field{Type: String}, nil
	case t.Kind() == reflect.Bool:
		return Field{Type: Bool}, nil
	case t.Kind() == reflect.Int64:
		return Field{Type: Int}, nil
	case t.Kind() == reflect.Struct:
		return Field{Type: Object, Fields: structSchema(t, nil)}, nil
	case t.Kind() == reflect.Slice:
		elem, err := typedField(t.Elem())
		return Field{Type: List, Elem: &elem}, err
	case t == reflect.TypeFor[map[string]string]():
		return Field{Type: Map, Key: &Field{Type: String}, Elem: &Field{Type: String}}, nil
	case t == reflect.TypeFor[map[string]Text]():
		return Field{Type: Map, Key: &Field{Type: String}, Elem: &Field{Type: String, Secret: true}}, nil
	default:
		return Field{}, fmt.Errorf("unsupported type %s", t)
	}
}

func (f *Field) set(option string) error {
	key, value, _ := strings.Cut(option, "=")
	inner := f // target of options for strings and handles
	if f.Elem != nil {
		inner = f.Elem
	}
	flags := map[string]*bool{
		"required": &f.Required, "mutable": &f.Mutable, "elsewhere": &f.Elsewhere, "byname": &inner.ByName,
		"hidden": &inner.Hidden,
	}
	texts := map[string]*string{
		"uses": &f.Uses, "engine": &f.Engine, "distinct": &f.Distinct, "not": &f.Not, "with": &f.With,
	}
	if flag := flags[key]; flag != nil {
		*flag = true
		return nil
	}
	if text := texts[key]; text != nil {
		*text = value
		return nil
	}
	switch key {
	case "first":
		f.First = &Field{Type: String}
		return f.First.setForm(value)
	case "enum":
		inner.Enum = strings.Split(value, "|")
	case "form":
		return inner.setForm(value)
	case "keys":
		return f.Key.setForm(value)
	case "kinds":
		for kind := range strings.SplitSeq(value, "|") {
			inner.Kinds = append(inner.Kinds, writ.ResourceKind(kind))
		}
	case "min":
		return setBound(&f.Min, value)
	case "max":
		return setBound(&f.Max, value)
	case "each":
		low, high, _ := strings.Cut(value, "..")
		if err := setBound(&inner.Min, low); err != nil {
			return err
		}
		return setBound(&inner.Max, high)
	case "default":
		return f.setDefault(value)
	default:
		return fmt.Errorf("unknown option")
	}
	return nil
}

func setBound(bound **int64, text string) error {
	n, err := strconv.ParseInt(text, 10, 64)
	*bound = &n
	return err
}

func (f *Field) setDefault(text string) (err error) {
	switch f.Type {
	case String:
		f.Default = text
	case Bool:
		f.Default, err = strconv.ParseBool(text)
	case Int:
		f.Default, err = strconv.ParseInt(text, 10, 64)
	default:
		err = fmt.Errorf("a %s cannot have a default", f.Type)
	}
	return err
}

func (f *Field) setForm(name string) error {
	form, ok := forms[name]
	if !ok {
		return fmt.Errorf("unknown form")
	}
	f.Pattern, f.Form, f.valid, f.useless = form.pattern.String(), form.text, form.matches, form.useless
	return nil
}

// uses reports whether any field uses capacity of a node.
func (s Schema) uses() bool {
	return slices.ContainsFunc(s, func(f Field) bool { return f.Uses != "" })
}

// needs returns the node capacity that the arguments use.
func (s Schema) needs(args map[string]any) writ.Capacity {
	var c writ.Capacity
	for _, f := range s {
		n, given := args[f.Name].(int64)
		if !given {
			n, _ = f.Default.(int64)
		}
		switch f.Uses {
		case "cpus":
			c.CPUs += n
		case "memory_mib":
			c.MemoryMiB += n
		case "disk_gib":
			c.DiskGiB += n
		}
	}
	return c
}

// diskUsed returns the value of the field with uses=disk_gib, and whether there is one. Its default replaces a missing
// value.
func (s Schema) diskUsed(result map[string]any) (gib int64, ok bool) {
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

// EngineOf returns the requirements for the engine: acceptable names, any if empty, and the beginning of the version,
// any if empty (see writ.Engine).
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
