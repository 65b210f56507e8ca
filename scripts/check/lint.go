package check

import (
	"slices"
	"strings"

	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/token"

	"writ/internal/meant"
	"writ/scripts"
	"writ/scripts/diagnostic"
	"writ/scripts/interpreter"
	"writ/scripts/syntax"
)

// linter finds valid code that is most likely a mistake. It checks only scripts without errors, whose names are all
// resolved, and reports only certain findings.
//
// Some traps of Tengo need no lint here: the engine sorts the keys of maps for every iteration and output, and its
// append never changes a shared list.
type linter struct {
	*checker
	main    bool // the current unit is the script itself
	defined []*syntax.Symbol
	read    map[*syntax.Symbol]bool
	loose   map[*syntax.Symbol]bool // used in a way that may change its value
	fields  []fieldRead
	all     bool // the parameters are used as a whole, so every one may be read
	loops   []loop
	kept    map[*parser.FuncLit]bool
}

// fieldRead is a read of a variable with a literal key.
type fieldRead struct {
	of  *syntax.Symbol
	key *parser.StringLit
}

// loop is a loop around the current node.
type loop struct {
	from, to         parser.Pos
	initFrom, initTo parser.Pos // of `i := 0`
	here             bool       // in the current function
	ends             bool       // it may end early
}

// lint checks the script and its modules.
func (c *checker) lint(params scripts.Params) {
	l := &linter{
		checker: c, read: make(map[*syntax.Symbol]bool), loose: make(map[*syntax.Symbol]bool),
		kept: make(map[*parser.FuncLit]bool),
	}
	for _, u := range c.Units {
		if u.Tree == nil || u.Source.Name == "enum" { // not written by the author
			continue
		}
		l.main = u.Main
		l.statements(u.Tree.Stmts)
		l.nodes(u.Tree)
		eachBody(u.Tree.Stmts, l.splits)
		eachBody(u.Tree.Stmts, l.unordered)
		if u.Main {
			l.tooManyCalls(u.Tree)
		}
	}
	l.unusedNames()
	l.unusedParams(params)
	l.missingKeys()
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

// warn reports a node, unless the report is already full.
func (l *linter) warn(code string, n parser.Node, format string, args ...any) *diagnostic.Diagnostic {
	if l.Crowded() {
		return &diagnostic.Diagnostic{}
	}
	return l.At(code, n, format, args...)
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
		l.statements(n.Stmts)
	case *parser.IfStmt:
		l.condition(n.Cond)
	case *parser.CondExpr:
		l.condition(n.Cond)
	case *parser.ForStmt:
		l.condition(n.Cond)
		l.forStmt(n)
		return
	case *parser.ForInStmt:
		l.hiding(n.Key)
		l.hiding(n.Value)
		l.harmless(n.Iterable)
		l.inLoop(loop{from: n.Pos(), to: n.End(), ends: leaves(n.Body)}, n.Body)
		return
	case *parser.Ident:
		l.value(n)
	case *parser.SelectorExpr, *parser.IndexExpr:
		l.selector(n.(parser.Expr))
		return
	case *parser.BinaryExpr:
		l.binary(n)
	case *parser.UnaryExpr:
		if n.Token == token.Not {
			l.condition(n.Expr)
		}
	case *parser.ArrayLit:
		l.markStored(n.Elements...)
	case *parser.MapElementLit:
		l.markStored(n.Value)
	case *parser.MapLit:
		for _, e := range n.Elements {
			l.markStored(e.Value)
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

// statements reports statements without effect, and unreachable ones.
func (l *linter) statements(list []parser.Stmt) {
	list = slices.DeleteFunc(slices.Clone(list), func(s parser.Stmt) bool {
		_, empty := s.(*parser.EmptyStmt)
		return empty
	})
	for i, s := range list {
		if e, ok := s.(*parser.ExprStmt); ok {
			l.unusedResult(e.Expr)
		}
		if last := l.exitOf(s); last != "" && i+1 < len(list) {
			l.warn(diagnostic.CodeUnreachable, list[i+1], "statements after %s never run", last)
			return
		}
	}
}

// exitOf returns the name of a statement that always leaves its block, or "" for other statements.
func (l *linter) exitOf(s parser.Stmt) string {
	switch s := s.(type) {
	case *parser.ReturnStmt:
		return "return"
	case *parser.BranchStmt:
		return s.Token.String()
	case *parser.ExportStmt:
		if !l.main {
			return "export"
		}
	case *parser.ExprStmt:
		if call, ok := s.Expr.(*parser.CallExpr); ok {
			if base, key := selected(call.Func); key != nil && key.Value == "fail" && l.module(base) == "run" {
				return "run.fail"
			}
		}
	}
	return ""
}

func (l *linter) assign(s *parser.AssignStmt) {
	name, isName := s.LHS[0].(*parser.Ident)
	if s.Token == token.Define && isName {
		if symbol := l.Symbols[name]; symbol != nil {
			l.defined = append(l.defined, symbol)
			l.hiding(name)
			if l.isParams(name) {
				l.paramsSource(s.RHS[0]) // an alias of the parameters; its own uses count
				return
			}
		}
	} else {
		if !isName || l.outlives(l.Symbols[name]) {
			l.markStored(s.RHS[0])
		}
		l.target(s.LHS[0])
	}
	l.nodes(s.RHS[0])
}

// paramsSource marks a variable as read if e gets the parameters from it.
func (l *linter) paramsSource(e parser.Expr) {
	if base, _ := selected(e); base != nil {
		e = base
	}
	if name, ok := e.(*parser.Ident); ok {
		l.read[l.Symbols[name]] = true
	}
}

// outlives reports whether a variable exists before the innermost loop begins.
func (l *linter) outlives(s *syntax.Symbol) bool {
	return s != nil && s.Name != nil && len(l.loops) > 0 && s.Name.Pos() < l.loops[len(l.loops)-1].from
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

// value records a use of a variable that may change its value.
func (l *linter) value(name *parser.Ident) {
	if s := l.Symbols[name]; s != nil && s.Name != name {
		l.read[s], l.loose[s] = true, true
	}
	l.all = l.all || l.isParams(name)
}

// harmless checks an expression whose value is only read.
func (l *linter) harmless(e parser.Expr) {
	name, ok := e.(*parser.Ident)
	if !ok || l.isParams(e) {
		l.nodes(e)
		return
	}
	l.read[l.Symbols[name]] = true
}

// selector checks x.key and x[key].
func (l *linter) selector(e parser.Expr) {
	base, key := selected(e)
	if key == nil {
		l.nodes(e.(*parser.IndexExpr).Index)
	}
	switch {
	case l.isParams(e):
		l.all = true
	case key != nil && l.isParams(base): // checker.reads has it
		if name, ok := base.(*parser.Ident); ok {
			l.read[l.Symbols[name]] = true
			return
		}
		base, _ = selected(base)
	}
	if name, ok := base.(*parser.Ident); ok && key != nil {
		if s := l.Symbols[name]; s != nil {
			l.fields = append(l.fields, fieldRead{s, key})
		}
	}
	l.harmless(base)
}

func (l *linter) call(n *parser.CallExpr) {
	l.sameEachRound(n)
	l.nodes(n.Func)
	name, _ := n.Func.(*parser.Ident)
	builtin := ""
	if name != nil && l.Symbols[name] != nil && l.Symbols[name].Builtin {
		builtin = name.Name
	}
	if builtin == "append" {
		l.markStored(n.Args...)
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

// unusedResult reports an expression statement without effect.
func (l *linter) unusedResult(e parser.Expr) {
	if call, ok := e.(*parser.CallExpr); ok {
		if name := l.pureCall(call); name != "" {
			l.warn(diagnostic.CodeUnusedResult, e, "the result of %s is not used", name)
		}
		return
	}
	if !l.acts(e) {
		l.warn(diagnostic.CodeUnusedResult, e, "this changes nothing and its result is not used")
	}
}

// pureCall returns the name of the called function if its only effect is its result, or "" otherwise.
func (l *linter) pureCall(call *parser.CallExpr) string {
	if name, ok := call.Func.(*parser.Ident); ok {
		s := l.Symbols[name]
		if s != nil && s.Builtin && name.Name != "delete" && name.Name != "splice" {
			return name.Name
		}
		return ""
	}
	base, key := selected(call.Func)
	if key == nil {
		return ""
	}
	module := l.module(base)
	if m, ok := interpreter.LookupMember(module, key.Value); ok && m.Call && module != "run" {
		return module + "." + key.Value
	}
	return ""
}

// acts reports whether evaluating e may have an effect: a call, a wait for a field, an import.
func (l *linter) acts(e parser.Node) bool {
	switch e := e.(type) {
	case *parser.SelectorExpr, *parser.IndexExpr, *parser.ImportExpr, *parser.BadExpr:
		return true
	case *parser.CallExpr:
		if l.pureCall(e) == "" {
			return true
		}
	case *parser.FuncLit:
		return false
	}
	found := false
	syntax.Children(e, func(n parser.Node) { found = found || l.acts(n) })
	return found
}

// binary reports comparisons of handles that have the same result in every run.
func (l *linter) binary(n *parser.BinaryExpr) {
	switch n.Token {
	case token.LAnd, token.LOr:
		l.condition(n.LHS)
	case token.Equal, token.NotEqual:
		l.compared(n, n.LHS, n.RHS)
		l.compared(n, n.RHS, n.LHS)
	}
}

func (l *linter) compared(n *parser.BinaryExpr, e, with parser.Expr) {
	if !interpreter.IsLiteral(with) {
		return
	}
	always := "never"
	if n.Token == token.NotEqual {
		always = "always"
	}
	if op := l.handle(e); op != nil {
		d := l.warn(diagnostic.CodeNeverEqual, n, "a handle never equals a literal: this is %s true", always)
		if _, isUndefined := with.(*parser.UndefinedLit); isUndefined {
			d.Help = "compare its field err"
		} else {
			d.Help = "compare a field of it"
		}
		return
	}
	base, key := selected(e)
	if _, isUndefined := with.(*parser.UndefinedLit); key != nil && key.Value == interpreter.FieldErr &&
		l.handle(base) != nil && !isUndefined {
		l.warn(diagnostic.CodeNeverEqual, n, "err is undefined or a map: this is %s true",
			always).Help = "compare err.code or err.message"
	}
}

// condition reports handles that are used as conditions.
func (l *linter) condition(e parser.Expr) {
	switch e := e.(type) {
	case *parser.ParenExpr:
		l.condition(e.Expr)
	case *parser.BinaryExpr:
		if e.Token == token.LAnd || e.Token == token.LOr {
			l.condition(e.LHS)
			l.condition(e.RHS)
		}
	case *parser.Ident, *parser.CallExpr:
		if l.handle(e) != nil {
			l.warn(diagnostic.CodeAlwaysTrue, e, "a handle is always true").Help = "read its field err"
		}
	}
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

// unusedNames reports variables and modules that are never read.
func (l *linter) unusedNames() {
	for _, s := range l.defined {
		if l.read[s] || strings.HasPrefix(s.Name.Name, "_") || s == l.paramsSymbol || slices.Contains(l.Tests, s.Name) {
			continue
		}
		i, isImport := s.Init.(*parser.ImportExpr)
		switch {
		case !isImport:
			l.warn(diagnostic.CodeUnusedVariable, s.Name, "%q is never read", s.Name.Name)
		case scripts.BuiltIn(i.ModuleName):
			l.warn(diagnostic.CodeUnusedImport, s.Name, "the module %q is imported and not used",
				i.ModuleName).Help = "remove it"
		}
	}
}

// unusedParams reports parameters that are never read, if all reads are known.
func (l *linter) unusedParams(params scripts.Params) {
	if l.all || l.paramsSymbol == nil {
		return
	}
	literal, ok := l.paramsSymbol.Init.(*parser.MapLit)
	if !ok {
		return
	}
	for _, e := range literal.Elements {
		_, declared := params.Named(e.Key)
		if declared && !slices.ContainsFunc(l.reads, func(r paramRead) bool { return r.name == e.Key }) {
			l.Add(diagnostic.CodeUnusedParam, e.KeyPos, syntax.KeyWidth(e), "the parameter %q is never read",
				e.Key).Help = "read it as run.params." + e.Key
		}
	}
}

// missingKeys reports reads of keys that a literal map does not have.
func (l *linter) missingKeys() {
	for _, f := range l.fields {
		if l.Crowded() {
			return
		}
		literal, ok := f.of.Init.(*parser.MapLit)
		if !ok || f.of.Assigned || l.loose[f.of] || f.of == l.paramsSymbol ||
			syntax.ElementNamed(literal, f.key.Value) != nil {
			continue
		}
		keys := make([]string, len(literal.Elements))
		for i, e := range literal.Elements {
			keys[i] = e.Key
		}
		l.warn(diagnostic.CodeMissingKey, f.key, "%s has no key %q, so this is undefined", f.of.Name.Name, f.key.Value).
			Suggest(meant.Closest(f.key.Value, keys))
	}
}
