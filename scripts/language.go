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
)

// What the language is made of, for manuals and editors. All of it is read from the tables by which scripts are checked and evaluated.

// Member is something that a built-in module offers besides operations.
type Member struct {
	Name string
	Call bool   // it is called; otherwise it is read
	Args string // of one that is called: "map", "2 arguments"
	Help string // "" if Tengo's own documents say it
}

// Modules returns the names of all modules that are built in, sorted.
func Modules() []string { return builtinModules() }

// BuiltIn reports whether import(name) means a module that is built in, whatever else has the name.
func BuiltIn(name string) bool { return builtinModule(name) }

// Members returns what a built-in module offers besides the operations of the catalogue, sorted by name.
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

// enumMembers are the keys of the map that the source of enum exports.
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

// Options returns what the options of a call may be.
func Options() catalog.Schema { return slices.Clone(optionSchema) }

// ParamFields returns what the declaration of a parameter may say. Those without a type are of the parameter's own.
func ParamFields() catalog.Schema { return slices.Clone(paramSchema) }
