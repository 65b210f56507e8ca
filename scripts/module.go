package scripts

import (
	"fmt"
	"maps"
	"slices"

	"github.com/d5/tengo/v2"

	"writ/sal/catalog"
)

// member is something that a built-in module offers. Exactly one of call, read and value is set.
type member struct {
	least, most int // arguments of call; most is -1 if there is no bound
	call        func(p *pass, args []tengo.Object) (tengo.Object, error)
	read        func(p *pass) (tengo.Object, error)
	value       tengo.Object // shared: it is copied whenever it is read
	unknown     unknownRule  // of call, see native
	args, help  string       // for manuals; may be missing
}

// Modules that are not made of operations alone: what a run knows of itself, and pure functions. They have no clock, no randomness, no
// files and no network.
var goModules = map[string]map[string]member{
	"run":    runModule,
	"math":   mathModule,
	"text":   textModule,
	"times":  timesModule,
	"json":   jsonModule,
	"base64": base64Module,
	"hex":    hexModule,
}

// builtinModules returns the names of all modules that need no file: "enum" is one, though written in Tengo.
func builtinModules() []string {
	names := append(catalog.Modules(), slices.Collect(maps.Keys(goModules))...)
	names = append(names, "enum")
	slices.Sort(names)
	return slices.Compact(names)
}

func builtinModule(name string) bool {
	return name == "enum" || goModules[name] != nil || len(catalog.Of(name)) > 0
}

// ofOperations reports whether using the module can change something, so that its use must be visible in the text.
func ofOperations(module string) bool { return len(catalog.Of(module)) > 0 }

// membersOf returns the names of what a module of Go offers, sorted.
func membersOf(module string) []string {
	names := slices.Collect(maps.Keys(goModules[module]))
	for _, op := range catalog.Of(module) {
		names = append(names, op.Verb)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// imported is a built-in module as a constant of a program. Each pass puts a module of its own there.
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

// in returns what takes the constant's place in a pass.
func (m *imported) in(p *pass) tengo.Object {
	if m.name == nativeTester {
		return &tester{pass: p}
	}
	return &module{imported: imported{name: m.name}, pass: p}
}

func (m *module) Copy() tengo.Object { return m }

// IndexGet returns a member. What a module does not have is an error, not undefined.
func (m *module) IndexGet(index tengo.Object) (tengo.Object, error) {
	o, err := m.member(index)
	return o, throw(err)
}

func (m *module) member(index tengo.Object) (tengo.Object, error) {
	key, ok := index.(*tengo.String)
	if !ok {
		return nil, tengo.ErrInvalidIndexType
	}
	if err := m.pass.keep(sizeMap / 2); err != nil {
		return nil, err
	}
	if op, ok := catalog.Lookup(m.name + "." + key.Value); ok && goModules[m.name][key.Value].call == nil {
		return &callable{native: &native{name: op.Name(), call: func(p *pass, args []tengo.Object) (tengo.Object, error) {
			return p.operate(op, args)
		}, unknown: wholeParts(op)}, pass: m.pass}, nil
	}
	found, ok := goModules[m.name][key.Value]
	switch {
	case !ok:
		return nil, fmt.Errorf("module %s has no %q; %s", m.name, key.Value, memberHelp("it", key.Value, membersOf(m.name)))
	case found.read != nil:
		return found.read(m.pass)
	case found.value != nil:
		return found.value.Copy(), nil
	}
	return found.function(m.pass, m.name+"."+key.Value), nil
}

// function returns a member that is called as a value of one pass.
func (m member) function(p *pass, name string) *callable {
	return &callable{native: &native{name: name, call: func(p *pass, args []tengo.Object) (tengo.Object, error) {
		if len(args) < m.least || m.most >= 0 && len(args) > m.most {
			return nil, fmt.Errorf("%s takes %s, not %d", name, m.arguments(), len(args))
		}
		return m.call(p, args)
	}, unknown: m.unknown}, pass: p}
}

// arguments says how many arguments a function takes.
func (m member) arguments() string {
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
