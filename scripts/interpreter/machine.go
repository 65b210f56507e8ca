package interpreter

import (
	"slices"

	"github.com/d5/tengo/v2"
	"github.com/d5/tengo/v2/parser"
)

// smallPass is the maximum fuel of a pass whose VM is reused. The values on the stack of an idle VM stay in memory.
const smallPass = 100_000

// machine is a VM with its data. It runs the passes of one program, one after the other. A VM contains its whole stack;
// allocating these 94 KB for each pass took longer than a short script.
//
// A VM that met an error cannot be reused, because it keeps the error. Neither can a VM that may still be aborted.
type machine struct {
	vm        *tengo.VM
	constants []tengo.Object
	globals   []tengo.Object
	files     parser.SourceFileSet // with its own cache
}

// machine returns a machine that is ready for a pass.
func (p *Program) machine(run *pass) *machine {
	m := p.idle.Swap(nil)
	if m == nil {
		const noBoundOfObjects = -1 // fuel bounds them
		m = &machine{constants: slices.Clone(p.constants), globals: make([]tengo.Object, p.globals), files: *p.files}
		m.vm = tengo.NewVM(&tengo.Bytecode{FileSet: &m.files, MainFunction: p.main, Constants: m.constants}, m.globals,
			noBoundOfObjects)
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

// storeIdle stores a machine for the next pass, without the data of the last one.
func (p *Program) storeIdle(m *machine) {
	clear(m.globals)
	for _, b := range p.bindings {
		m.constants[b.constant] = p.constants[b.constant]
	}
	p.idle.Store(m)
}

// Rest releases the idle VM of the program. Call it if no pass is expected soon.
func (p *Program) Rest() { p.idle.Store(nil) }
