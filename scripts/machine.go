package scripts

import (
	"slices"

	"github.com/d5/tengo/v2"
	"github.com/d5/tengo/v2/parser"
)

// smallPass is how much fuel a pass may take whose VM is used again: what is left on its stack stays in memory until then.
const smallPass = 100_000

// machine is a VM with what it works on. It carries out the passes of one program, one after the other: a VM has its whole stack in it, and to
// make one of 94 KB for each pass took more than all that a short script does.
//
// A VM that met an error is of no use any more, because it keeps the error; nor is one that may still be told to stop.
type machine struct {
	vm        *tengo.VM
	constants []tengo.Object
	globals   []tengo.Object
	files     parser.SourceFileSet // with a cache of its own
}

// machine returns one that is ready for a pass.
func (p *Program) machine(run *pass) *machine {
	m := p.idle.Swap(nil)
	if m == nil {
		const noBoundOfObjects = -1 // fuel bounds them
		m = &machine{constants: slices.Clone(p.constants), globals: make([]tengo.Object, p.globals), files: *p.files}
		m.vm = tengo.NewVM(&tengo.Bytecode{FileSet: &m.files, MainFunction: p.main, Constants: m.constants}, m.globals, noBoundOfObjects)
	}
	callables := make([]callable, len(p.bindings))
	for i, b := range p.bindings {
		if b.imported != nil {
			m.constants[b.constant] = b.imported.in(run)
			continue
		}
		callables[i] = callable{native: b.native, pass: run}
		m.constants[b.constant] = &callables[i]
	}
	return m
}

// rest keeps a machine for the next pass, without what it has of the last one.
func (p *Program) rest(m *machine) {
	clear(m.globals)
	for _, b := range p.bindings {
		m.constants[b.constant] = p.constants[b.constant]
	}
	p.idle.Store(m)
}

// Rest gives up what makes the next pass of the program faster: there will hardly be one soon.
func (p *Program) Rest() { p.idle.Store(nil) }
