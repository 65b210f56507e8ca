package recipe

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"writ"
)

// node is a part of the schema.
type node struct {
	Ref         string `json:"$ref"`
	Type        string
	Closed      *bool `json:"additionalProperties"`
	Properties  map[string]*node
	Required    []string
	Items       *node
	Pattern     string
	Description string
	Defs        map[string]*node `json:"$defs"`
}

// The schema has the same fields, types and patterns as the structs that a recipe is parsed into.
func TestTheSchemaIsThatOfARecipe(t *testing.T) {
	var root node
	if err := json.Unmarshal([]byte(Schema), &root); err != nil {
		t.Fatal(err)
	}
	compare(t, &root, &root, reflect.TypeFor[Recipe](), "recipe")
	for name, want := range map[string]string{"modules": modulePattern.String(), "package": packagePattern.String(), "sha256": sumPattern.String()} {
		part := root.Defs[name]
		if part.Items != nil {
			part = part.Items
		}
		if part.Pattern != want {
			t.Errorf("the form of %s is %s, want %s", name, part.Pattern, want)
		}
	}
	if form := root.Properties["services"].Items.Properties["name"].Pattern; form != "^[a-z0-9][a-z0-9-]{0,62}$" || !writ.ValidName(strings.Repeat("a", 63)) || writ.ValidName("-a") || writ.ValidName(strings.Repeat("a", 64)) {
		t.Errorf("the form of a service's name is %s", form)
	}
}

// kinds maps kinds of Go to types of the schema.
var kinds = map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean", reflect.Slice: "array", reflect.Struct: "object"}

// optional lists fields that are optional in a recipe although JSON always contains them.
var optional = []string{"at", "modules", "firmware", "certificates"}

// fieldsOf returns the fields of a struct, including the fields of embedded structs.
func fieldsOf(of reflect.Type) (all []reflect.StructField) {
	for f := range of.Fields() {
		if f.Anonymous {
			all = append(all, fieldsOf(f.Type)...)
		} else {
			all = append(all, f)
		}
	}
	return all
}

func compare(t *testing.T, root, part *node, of reflect.Type, name string) {
	t.Helper()
	if part == nil {
		t.Errorf("%s is not in the schema", name)
		return
	}
	if def, ok := strings.CutPrefix(part.Ref, "#/$defs/"); ok {
		part = root.Defs[def]
	}
	if part.Type != kinds[of.Kind()] {
		t.Errorf("%s is of the type %q, want %q", name, part.Type, kinds[of.Kind()])
	}
	switch of.Kind() {
	case reflect.Slice:
		compare(t, root, part.Items, of.Elem(), name+"[]")
	case reflect.Struct:
		if part.Closed == nil || *part.Closed {
			t.Errorf("%s may have other fields", name)
		}
		var fields, required []string
		for _, f := range fieldsOf(of) {
			field, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			fields = append(fields, field)
			if options != "omitempty" && !slices.Contains(optional, field) {
				required = append(required, field)
			}
			compare(t, root, part.Properties[field], f.Type, name+"."+field)
		}
		slices.Sort(fields)
		if got := slices.Sorted(maps.Keys(part.Properties)); !slices.Equal(got, fields) {
			t.Errorf("%s has the fields %q, want %q", name, got, fields)
		}
		if !slices.Equal(slices.Sorted(slices.Values(part.Required)), slices.Sorted(slices.Values(required))) {
			t.Errorf("%s must have %q, want %q", name, part.Required, required)
		}
	}
}
