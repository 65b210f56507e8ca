package check

import (
	"slices"

	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/token"

	"writ/scripts"
	"writ/scripts/diagnostic"
	"writ/scripts/syntax"
)

// linter finds valid code that is most likely a mistake. It checks only scripts without errors, whose names are all
// resolved, and reports only findings that the text proves. It visits each node of a unit once, and passes the node to
// the checkers in its fields.
//
// Some traps of Tengo need no lint here: the engine sorts the keys of maps for every iteration and output, and its
// append never changes a shared list.
type linter struct {
	scope
	statements  statements
	comparisons comparisons
	usage       *usage
	loops       *loops
	types       *types
}

// lint checks the script and its modules.
func lint(c *checker, params scripts.Params) {
	in := c.scope
	l := &linter{
		scope: in, comparisons: comparisons{in}, usage: newUsage(in), loops: newLoops(in),
		types: newTypes(in, params, c.assigned),
	}
	for _, u := range c.Units {
		if u.Tree == nil || u.Source.Name == "enum" { // not written by the author
			continue
		}
		l.statements = statements{in, u.Main}
		l.statements.check(u.Tree.Stmts)
		l.nodes(u.Tree)
		l.interpolations(u, params)
		eachBody(u.Tree.Stmts, func(list []parser.Stmt) { unordered(in, list) })
		if u.Main {
			c.leastCalls = leastCalls(in, u.Tree)
		}
	}
	l.usage.unusedNames(c.params.symbol)
	l.usage.unusedParams(&c.params, params)
	l.usage.missingKeys(c.params.symbol)
	reportNoEffect(c)
}

// reportNoEffect reports a script that neither calls an operation nor logs, fails or has an output. It omits the report
// beside other findings, such as an unused module, because they have the same cause.
func reportNoEffect(c *checker) {
	if main := c.Main; !c.hasEffect && len(c.List) == 0 && !scripts.IsTest(main.Source.Name) {
		c.Add(diagnostic.CodeNoEffect, parser.Pos(main.File.Base), 1, "the script has no effect").Help =
			"call an operation, or log a line with run.log"
	}
}

// interpolations reports texts with `${name}`, where name is a variable or parameter. The variable counts as read,
// because the author means to read it.
func (l *linter) interpolations(u *syntax.Unit, params scripts.Params) {
	for _, i := range u.Interpolations {
		expressions := make(map[string]string)
		var first *syntax.InterpolatedName
		for n, at := range i.At {
			_, declared := params.Named(at.Name)
			switch {
			case i.Variables[at.Name] != nil:
				l.usage.read[i.Variables[at.Name]] = true
				expressions[at.Name] = at.Name
			case declared:
				expressions[at.Name] = "run.params." + at.Name
			default:
				continue
			}
			if first == nil {
				first = &i.At[n]
			}
		}
		if first != nil && !l.Crowded() {
			l.Add(diagnostic.CodeInterpolation, first.Pos, len(first.Name)+len("${}"),
				"the text contains ${%s}, not its value", first.Name).Help = "write " + i.Sum(expressions)
		}
	}
}

// eachBody calls visit for a list of statements, and for the body of each function in it.
func eachBody(list []parser.Stmt, visit func([]parser.Stmt)) {
	visit(list)
	var functions func(parser.Node)
	functions = func(n parser.Node) {
		if f, ok := n.(*parser.FuncLit); ok {
			eachBody(f.Body.Stmts, visit)
			return
		}
		syntax.Children(n, functions)
	}
	for _, s := range list {
		functions(s)
	}
}

// nodes checks n and everything below it.
func (l *linter) nodes(n parser.Node) {
	switch n := n.(type) {
	case *parser.AssignStmt:
		l.assign(n)
		return
	case *parser.IncDecStmt:
		l.target(n.Expr)
		return
	case *parser.BlockStmt:
		l.statements.check(n.Stmts)
	case *parser.IfStmt:
		l.comparisons.condition(n.Cond)
	case *parser.CondExpr:
		l.comparisons.condition(n.Cond)
	case *parser.ForStmt:
		l.comparisons.condition(n.Cond)
		l.forStmt(n)
		return
	case *parser.ForInStmt:
		l.hiding(n.Key)
		l.hiding(n.Value)
		l.harmless(n.Iterable)
		l.inLoop(loop{from: n.Pos(), to: n.End(), ends: leaves(n.Body)}, n.Body)
		return
	case *parser.Ident:
		l.usage.use(n)
	case *parser.SelectorExpr, *parser.IndexExpr:
		l.selector(n.(parser.Expr))
		return
	case *parser.BinaryExpr:
		l.comparisons.binary(n)
		l.types.binary(n)
	case *parser.UnaryExpr:
		if n.Token == token.Not {
			l.comparisons.condition(n.Expr)
		}
	case *parser.ArrayLit:
		l.loops.store(n.Elements...)
	case *parser.MapElementLit:
		l.loops.store(n.Value)
	case *parser.MapLit:
		for _, e := range n.Elements {
			l.loops.store(e.Value)
		}
	case *parser.CallExpr:
		l.call(n)
		return
	case *parser.FuncLit:
		l.function(n)
		return
	}
	syntax.Children(n, l.nodes)
}

func (l *linter) assign(s *parser.AssignStmt) {
	name, isName := s.LHS[0].(*parser.Ident)
	if s.Token == token.Define && isName {
		if symbol := l.Symbols[name]; symbol != nil {
			l.usage.defined = append(l.usage.defined, symbol)
			l.hiding(name)
			if l.isParams(name) {
				l.usage.paramsSource(s.RHS[0]) // defining an alias uses no parameter; the uses of the alias count
				return
			}
		}
	} else {
		if !isName || l.loops.outlives(l.Symbols[name]) {
			l.loops.store(s.RHS[0])
		}
		l.target(s.LHS[0])
	}
	l.nodes(s.RHS[0])
}

// target checks the target of an assignment. An assignment changes a variable without reading it.
func (l *linter) target(e parser.Expr) {
	if _, ok := e.(*parser.Ident); ok {
		return
	}
	for {
		switch b := e.(type) {
		case *parser.SelectorExpr:
			e = b.Expr
			continue
		case *parser.IndexExpr:
			l.nodes(b.Index)
			e = b.Expr
			continue
		}
		break
	}
	l.nodes(e)
}

// harmless checks an expression whose value is only read.
func (l *linter) harmless(e parser.Expr) {
	name, ok := e.(*parser.Ident)
	if !ok || l.isParams(e) {
		l.nodes(e)
		return
	}
	l.usage.read[l.Symbols[name]] = true
}

// selector checks x.key and x[key].
func (l *linter) selector(e parser.Expr) {
	base, key := selected(e)
	if key == nil {
		l.nodes(e.(*parser.IndexExpr).Index)
	} else {
		l.types.member(e, base, key)
	}
	switch {
	case l.isParams(e):
		l.usage.allParams = true
	case key != nil && l.isParams(base): // paramChecker records this read
		if name, ok := base.(*parser.Ident); ok {
			l.usage.read[l.Symbols[name]] = true
			return
		}
		base, _ = selected(base)
	}
	if name, ok := base.(*parser.Ident); ok && key != nil {
		if s := l.Symbols[name]; s != nil {
			l.usage.fields = append(l.usage.fields, fieldRead{s, key})
		}
	}
	l.harmless(base)
}

func (l *linter) call(n *parser.CallExpr) {
	l.loops.sameEachRound(n)
	l.types.calls[n.Func] = n
	l.nodes(n.Func)
	builtin := l.builtin(n.Func)
	if builtin == "append" {
		l.loops.store(n.Args...)
	}
	visit := l.nodes
	if base, key := selected(n.Func); key != nil && l.module(base) != "" && l.module(base) != "enum" ||
		slices.Contains([]string{"len", "copy", "string", "format", "type_name"}, builtin) {
		visit = func(n parser.Node) { l.harmless(n.(parser.Expr)) }
	}
	for _, arg := range n.Args {
		visit(arg)
	}
}

func (l *linter) forStmt(n *parser.ForStmt) {
	around := loop{from: n.Pos(), to: n.End(), ends: leaves(n.Body)}
	if n.Init != nil {
		around.initFrom, around.initTo = n.Init.Pos(), n.Init.End()
		l.nodes(n.Init)
	}
	var inside []parser.Node
	if n.Cond != nil {
		inside = append(inside, n.Cond)
	}
	if n.Post != nil {
		inside = append(inside, n.Post)
	}
	l.inLoop(around, append(inside, n.Body)...)
}

// inLoop checks the nodes that a loop evaluates in each round.
func (l *linter) inLoop(around loop, inside ...parser.Node) {
	around.here = true
	l.loops.around = append(l.loops.around, around)
	for _, n := range inside {
		l.nodes(n)
	}
	l.loops.around = l.loops.around[:len(l.loops.around)-1]
}

// function checks a function. Loops around the function are marked as outside of it.
func (l *linter) function(n *parser.FuncLit) {
	for _, p := range n.Type.Params.List {
		l.hiding(p)
	}
	l.loops.lateVariables(n)
	outer := l.loops.around
	l.loops.around = slices.Clone(outer)
	for i := range l.loops.around {
		l.loops.around[i].here = false
	}
	l.nodes(n.Body)
	l.loops.around = outer
}

// hiding reports a variable that hides a module of the same name.
func (l *linter) hiding(name *parser.Ident) {
	s := l.Symbols[name]
	if s == nil || s.Hides == nil {
		return
	}
	outer, ok := s.Hides.Init.(*parser.ImportExpr)
	if !ok {
		return
	}
	if inner, ok := s.Init.(*parser.ImportExpr); ok && inner.ModuleName == outer.ModuleName {
		return
	}
	l.warn(diagnostic.CodeHiddenImport, name, "%q hides the module that is imported under this name", name.Name)
}
