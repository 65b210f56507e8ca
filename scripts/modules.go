package scripts

import (
	"slices"

	"writ/sal/catalog"
)

// pureModules are the built-in modules without operations: the data of a run, and pure functions.
var pureModules = []string{"base64", "enum", "hex", "json", "math", "run", "text", "times"}

// Modules returns the names of all built-in modules, sorted. They need no file.
func Modules() []string {
	names := append(catalog.Modules(), pureModules...)
	slices.Sort(names)
	return slices.Compact(names)
}

// BuiltIn reports whether import(name) imports a built-in module. Built-in modules take precedence over all others.
func BuiltIn(name string) bool {
	return slices.Contains(pureModules, name) || len(catalog.Of(name)) > 0
}
