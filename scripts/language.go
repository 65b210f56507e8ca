package scripts

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/d5/tengo/v2"
	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/stdlib"
	"github.com/d5/tengo/v2/token"

	"writ/sal/catalog"
	"writ/scripts/operation"
)

// The parts of the language, for manuals and editors. All of them come from the tables that check and evaluate scripts.

// Member is a member of a built-in module that is not an operation.
type Member struct {
	Name string
	Call bool   // it is a function; otherwise a value
	Args string // the arguments of a function: "map", "2 arguments"
	Help string // "" if Tengo's own manual describes it
}

// Members returns the members of a built-in module except operations of the catalogue, sorted by name.
func Members(module string) []Member {
	if module == "enum" {
		return enumMembers()
	}
	var all []Member
	for _, name := range slices.Sorted(maps.Keys(goModules[module])) {
		m := goModules[module][name]
		member := Member{Name: name, Call: m.call != nil, Args: m.args, Help: m.help}
		if member.Call && member.Args == "" && m.most != 0 {
			member.Args = m.arguments()
		}
		all = append(all, member)
	}
	return all
}

// enumMembers returns the keys of the map that the source of enum exports.
func enumMembers() []Member {
	text := []byte(stdlib.SourceModules["enum"])
	file := parser.NewFileSet().AddFile("enum", -1, len(text))
	tree, err := parser.NewParser(file, text, nil).ParseFile()
	if err != nil {
		panic(fmt.Sprintf("the module enum of Tengo: %v", err)) // it comes with the engine
	}
	var all []Member
	for _, s := range tree.Stmts {
		export, ok := s.(*parser.ExportStmt)
		if !ok {
			continue
		}
		exported, ok := export.Result.(*parser.MapLit)
		if !ok {
			continue
		}
		for _, e := range exported.Elements {
			all = append(all, Member{Name: e.Key, Call: true, Args: "x, fn"})
		}
	}
	slices.SortFunc(all, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return all
}

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

// Builtins returns the names of the functions that need no import, sorted.
func Builtins() []string {
	var names []string
	for _, fn := range tengo.GetAllBuiltinFunctions() {
		names = append(names, fn.Name)
	}
	slices.Sort(names)
	return names
}

// Options returns the schema of the options of a call.
func Options() catalog.Schema { return slices.Clone(operation.OptionSchema) }

// ParamFields returns the schema of a parameter's declaration. Fields without a type have the type of the parameter.
func ParamFields() catalog.Schema { return slices.Clone(paramSchema) }
