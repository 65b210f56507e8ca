package scripts

import (
	"slices"
	"strings"

	"github.com/d5/tengo/v2/token"

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

// BuiltIn reports whether import(name) imports a built-in module. Built-in modules take precedence over all other
// modules.
func BuiltIn(name string) bool {
	return slices.Contains(pureModules, name) || len(catalog.Of(name)) > 0
}

// TestEnding is the suffix of the names of test files: "web_test.tengo". A test file is never a script.
const TestEnding = "_test.tengo"

// IsTest reports whether a file of this name contains tests.
func IsTest(name string) bool { return strings.HasSuffix(name, TestEnding) }

// Keywords returns the words that cannot be names, sorted.
func Keywords() []string {
	var words []string
	for t := range token.Token(256) {
		if t.IsKeyword() {
			words = append(words, t.String())
		}
	}
	slices.Sort(words)
	return words
}
