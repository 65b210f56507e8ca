// Package syntax parses the sources of a script within its limits, resolves their names, and collects what is wrong
// with them. It does not depend on operations, and it never executes a script.
package syntax

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/stdlib"

	"writ/internal/lazyregexp"
	"writ/internal/meant"
	"writ/scripts"
	"writ/scripts/diagnostic"
	"writ/scripts/library"
)

// Analysis is a parsed bundle: its syntax trees, the symbols of its names, and the diagnostics so far. It applies only
// the rules that the engine itself depends on; package check adds the rules of the catalogue. So a journal also replays
// with a later catalogue.
type Analysis struct {
	Findings
	bundle  scripts.Bundle
	Files   *parser.SourceFileSet
	Main    *Unit
	Modules []*Unit // the imported modules, each after its own imports
	Symbols map[*parser.Ident]*Symbol
	Tests   []*parser.Ident // the names of the test functions, at their definitions

	state map[string]visit
}

type visit int

const (
	unseen visit = iota
	inside
	done
)

// Analyse parses a bundle and resolves its names. Errors of the script are in the result.
func Analyse(bundle scripts.Bundle) *Analysis {
	a := &Analysis{
		bundle:  bundle,
		Files:   parser.NewFileSet(),
		Symbols: make(map[*parser.Ident]*Symbol),
		state:   make(map[string]visit),
	}
	total := len(bundle.Main.Text)
	for _, m := range bundle.Modules {
		total += len(m.Text)
	}
	a.Main = a.unit(bundle.Main)
	a.Main.Main = true
	if total > scripts.MaxBundle {
		a.Add(diagnostic.CodeTooBig, parser.Pos(a.Main.File.Base), 1,
			"the script and its modules have more than %d bytes", scripts.MaxBundle)
		return a
	}
	a.named(a.Main)
	for _, m := range bundle.Modules {
		if scripts.BuiltIn(m.Name) {
			a.Add(diagnostic.CodeReservedModule, parser.Pos(a.unit(m).File.Base), 1, "module %q is built in", m.Name)
		}
	}
	a.visit(a.Main)
	if scripts.IsTest(bundle.Main.Name) && a.Main.Tree != nil {
		a.findTests()
	}
	return a
}

func (a *Analysis) unit(s scripts.Source) *Unit {
	u := &Unit{Source: s, File: a.Files.AddFile(s.Name, -1, len(s.Text))}
	a.Units = append(a.Units, u)
	return u
}

// sourceName matches the names that payloads accept. It excludes the names of the engine's natives, and limits the
// length of positions.
var sourceName = lazyregexp.New(`^[A-Za-z0-9_./@+-]{1,128}$`)

func (a *Analysis) named(u *Unit) {
	if !sourceName.MatchString(u.Source.Name) {
		d := a.Add(diagnostic.CodeReservedModule, parser.Pos(u.File.Base), 1, "%q cannot name a script or module",
			u.Source.Name)
		d.Help = "1 to 128 letters, digits and _./@+-"
	}
}

// visit parses a unit and its imports.
func (a *Analysis) visit(u *Unit) {
	if a.Parse(u); u.Tree == nil {
		return
	}
	a.resolve(u, a.Symbols)
	for _, i := range u.Imports {
		a.visitImport(i)
	}
}

func (a *Analysis) visitImport(i *parser.ImportExpr) {
	name := i.ModuleName
	if scripts.BuiltIn(name) && name != "enum" {
		return
	}
	source, ok := a.source(name)
	switch {
	case !ok:
		a.unknownModule(i)
	case a.state[name] == inside:
		a.At(diagnostic.CodeImportCycle, i, "module %q imports itself, directly or through others", name)
	case a.state[name] == unseen:
		a.state[name] = inside
		u := a.unit(source)
		a.named(u)
		a.visit(u)
		a.Modules = append(a.Modules, u)
		a.state[name] = done
	}
}

// source returns the Tengo source of a module: a module of the bundle, or `enum` of Tengo's standard library.
func (a *Analysis) source(name string) (scripts.Source, bool) {
	if name == "enum" {
		return scripts.Source{Name: name, Text: []byte(stdlib.SourceModules[name])}, true
	}
	i := slices.IndexFunc(a.bundle.Modules, func(s scripts.Source) bool { return s.Name == name })
	if i < 0 {
		return scripts.Source{}, false
	}
	return a.bundle.Modules[i], true
}

// unknownModule reports an import of an unknown module and suggests existing modules.
func (a *Analysis) unknownModule(i *parser.ImportExpr) {
	name := i.ModuleName
	if !strings.HasPrefix(name, library.Prefix) {
		d := a.At(diagnostic.CodeUnknownModule, i, "unknown module %q", name)
		if d.Help = foreignModules[name]; d.Help == "" {
			d.Help = "modules are " + strings.Join(scripts.Modules(), ", ") +
				", and files beside the script: import(\"NAME\") of NAME.tengo"
			known := a.importable()
			if file := strings.TrimSuffix(path.Clean(name), ".tengo"); slices.Contains(known, file) {
				d.Suggest(file)
			} else {
				d.Suggest(meant.Closest(name, known))
			}
		}
		return
	}
	d := a.At(diagnostic.CodeUnknownModule, i, "the library has no module %q", name)
	switch closest := meant.Closest(name, library.Names()); {
	case library.Newest(name) != "":
		d.Help = fmt.Sprintf("the newest version is %q", library.Newest(name))
	case closest != "":
		d.Suggest(closest)
	default:
		d.Help = "it has " + strings.Join(library.Names(), ", ") + "; modules of your own have other names"
	}
}

func (a *Analysis) importable() []string {
	names := append(scripts.Modules(), library.Names()...)
	for _, m := range a.bundle.Modules {
		names = append(names, m.Name)
	}
	slices.SortFunc(names, strings.Compare)
	return names
}
