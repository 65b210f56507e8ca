package scripts

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/stdlib"

	"writ/scripts/library"

	"writ/internal/meant"
)

// analysis is a bundle that was read: its syntax trees, what its names mean, and what is wrong. It holds only what the engine itself
// needs to be right; what the catalogue says comes on top in Check. So a journal replays with a later catalogue as well.
type analysis struct {
	findings
	bundle  Bundle
	files   *parser.SourceFileSet
	main    *unit
	modules []*unit // those that are imported, each after the ones it imports itself
	symbols map[*parser.Ident]*symbol
	tests   []*parser.Ident // the functions of a test file, where they are defined

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
		a.add(codeTooBig, parser.Pos(a.main.file.Base), 1, "the script and its modules have %d bytes; at most %d are possible", total, MaxBundle)
		return a
	}
	a.named(a.main)
	for _, m := range bundle.Modules {
		if builtinModule(m.Name) {
			a.add(codeReservedModule, parser.Pos(a.unit(m).file.Base), 1, "module %q is built in", m.Name)
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

// sourceName is what payloads allow. The natives of the engine have names that it does not, and positions hold short ones only.
var sourceName = regexp.MustCompile(`^[A-Za-z0-9_./@+-]{1,128}$`)

func (a *analysis) named(u *unit) {
	if !sourceName.MatchString(u.source.Name) {
		d := a.add(codeReservedModule, parser.Pos(u.file.Base), 1, "%q cannot name a script or module", u.source.Name)
		d.Help = "1 to 128 letters, digits and _./@+-"
	}
}

// visit reads a unit and what it imports.
func (a *analysis) visit(u *unit) {
	if a.parse(u); u.tree == nil {
		return
	}
	a.resolve(u, a.symbols)
	for _, i := range u.imports {
		a.follow(i)
	}
}

func (a *analysis) follow(i *parser.ImportExpr) {
	name := i.ModuleName
	if builtinModule(name) && name != "enum" {
		return
	}
	source, ok := a.source(name)
	switch {
	case !ok:
		a.unknownModule(i)
	case a.state[name] == inside:
		a.at(codeImportCycle, i, "module %q imports itself, maybe through others", name)
	case a.state[name] == unseen:
		a.state[name] = inside
		u := a.unit(source)
		a.named(u)
		a.visit(u)
		a.modules = append(a.modules, u)
		a.state[name] = done
	}
}

// source finds a module that is written in Tengo. The one of Tengo's own that is offered comes with it.
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

// unknownModule reports an import of what is not there, and says what there is instead.
func (a *analysis) unknownModule(i *parser.ImportExpr) {
	name := i.ModuleName
	if !strings.HasPrefix(name, library.Prefix) {
		d := a.at(codeUnknownModule, i, "there is no module %q", name)
		if d.Help = foreignModules[name]; d.Help == "" {
			d.Help = "modules are " + strings.Join(builtinModules(), ", ") + ", and files beside the script: import(\"NAME\") of NAME.tengo"
			known := a.importable()
			if file := strings.TrimSuffix(path.Clean(name), ".tengo"); slices.Contains(known, file) {
				d.meant(file)
			} else {
				d.meant(meant.Closest(name, known))
			}
		}
		return
	}
	d := a.at(codeUnknownModule, i, "the library has no module %q", name)
	switch closest := meant.Closest(name, library.Names()); {
	case library.Newest(name) != "":
		d.Help = fmt.Sprintf("the newest version is %q", library.Newest(name))
	case closest != "":
		d.meant(closest)
	default:
		d.Help = "it has " + strings.Join(library.Names(), ", ") + "; modules of your own have other names"
	}
}

func (a *analysis) importable() []string {
	names := append(builtinModules(), library.Names()...)
	for _, m := range a.bundle.Modules {
		names = append(names, m.Name)
	}
	slices.SortFunc(names, strings.Compare)
	return names
}
