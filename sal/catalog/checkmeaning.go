package catalog

import (
	"reflect"
	"slices"
	"strings"

	"writ/internal/imageref"
)

// besides maps the names of checks in tags to functions. A function checks one field together with the other arguments.
// It returns a problem as the predicate of a sentence about the field, or "" if it finds none.
var besides = map[string]func(args map[string]any) string{
	"userdata": uselessEnv, "registry": uselessLogin, "port": missingHealthPort,
}

// uselessLogin checks that the image of a container with a login is a reference to an image at a registry.
func uselessLogin(args map[string]any) string {
	switch image := args["image"].(type) {
	case Unknown:
		return ""
	case string:
		if imageref.Looks(image) {
			return ""
		}
	}
	return "has no effect: image is not a reference to an image at a registry"
}

// useful reports whether a text of a valid form can be useful, and adds a problem otherwise.
func (c *checker) useful(f *Field, text string, at Path) bool {
	if !c.meaning || f.useless == nil {
		return true
	}
	why := f.useless(text)
	if why != "" {
		c.add(at, WrongValue, "%s must be %s, not %q: %s", at, f.Form, short(text), why)
	}
	return why == ""
}

// list checks the elements of a list together.
func (c *checker) list(f *Field, list []any, at Path) {
	if !c.meaning || len(list) == 0 || f.Max != nil && int64(len(list)) > *f.Max { // bounds reports long lists
		return
	}
	if first, ok := list[0].(string); ok && f.First != nil {
		c.text(f.First, first, append(at, 0))
	}
	if f.Distinct == "" {
		return
	}
	for i, e := range list {
		j := slices.IndexFunc(list[:i], func(earlier any) bool { return same(part(f, e), part(f, earlier)) })
		if j >= 0 {
			first, second := append(slices.Clone(at), j), append(slices.Clone(at), i)
			c.add(second, WrongValue, "%s must differ from %s: the second one has no effect", second, first)
		}
	}
}

// part returns the value that must differ between the elements of a list: the element or one of its fields. It may be
// nil.
func part(f *Field, e any) any {
	if f.Distinct == "elements" {
		return e
	}
	object, _ := e.(map[string]any)
	return object[f.Distinct]
}

// same reports whether two values are known and equal.
func same(a, b any) bool {
	if a == nil || b == nil || a == (Unknown{}) {
		return false
	}
	if _, travels := a.(map[string]any); travels { // the form of a handle
		return reflect.DeepEqual(a, b)
	}
	return reflect.TypeOf(a).Comparable() && a == b
}

// fits maps the names of checks in tags to functions that check a field together with all arguments. See Field.fits for
// their results.
var fits = map[string]func(args map[string]any) (below, problem string){
	"files": uselessFiles, "tmpfs": uselessTmpfs,
}

// wholes maps the names of checks in tags to functions that check all fields of an object. See Field.whole for their
// results.
var wholes = map[string]func(object map[string]any) (name, problem string){
	"health": uselessHealth, "publish": uselessShare,
}

// whole adds a problem if the fields of an object do not fit each other.
func (c *checker) whole(f *Field, object map[string]any, at Path) {
	if !c.meaning || f.whole == nil {
		return
	}
	name, problem := f.whole(f.Fields.Fill(object))
	if problem == "" {
		return
	}
	if name != "" {
		at = append(slices.Clone(at), name)
	}
	c.add(at, WrongValue, "%s %s", at, problem)
}

// beside adds a problem if the other arguments make a field useless.
func (c *checker) beside(f *Field, args map[string]any, at Path) {
	if !c.meaning {
		return
	}
	if f.fits != nil {
		if below, problem := f.fits(args); problem != "" {
			c.add(append(slices.Clone(at), below), WrongValue, "%s: %s %s", at, below, problem)
		}
	}
	if f.beside != nil {
		if why := f.beside(args); why != "" {
			c.add(at, WrongValue, "%s %s", at, why)
		}
	}
	other, value, _ := strings.Cut(f.Not, ":")
	switch {
	case f.With != "" && args[f.With] == nil && args[f.Name] != "":
		c.add(at, WrongValue, "%s has no effect without %s: give both, or omit it", at, f.With)
	case other != "" && args[other] == value:
		c.add(at, WrongValue, "%s has no effect with %s %s: omit it", at, other, value)
	}
}
