package scripts

import (
	"maps"
	"regexp"
	"slices"

	"github.com/d5/tengo/v2"
	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/stdlib"
)

// Functions returns the names that scripts can use in addition to operations: "text.join", "run.params", "len".
func Functions() []string {
	names := make(map[string]bool)
	for module, members := range goModules {
		for name, m := range members {
			if m.value == nil {
				names[module+"."+name] = true
			}
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^  (\w+): func`).FindAllStringSubmatch(stdlib.SourceModules["enum"], -1) {
		names["enum."+m[1]] = true
	}
	for _, f := range tengo.GetAllBuiltinFunctions() {
		names[f.Name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// WithoutCommas returns a text without the commas after last elements.
func WithoutCommas(text string) string {
	u := &unit{source: Source{Text: []byte(text)}, file: parser.NewFileSet().AddFile("test.tengo", -1, len(text))}
	if _, err := parseFile(u); err != nil {
		return text
	}
	return string(u.text)
}
