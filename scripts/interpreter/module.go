package interpreter

import (
	"fmt"
	"maps"
	"slices"

	"github.com/d5/tengo/v2"

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

// goModules are the modules with members that are not operations: the data of a run, and pure functions. They have no
// access to a clock, randomness, files or the network.
var goModules = map[string]map[string]member{
	"run":    runModule,
	"math":   mathModule,
	"text":   textModule,
	"times":  timesModule,
	"json":   jsonModule,
	"base64": base64Module,
	"hex":    hexModule,
}

// MemberNames returns the member names of a built-in module, sorted.
func MemberNames(module string) []string {
	names := slices.Collect(maps.Keys(goModules[module]))
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
	if op, ok := catalog.Lookup(m.name + "." + key.Value); ok && goModules[m.name][key.Value].call == nil {
		return &callable{native: &native{name: op.Name(), call: func(p *pass, args []tengo.Object) (tengo.Object, error) {
			return p.operate(op, args)
		}, unknown: wholeParts(op)}, pass: m.pass}, nil
	}
	found, ok := goModules[m.name][key.Value]
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
