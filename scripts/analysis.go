package scripts

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/stdlib"

	"writ/scripts/diagnostic"
	"writ/scripts/library"

	"writ/internal/meant"
)

// analysis is a parsed bundle: its syntax trees, the symbols of its names, and the diagnostics so far. It applies only
// the rules that the engine itself depends on; Check adds the rules of the catalogue. So a journal also replays with a
// later catalogue.
type analysis struct {
	findings
	bundle  Bundle
	files   *parser.SourceFileSet
	main    *unit
	modules []*unit // the imported modules, each after its own imports
	symbols map[*parser.Ident]*symbol
	tests   []*parser.Ident // the test functions of a test file, where they are defined

	state map[string]visit
}

type visit int

const (
	unseen visit = iota
	inside
	done
)

func analyse(bundle Bundle) *analysis {
	a := &analysis{
		bundle:  bundle,
		files:   parser.NewFileSet(),
		symbols: make(map[*parser.Ident]*symbol),
		state:   make(map[string]visit),
	}
	total := len(bundle.Main.Text)
	for _, m := range bundle.Modules {
		total += len(m.Text)
	}
	a.main = a.unit(bundle.Main)
	a.main.main = true
	if total > MaxBundle {
		a.add(diagnostic.CodeTooBig, parser.Pos(a.main.file.Base), 1, "the script and its modules have %d bytes; at most %d are possible", total, MaxBundle)
		return a
	}
	a.named(a.main)
	for _, m := range bundle.Modules {
		if BuiltIn(m.Name) {
			a.add(diagnostic.CodeReservedModule, parser.Pos(a.unit(m).file.Base), 1, "module %q is built in", m.Name)
		}
	}
	a.visit(a.main)
	if IsTest(bundle.Main.Name) && a.main.tree != nil {
		a.findTests()
	}
	return a
}

func (a *analysis) unit(s Source) *unit {
	u := &unit{source: s, file: a.files.AddFile(s.Name, -1, len(s.Text))}
	a.units = append(a.units, u)
	return u
}

// sourceName matches the names that payloads accept. It excludes the names of the engine's natives, and limits the
// length of positions.
var sourceName = regexp.MustCompile(`^[A-Za-z0-9_./@+-]{1,128}$`)

func (a *analysis) named(u *unit) {
	if !sourceName.MatchString(u.source.Name) {
		d := a.add(diagnostic.CodeReservedModule, parser.Pos(u.file.Base), 1, "%q cannot name a script or module", u.source.Name)
		d.Help = "1 to 128 letters, digits and _./@+-"
	}
}

// visit parses a unit and its imports.
func (a *analysis) visit(u *unit) {
	if a.parse(u); u.tree == nil {
		return
	}
	a.resolve(u, a.symbols)
	for _, i := range u.imports {
		a.visitImport(i)
	}
}

func (a *analysis) visitImport(i *parser.ImportExpr) {
	name := i.ModuleName
	if BuiltIn(name) && name != "enum" {
		return
	}
	source, ok := a.source(name)
	switch {
	case !ok:
		a.unknownModule(i)
	case a.state[name] == inside:
		a.at(diagnostic.CodeImportCycle, i, "module %q imports itself, directly or through others", name)
	case a.state[name] == unseen:
		a.state[name] = inside
		u := a.unit(source)
		a.named(u)
		a.visit(u)
		a.modules = append(a.modules, u)
		a.state[name] = done
	}
}

// source returns the Tengo source of a module: one of the bundle, or `enum` of Tengo's standard library.
func (a *analysis) source(name string) (Source, bool) {
	if name == "enum" {
		return Source{Name: name, Text: []byte(stdlib.SourceModules[name])}, true
	}
	i := slices.IndexFunc(a.bundle.Modules, func(s Source) bool { return s.Name == name })
	if i < 0 {
		return Source{}, false
	}
	return a.bundle.Modules[i], true
}

// unknownModule reports an import of an unknown module and suggests existing ones.
func (a *analysis) unknownModule(i *parser.ImportExpr) {
	name := i.ModuleName
	if !strings.HasPrefix(name, library.Prefix) {
		d := a.at(diagnostic.CodeUnknownModule, i, "unknown module %q", name)
		if d.Help = foreignModules[name]; d.Help == "" {
			d.Help = "modules are " + strings.Join(Modules(), ", ") + ", and files beside the script: import(\"NAME\") of NAME.tengo"
			known := a.importable()
			if file := strings.TrimSuffix(path.Clean(name), ".tengo"); slices.Contains(known, file) {
				d.Suggest(file)
			} else {
				d.Suggest(meant.Closest(name, known))
			}
		}
		return
	}
	d := a.at(diagnostic.CodeUnknownModule, i, "the library has no module %q", name)
	switch closest := meant.Closest(name, library.Names()); {
	case library.Newest(name) != "":
		d.Help = fmt.Sprintf("the newest version is %q", library.Newest(name))
	case closest != "":
		d.Suggest(closest)
	default:
		d.Help = "it has " + strings.Join(library.Names(), ", ") + "; modules of your own have other names"
	}
}

func (a *analysis) importable() []string {
	names := append(Modules(), library.Names()...)
	for _, m := range a.bundle.Modules {
		names = append(names, m.Name)
	}
	slices.SortFunc(names, strings.Compare)
	return names
}
