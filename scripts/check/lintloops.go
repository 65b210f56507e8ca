package check

import (
	"slices"

	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/token"

	"writ/sal/catalog"
	"writ/scripts/diagnostic"
	"writ/scripts/syntax"
)

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
	l.loops = append(l.loops, around)
	for _, n := range inside {
		l.nodes(n)
	}
	l.loops = l.loops[:len(l.loops)-1]
}

// function checks a function. Loops around it are marked as not its own.
func (l *linter) function(n *parser.FuncLit) {
	for _, p := range n.Type.Params.List {
		l.hiding(p)
	}
	if l.kept[n] && len(l.loops) > 0 {
		l.lateVariables(n, n.Body, make(map[*syntax.Symbol]bool))
	}
	outer := l.loops
	l.loops = slices.Clone(outer)
	for i := range l.loops {
		l.loops[i].here = false
	}
	l.nodes(n.Body)
	l.loops = outer
}

// markStored records which of the expressions are functions that are stored, so that a later round may call them.
func (l *linter) markStored(list ...parser.Expr) {
	for _, e := range list {
		if f, ok := e.(*parser.FuncLit); ok {
			l.kept[f] = true
		}
	}
}

// lateVariables reports the loop variables that a stored function captures. Each variable is checked once.
func (l *linter) lateVariables(f *parser.FuncLit, n parser.Node, seen map[*syntax.Symbol]bool) {
	if name, ok := n.(*parser.Ident); ok {
		if s := l.Symbols[name]; s != nil && s.Name != nil && !seen[s] {
			seen[s] = true
			if !l.shared(s) {
				return
			}
			l.warn(diagnostic.CodeLateVariable, name, "the function sees the last value of %q when it is called after the loop",
				name.Name)
		}
	}
	syntax.Children(n, func(c parser.Node) { l.lateVariables(f, c, seen) })
}

// shared reports whether all rounds of a loop share a variable. At the top level that applies to every variable defined
// inside the loop, in functions only to that of `i := 0`.
func (l *linter) shared(s *syntax.Symbol) bool {
	if _, constant := syntax.LiteralValue(s.Init); constant && s.Init != nil && !s.Assigned {
		return false
	}
	pos := s.Name.Pos()
	return slices.ContainsFunc(l.loops, func(o loop) bool {
		return o.initFrom <= pos && pos < o.initTo || s.Fn == nil && o.from <= pos && pos < o.to
	})
}

// sameEachRound reports a resource that a loop makes repeatedly under one name. Loops that may end early are excluded:
// they may be retries.
func (l *linter) sameEachRound(n *parser.CallExpr) {
	op := l.operation(n.Func)
	if op == nil || !op.Named() || op.Effect != catalog.Make || len(n.Args) == 0 {
		return
	}
	name, ok := n.Args[0].(*parser.StringLit)
	again := slices.ContainsFunc(l.loops, func(o loop) bool { return o.here })
	if ok && again && !slices.ContainsFunc(l.loops, func(o loop) bool { return o.here && o.ends }) {
		l.warn(diagnostic.CodeSameEachRound, name, "each round creates the same %s",
			op.Kind).Help = "derive its name from the loop's variable"
	}
}

// leaves reports whether the body of a loop may end the loop early.
func leaves(n parser.Node) bool {
	switch n := n.(type) {
	case *parser.ReturnStmt:
		return true
	case *parser.BranchStmt:
		return n.Token == token.Break
	case *parser.FuncLit:
		return false
	}
	found := false
	syntax.Children(n, func(c parser.Node) { found = found || leaves(c) })
	return found
}
