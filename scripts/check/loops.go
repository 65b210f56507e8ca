package check

import (
	"slices"

	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/token"

	"writ/sal/catalog"
	"writ/scripts/diagnostic"
	"writ/scripts/syntax"
)

// loops finds mistakes that depend on the loops around a node.
type loops struct {
	scope
	around []loop // loops around the current node, the outermost first
	stored map[*parser.FuncLit]bool
}

// loop is a loop around the current node.
type loop struct {
	from, to         parser.Pos
	initFrom, initTo parser.Pos // of the statement `i := 0`
	here             bool       // in the current function
	ends             bool       // it may end early
}

func newLoops(in scope) *loops { return &loops{scope: in, stored: make(map[*parser.FuncLit]bool)} }

// outlives reports whether a variable exists before the innermost loop begins.
func (l *loops) outlives(s *syntax.Symbol) bool {
	return s != nil && s.Name != nil && len(l.around) > 0 && s.Name.Pos() < l.around[len(l.around)-1].from
}

// store records the functions in a list of expressions that are stored. A later round of the loop may call them.
func (l *loops) store(list ...parser.Expr) {
	for _, e := range list {
		if f, ok := e.(*parser.FuncLit); ok {
			l.stored[f] = true
		}
	}
}

// lateVariables reports the loop variables that a stored function captures. Each variable is checked once.
func (l *loops) lateVariables(f *parser.FuncLit) {
	if !l.stored[f] || len(l.around) == 0 {
		return
	}
	seen := make(map[*syntax.Symbol]bool)
	var visit func(parser.Node)
	visit = func(n parser.Node) {
		if name, ok := n.(*parser.Ident); ok {
			if s := l.Symbols[name]; s != nil && s.Name != nil && !seen[s] {
				seen[s] = true
				if !l.shared(s) {
					return
				}
				l.warn(diagnostic.CodeLateVariable, name,
					"the function sees the last value of %q when it is called after the loop", name.Name)
			}
		}
		syntax.Children(n, visit)
	}
	visit(f.Body)
}

// shared reports whether all rounds of a loop share a variable. At the top level, all rounds share every variable
// defined inside the loop. In a function, they share only the variable of `i := 0`.
func (l *loops) shared(s *syntax.Symbol) bool {
	if _, constant := syntax.LiteralValue(s.Init); constant && s.Init != nil && !s.Assigned {
		return false
	}
	pos := s.Name.Pos()
	return slices.ContainsFunc(l.around, func(o loop) bool {
		return o.initFrom <= pos && pos < o.initTo || s.Fn == nil && o.from <= pos && pos < o.to
	})
}

// sameEachRound reports a resource that a loop makes repeatedly under one name. Loops that may end early are excluded:
// they may be retries.
func (l *loops) sameEachRound(n *parser.CallExpr) {
	op := l.operation(n.Func)
	if op == nil || !op.Named() || op.Effect != catalog.Make || len(n.Args) == 0 {
		return
	}
	name, ok := n.Args[0].(*parser.StringLit)
	again := slices.ContainsFunc(l.around, func(o loop) bool { return o.here })
	if ok && again && !slices.ContainsFunc(l.around, func(o loop) bool { return o.here && o.ends }) {
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
	return syntax.AnyChild(n, leaves)
}
