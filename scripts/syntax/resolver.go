package syntax

import (
	"maps"
	"strings"

	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/token"

	"writ/internal/meant"
	"writ/scripts"
	"writ/scripts/diagnostic"
)

// resolver maps every name of a unit to its variable, as Tengo's compiler does. It reports every error that the
// compiler would stop at, and code that the compiler wrongly accepts: jumps out of functions, labels, and variables
// with the name of a builtin.
type resolver struct {
	*Findings
	unit    *Unit
	scope   *scope
	globals int
	symbols map[*parser.Ident]*Symbol
}

// resolve adds the variables of a unit to symbols, and reports unresolved names.
func (f *Findings) resolve(u *Unit, symbols map[*parser.Ident]*Symbol) {
	r := &resolver{Findings: f, unit: u, symbols: symbols}
	r.scope = &scope{names: maps.Clone(builtins)}
	if !u.Main {
		r.enter(&function{captured: make(map[*Symbol]bool)})
	}
	for _, s := range u.Tree.Stmts {
		r.stmt(s)
	}
	if fn := r.scope.fn; fn != nil && fn.locals > maxLocals {
		f.Add(diagnostic.CodeTooManyVariables, parser.Pos(u.File.Base), 1,
			"the module has %d variables; at most %d are possible", fn.locals, maxLocals)
	}
	if r.globals > maxGlobals {
		f.Add(diagnostic.CodeTooManyVariables, parser.Pos(u.File.Base), 1,
			"%d variables at the top level; at most %d are possible", r.globals, maxGlobals)
	}
}

// enter opens a block, or the body of the function fn if it is not nil.
func (r *resolver) enter(fn *function) (leave func()) {
	outer := r.scope
	r.scope = &scope{outer: outer, fn: outer.fn, names: make(map[string]*Symbol), locals: outer.locals}
	if fn != nil {
		r.scope.fn, r.scope.locals = fn, 0
	}
	return func() { r.scope = outer }
}

// slot counts a new variable in this scope.
func (r *resolver) slot() {
	if r.scope.fn == nil {
		r.globals++
		return
	}
	r.scope.locals++
	r.scope.fn.locals = max(r.scope.fn.locals, r.scope.locals)
}

func (r *resolver) define(name *parser.Ident, init parser.Expr) {
	if name.Name == "_" && init == nil {
		return
	}
	switch have := r.scope.names[name.Name]; {
	case builtins[name.Name] != nil:
		r.At(diagnostic.CodeBuiltinName, name, "%q is a builtin function", name.Name).Help = "choose another name"
	case have != nil:
		r.At(diagnostic.CodeRedeclared, name, "%q is already defined in this block", name.Name).Help = "to change it, use ="
	}
	s := &Symbol{Name: name, Fn: r.scope.fn, Init: init, Hides: r.scope.find(name.Name)}
	r.scope.names[name.Name] = s
	r.symbols[name] = s
	r.slot()
}

// lookup returns the variable of a name at this point, and records the variables that functions capture.
func (r *resolver) lookup(name *parser.Ident) *Symbol {
	if found := r.scope.find(name.Name); found != nil {
		r.symbols[name] = found
		if found.Fn != nil {
			for fn := r.scope.fn; fn != nil && fn != found.Fn; fn = fn.outer {
				fn.captured[found] = true
			}
		}
		return found
	}
	d := r.At(diagnostic.CodeUnresolved, name, "unknown name %q", name.Name)
	switch foreign := foreignName(name.Name); {
	case scripts.BuiltIn(name.Name):
		d.Help = "write " + name.Name + ` := import("` + name.Name + `") above`
	case foreign != "":
		d.Help = foreign
	case !r.Crowded():
		d.Help = "a name is defined above its use: name := value"
		d.Suggest(meant.Closest(name.Name, r.scope.visible()))
	}
	return nil
}

func (r *resolver) stmt(s parser.Stmt) {
	switch s := s.(type) {
	case *parser.AssignStmt:
		r.assign(s)
	case *parser.IncDecStmt:
		r.target(s.Expr)
	case *parser.BlockStmt:
		leave := r.enter(nil)
		r.stmts(s)
		leave()
	case *parser.IfStmt:
		leave := r.enter(nil)
		if s.Init != nil {
			r.stmt(s.Init)
		}
		r.expr(s.Cond)
		r.stmt(s.Body)
		if s.Else != nil {
			r.stmt(s.Else)
		}
		leave()
	case *parser.ForStmt:
		leave := r.enter(nil)
		if s.Init != nil {
			r.stmt(s.Init)
		}
		if s.Cond != nil {
			r.expr(s.Cond)
		}
		r.loop(s.Body)
		if s.Post != nil {
			r.stmt(s.Post)
		}
		leave()
	case *parser.ForInStmt:
		leave := r.enter(nil)
		r.slot() // the iterator
		r.expr(s.Iterable)
		r.define(s.Key, nil)
		r.define(s.Value, nil)
		r.loop(s.Body)
		leave()
	case *parser.BranchStmt:
		r.branch(s)
	case *parser.ReturnStmt:
		if r.scope.fn == nil {
			r.At(diagnostic.CodeMisplaced, s,
				"return outside of a function").Help = "a script ends with its last line; run.output({…}) sets its outputs, " +
				"and run.fail(\"why\") ends it as failed"
		}
		if s.Result != nil {
			r.expr(s.Result)
		}
	case *parser.ExportStmt:
		r.export(s)
	case *parser.ExprStmt:
		r.expr(s.Expr)
	}
}

func (r *resolver) stmts(b *parser.BlockStmt) {
	for _, s := range b.Stmts {
		r.stmt(s)
	}
}

func (r *resolver) loop(body *parser.BlockStmt) {
	loops := r.loops()
	*loops++
	r.stmt(body)
	*loops--
}

// loops returns the counter of the loops around this statement within its function.
func (r *resolver) loops() *int {
	if r.scope.fn == nil {
		return &r.unit.loops
	}
	return &r.scope.fn.loops
}

func (r *resolver) branch(s *parser.BranchStmt) {
	switch {
	case s.Label != nil:
		r.At(diagnostic.CodeMisplaced, s.Label, "labels are not supported").Help = "use a variable"
	case *r.loops() == 0:
		r.At(diagnostic.CodeMisplaced, s, "%s outside of a loop", s.Token).Help = "it belongs in the braces of a for loop"
	}
}

func (r *resolver) export(s *parser.ExportStmt) {
	switch {
	case r.unit.Main:
		r.Add(diagnostic.CodeExportIgnored, s.Pos(), len("export"), "only modules export")
	case r.scope.fn.literal != nil:
		r.Add(diagnostic.CodeMisplaced, s.Pos(), len("export"), "export inside of a function")
	}
	r.expr(s.Result)
}

func (r *resolver) assign(s *parser.AssignStmt) {
	if len(s.LHS) != 1 || len(s.RHS) != 1 {
		r.At(diagnostic.CodeAssignment, s.LHS[0], "one variable at a time").Help = "write two assignments"
		for _, e := range s.RHS {
			r.expr(e)
		}
		for _, e := range s.LHS { // the rest is checked as if the statement were correct
			if name, ok := e.(*parser.Ident); ok && s.Token == token.Define {
				r.define(name, nil)
			}
		}
		return
	}
	name, isName := s.LHS[0].(*parser.Ident)
	if s.Token != token.Define {
		r.expr(s.RHS[0])
		r.target(s.LHS[0])
		return
	}
	if !isName {
		r.At(diagnostic.CodeAssignment, s.LHS[0], ":= takes a new name").Help = "use ="
		r.expr(s.RHS[0])
		return
	}
	if _, isFunc := s.RHS[0].(*parser.FuncLit); isFunc { // may call itself
		r.define(name, s.RHS[0])
		r.expr(s.RHS[0])
		return
	}
	r.expr(s.RHS[0])
	r.define(name, s.RHS[0])
}

// target resolves the target of an assignment.
func (r *resolver) target(e parser.Expr) {
	base := e
	for {
		switch b := base.(type) {
		case *parser.SelectorExpr:
			base = b.Expr
			continue
		case *parser.IndexExpr:
			r.expr(b.Index)
			base = b.Expr
			continue
		}
		break
	}
	name, ok := base.(*parser.Ident)
	if !ok {
		r.At(diagnostic.CodeAssignment, base, "this is not a variable")
		r.expr(base)
		return
	}
	found := r.lookup(name)
	if found == nil {
		if d := &r.List[len(r.List)-1]; base == e {
			d.Help = strings.TrimSuffix("a new variable is made with "+name.Name+" := …; "+d.Help, "; ")
		}
		return
	}
	if found.Builtin {
		r.At(diagnostic.CodeBuiltinName, name, "%q is a builtin function", name.Name)
	}
	if base == e {
		found.Assigned = true
	}
}

func (r *resolver) expr(e parser.Expr) {
	switch e := e.(type) {
	case *parser.Ident:
		r.lookup(e)
	case *parser.FuncLit:
		r.funcLit(e)
	case *parser.ImportExpr:
		r.unit.Imports = append(r.unit.Imports, e)
	case *parser.StringLit:
		r.interpolations(e)
	default:
		Children(e, func(c parser.Node) {
			if c, ok := c.(parser.Expr); ok {
				r.expr(c)
			}
		})
	}
}

func (r *resolver) funcLit(e *parser.FuncLit) {
	fn := &function{outer: r.scope.fn, literal: e, captured: make(map[*Symbol]bool)}
	leave := r.enter(fn)
	defer leave()
	for _, p := range e.Type.Params.List {
		r.define(p, nil)
		if p.Name == "_" {
			r.slot() // define counts no slot for "_"
		}
	}
	r.stmt(e.Body)
	if fn.locals > maxLocals {
		r.Add(diagnostic.CodeTooManyVariables, e.Pos(), len("func"), "the function has %d variables; at most %d are possible",
			fn.locals, maxLocals)
	}
	if len(fn.captured) > maxCaptured {
		r.Add(diagnostic.CodeTooManyVariables, e.Pos(), len("func"),
			"the function uses %d variables of outer functions; at most %d are possible", len(fn.captured), maxCaptured)
	}
}
