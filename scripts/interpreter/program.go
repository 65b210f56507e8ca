package interpreter

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/d5/tengo/v2"
	"github.com/d5/tengo/v2/parser"

	"writ/scripts"
	"writ/scripts/diagnostic"
	"writ/scripts/interpreter/instrument"
	"writ/scripts/syntax"
)

// Program is a compiled bundle. It is immutable and safe for concurrent passes.
type Program struct {
	constants []tengo.Object
	bindings  []binding
	main      *tengo.CompiledFunction
	files     *parser.SourceFileSet
	globals   int
	idle      atomic.Pointer[machine]
	burned    atomic.Int64 // fuel of the last pass

	MaxOpen int // if positive, it replaces scripts.MaxOpenCalls in a test
}

// binding identifies a constant that each pass replaces by its own object. Exactly one of native and imported is set.
type binding struct {
	constant int
	native   *native
	imported *imported
}

// Compile compiles a bundle. An error is SCRIPT_INVALID with the first diagnostic; package check returns all
// diagnostics, including warnings.
func Compile(bundle scripts.Bundle) (*Program, error) { return compile(syntax.Analyse(bundle)) }

func compile(a *syntax.Analysis) (*Program, error) {
	if err := a.Err(); err != nil {
		return nil, err
	}
	program, err := Build(a, false)
	if err != nil {
		ReportError(&a.Findings, err)
		return nil, a.Err()
	}
	return program, nil
}

// boundStrings sets Tengo's limits, which apply to the whole process. No other code in the process uses Tengo.
var boundStrings = sync.OnceFunc(func() {
	tengo.MaxStringLen, tengo.MaxBytesLen = maxString, maxString
})

var errTooManyConstants = fmt.Errorf("more than %d literals", maxConstants)

// Build compiles the modules and then the script, for passes or for a plan. It changes the trees.
func Build(a *syntax.Analysis, plan bool) (program *Program, err error) {
	boundStrings()
	defer func() {
		if r := recover(); r != nil {
			program, err = nil, fmt.Errorf("%v", r)
		}
	}()
	modules := make(map[string]bool, len(a.Modules))
	for _, u := range a.Modules {
		modules[u.Source.Name] = true
	}
	in := instrument.Options{
		Symbols: a.Symbols, Modules: modules, Plan: plan,
		Replaced: func(builtin string) bool { return bounded[builtin] != nil },
	}
	getter := &importer{natives: make(map[string]*native), compiled: make(map[string]*tengo.CompiledFunction)}
	var constants []tengo.Object
	for _, u := range a.Modules {
		// As a function, the module has its own variables and cannot access variables of the script.
		body := in.Module(u.Tree.Stmts, parser.Pos(u.File.Base))
		bytecode, _, err := getter.compile(u.File,
			&parser.File{InputFile: u.File, Stmts: []parser.Stmt{&parser.ExprStmt{Expr: body}}}, constants)
		if err != nil {
			return nil, err
		}
		constants = bytecode.Constants
		fn, ok := constants[len(constants)-1].(*tengo.CompiledFunction)
		if !ok {
			return nil, errors.New("a module did not become a function")
		}
		getter.compiled[u.Source.Name] = fn
	}
	in.Script(a.Main.Tree.Stmts)
	a.Main.Tree.Stmts = append(a.Main.Tree.Stmts, callTests(a.Tests)...)
	bytecode, globals, err := getter.compile(a.Main.File, a.Main.Tree, constants)
	if err != nil {
		return nil, err
	}
	program = &Program{constants: bytecode.Constants, main: bytecode.MainFunction, files: a.Files, globals: globals}
	program.bindConstants()
	return program, nil
}

// bindConstants records the constants that a pass binds, and fills Tengo's cache in every string constant. Tengo fills
// it on the first read, which would be a data race between two passes.
func (p *Program) bindConstants() {
	for i, c := range p.constants {
		switch c := c.(type) {
		case *tengo.String:
			c.Iterate()
		case *callable:
			p.bindings = append(p.bindings, binding{constant: i, native: c.native})
		case *imported:
			p.bindings = append(p.bindings, binding{constant: i, imported: c})
		}
	}
}

// ReportError adds an error of Build to f as a diagnostic.
func ReportError(f *syntax.Findings, err error) {
	var refusal *tengo.CompilerError
	switch {
	case errors.As(err, &refusal):
		f.Add(diagnostic.CodeCompiler, refusal.Node.Pos(), 1, "%v", refusal.Err)
	case errors.Is(err, errTooManyConstants):
		f.Add(diagnostic.CodeTooManyConstants, parser.Pos(f.Units[0].File.Base), 1, "%v", err)
	default:
		f.Add(diagnostic.CodeCompiler, parser.Pos(f.Units[0].File.Base), 1, "%s", strings.TrimSpace(err.Error()))
	}
}

// importer resolves imports for the compiler: natives, built-in modules, and modules that are already compiled.
type importer struct {
	natives  map[string]*native // by name
	compiled map[string]*tengo.CompiledFunction
}

func (im *importer) compile(
	file *parser.SourceFile, tree *parser.File, constants []tengo.Object,
) (*tengo.Bytecode, int, error) {
	table := tengo.NewSymbolTable()
	c := tengo.NewCompiler(file, table, constants, im, nil)
	if err := c.Compile(tree); err != nil {
		return nil, 0, err
	}
	bytecode := c.Bytecode()
	if len(bytecode.Constants) > maxConstants {
		return nil, 0, errTooManyConstants
	}
	return bytecode, table.MaxSymbols(), nil
}

// Get returns the object for an import, or nil if the name is unknown.
func (im *importer) Get(name string) tengo.Importable {
	if fn := im.compiled[name]; fn != nil {
		return importable{fn}
	}
	if strings.HasPrefix(name, "\x00") {
		if name == nativeTester {
			return importable{&imported{name: name}}
		}
		n := im.natives[name]
		if n == nil {
			n = nativeNamed(name)
			im.natives[name] = n
		}
		return importable{&callable{native: n}}
	}
	if scripts.BuiltIn(name) {
		return importable{&imported{name: name}}
	}
	return nil
}

type importable struct{ object tengo.Object }

func (i importable) Import(string) (any, error) { return i.object, nil }

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

// machine returns a machine that is ready for a pass, and gives its VM to the pass.
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
	run.vm, run.files = m.vm, &m.files
	return m
}

// release stores the machine of a pass that has ended for the next pass, without the data of the pass. It drops the
// machine if it cannot be reused, or if reusable is false.
func (p *Program) release(m *machine, run *pass, reusable bool) {
	p.burned.Store(run.meter.burned())
	if !reusable || !run.intact || run.meter.burned() >= smallPass {
		return
	}
	clear(m.globals)
	for _, b := range p.bindings {
		m.constants[b.constant] = p.constants[b.constant]
	}
	p.idle.Store(m)
}

// Burned returns the fuel that the last pass burned. Passes of other runs may burn more or less.
func (p *Program) Burned() int64 { return p.burned.Load() }

// Rest releases the idle VM of the program. Call it if no pass is expected soon.
func (p *Program) Rest() { p.idle.Store(nil) }
