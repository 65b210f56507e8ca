package interpreter

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/d5/tengo/v2"
	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/stdlib"

	"writ/internal/meant"
	"writ/sal/catalog"
)

// member is a member of a built-in module. Exactly one of call, read and value is set.
type member struct {
	least, most int // arguments of call; `most` is -1 without a limit
	call        passFunc
	read        func(p *pass) (tengo.Object, error)
	value       tengo.Object // shared; each read returns a copy
	unknown     unknownRule  // of call, see native
	args, help  string       // for manuals; may be missing
}

// pure returns a function that depends on its arguments alone.
func pure(least, most int, f pureFunc) member {
	return member{least: least, most: most, call: f.inPass()}
}

// goModules returns the modules with members that are not operations: the data of a run, and pure functions. They have
// no access to a clock, randomness, files or the network. They are made at the first call, because most commands do not
// need them.
var goModules = sync.OnceValue(func() map[string]map[string]member {
	return map[string]map[string]member{
		"run":    runModule,
		"math":   mathModule(),
		"text":   textModule(),
		"times":  timesModule(),
		"json":   jsonModule,
		"base64": base64Module(),
		"hex":    hexModule(),
	}
})

// MemberNames returns the member names of a built-in module, sorted.
func MemberNames(module string) []string {
	names := slices.Collect(maps.Keys(goModules()[module]))
	for _, op := range catalog.Of(module) {
		names = append(names, op.Verb)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// imported is a built-in module as a constant of a program. Each pass replaces it by its own module.
type imported struct {
	tengo.ObjectImpl
	name string
}

func (m *imported) TypeName() string { return "module" }
func (m *imported) String() string   { return "<module " + m.name + ">" }

// module is a built-in module in one pass.
type module struct {
	imported
	pass *pass
}

// in returns the replacement of the constant in a pass.
func (m *imported) in(p *pass) tengo.Object {
	if m.name == nativeTester {
		return &tester{pass: p}
	}
	return &module{imported: imported{name: m.name}, pass: p}
}

func (m *module) Copy() tengo.Object { return m }

// IndexGet returns a member. An unknown member is an error, not undefined.
func (m *module) IndexGet(index tengo.Object) (tengo.Object, error) {
	o, err := m.member(index)
	return o, throw(err)
}

func (m *module) member(index tengo.Object) (tengo.Object, error) {
	key, ok := index.(*tengo.String)
	if !ok {
		return nil, tengo.ErrInvalidIndexType
	}
	if err := m.pass.meter.burnMemory(sizeMap / 2); err != nil {
		return nil, err
	}
	if op, ok := catalog.Lookup(m.name + "." + key.Value); ok && goModules()[m.name][key.Value].call == nil {
		return &callable{native: &native{name: op.Name(), call: func(p *pass, args []tengo.Object) (tengo.Object, error) {
			return p.operate(op, args)
		}, unknown: wholeParts(op)}, pass: m.pass}, nil
	}
	found, ok := goModules()[m.name][key.Value]
	switch {
	case !ok:
		return nil, fmt.Errorf("module %s has no %q; %s", m.name, key.Value,
			meant.Member(key.Value, MemberNames(m.name)))
	case found.read != nil:
		return found.read(m.pass)
	case found.value != nil:
		return found.value.Copy(), nil
	}
	return found.function(m.pass, m.name+"."+key.Value), nil
}

// function returns a member as a callable of one pass.
func (m member) function(p *pass, name string) *callable {
	return &callable{native: &native{name: name, call: func(p *pass, args []tengo.Object) (tengo.Object, error) {
		if d := (Member{least: m.least, most: m.most}); !d.Takes(len(args)) {
			return nil, fmt.Errorf("%s takes %s, not %d", name, d.Arguments(), len(args))
		}
		return m.call(p, args)
	}, unknown: m.unknown}, pass: p}
}

// The parts of the language, for manuals and editors. All of them come from the tables that check and evaluate scripts.

// Member is a member of a built-in module that is not an operation, or of the argument of a test.
type Member struct {
	Name string
	Call bool   // it is a function; otherwise a value
	Args string // the arguments of a function: "map", "2 arguments"
	Help string // "" if Tengo's own manual describes it

	least, most int // arguments; most is -1 without a limit
}

// Takes reports whether a function may be called with n arguments.
func (m Member) Takes(n int) bool { return n >= m.least && (m.most < 0 || n <= m.most) }

// Arguments describes how many arguments a function takes.
func (m Member) Arguments() string {
	switch {
	case m.most < 0:
		return fmt.Sprintf("%d arguments or more", m.least)
	case m.least == m.most && m.least == 0:
		return "no arguments"
	case m.least == m.most && m.least == 1:
		return "1 argument"
	case m.least == m.most:
		return fmt.Sprintf("%d arguments", m.least)
	default:
		return fmt.Sprintf("%d to %d arguments", m.least, m.most)
	}
}

// LookupMember returns a member of a built-in module that is not an operation.
func LookupMember(module, name string) (Member, bool) {
	m, ok := goModules()[module][name]
	return m.describe(name), ok
}

// TestMember returns a member of the argument of a test.
func TestMember(name string) (Member, bool) {
	m, ok := testMembers[name]
	return m.describe(name), ok
}

// TestMembers returns the names of all members of the argument of a test, sorted.
func TestMembers() []string { return slices.Sorted(maps.Keys(testMembers)) }

func (m member) describe(name string) Member {
	d := Member{Name: name, Call: m.call != nil, Args: m.args, Help: m.help, least: m.least, most: m.most}
	if d.Call && d.Args == "" && m.most != 0 {
		d.Args = d.Arguments()
	}
	return d
}

// Members returns the members of a built-in module except operations of the catalogue, sorted by name.
func Members(module string) []Member {
	if module == "enum" {
		return enumMembers()
	}
	var all []Member
	for _, name := range slices.Sorted(maps.Keys(goModules()[module])) {
		all = append(all, goModules()[module][name].describe(name))
	}
	return all
}

// MemberText lists all members of a built-in module, for people. It returns "" for an unknown module.
func MemberText(module string) string { return meant.Members("module "+module, MemberNames(module)) }

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

// Builtins returns the names of the functions that need no import, sorted.
func Builtins() []string {
	var names []string
	for _, fn := range tengo.GetAllBuiltinFunctions() {
		names = append(names, fn.Name)
	}
	slices.Sort(names)
	return names
}
