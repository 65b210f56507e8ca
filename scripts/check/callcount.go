package check

import (
	"math"

	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/token"

	"writ/scripts"
	"writ/scripts/diagnostic"
	"writ/scripts/syntax"
)

// callCounter counts the calls that every run of a script makes. It ignores functions, and loops without a constant
// number of rounds.
type callCounter struct {
	scope
	count int
	over  parser.Node // the statement at which count exceeds MaxCalls
}

// leastCalls returns the number of calls that every run of a script makes at least. It reports a script that exceeds
// MaxCalls: each of its runs would fail with SCRIPT_LIMIT.
func leastCalls(in scope, tree *parser.File) int {
	c := &callCounter{scope: in}
	for _, u := range in.Units {
		if u.Tree != nil && c.endsItself(u.Tree) { // a module may end the run of the script
			return 0
		}
	}
	for _, s := range tree.Stmts {
		c.add(s, c.stmt(s))
	}
	if c.over != nil {
		c.warn(diagnostic.CodeManyCalls, c.over, "the script makes %d calls or more; a run may make %d", c.count,
			scripts.MaxCalls).Help =
			"split the work: a parameter can select the part that one run does"
	}
	return c.count
}

// endsItself reports whether a tree contains a call of run.fail, so that the script may end before its last call.
func (c *callCounter) endsItself(n parser.Node) bool {
	if call, ok := n.(*parser.CallExpr); ok && c.isRun(call.Func, "fail") {
		return true
	}
	return syntax.AnyChild(n, c.endsItself)
}

// add adds the calls of a statement at the top level.
func (c *callCounter) add(n parser.Node, calls int) {
	if c.count = sum(c.count, calls); c.count > scripts.MaxCalls && c.over == nil {
		c.over = n
	}
}

// stmt returns the minimum number of calls of a statement.
func (c *callCounter) stmt(s parser.Stmt) (calls int) {
	switch s := s.(type) {
	case *parser.BlockStmt:
		for _, inner := range s.Stmts {
			calls = sum(calls, c.stmt(inner))
		}
		return calls
	case *parser.IfStmt:
		if s.Init != nil {
			calls = c.stmt(s.Init)
		}
		calls = sum(calls, c.expr(s.Cond))
		if s.Else != nil {
			calls = sum(calls, min(c.stmt(s.Body), c.stmt(s.Else)))
		}
		return calls
	case *parser.ForStmt:
		return product(c.rounds(s), c.body(s.Body))
	case *parser.ForInStmt:
		return product(c.elements(s.Iterable), c.body(s.Body))
	case *parser.AssignStmt, *parser.ExprStmt, *parser.ExportStmt:
		syntax.Children(s, func(n parser.Node) {
			if e, ok := n.(parser.Expr); ok {
				calls = sum(calls, c.expr(e))
			}
		})
	}
	return calls
}

// body returns the number of calls in one round of a loop. It returns 0 if a round may end early.
func (c *callCounter) body(b *parser.BlockStmt) int {
	if leaves(b) || continues(b) {
		return 0
	}
	return c.stmt(b)
}

// continues reports whether the body of a loop, which has no `break`, contains a `continue`, possibly of an inner loop.
func continues(n parser.Node) bool {
	switch n := n.(type) {
	case *parser.BranchStmt:
		return true
	case *parser.FuncLit:
		return false
	default:
		return syntax.AnyChild(n, continues)
	}
}

// expr returns the minimum number of calls of an expression.
func (c *callCounter) expr(e parser.Expr) (calls int) {
	switch e := e.(type) {
	case *parser.FuncLit:
		return 0
	case *parser.CondExpr:
		return sum(c.expr(e.Cond), min(c.expr(e.True), c.expr(e.False)))
	case *parser.BinaryExpr:
		if e.Token == token.LAnd || e.Token == token.LOr {
			return c.expr(e.LHS)
		}
	case *parser.CallExpr:
		if op := c.operation(e.Func); op != nil && op.Module != "run" {
			calls = 1
		}
	}
	syntax.Children(e, func(n parser.Node) {
		if inner, ok := n.(parser.Expr); ok {
			calls = sum(calls, c.expr(inner))
		}
	})
	return calls
}

// rounds returns the number of rounds of a loop like `for i := a; i < b; i++`, also downwards or with another step, if
// its bounds are literals and its body does not change i. It is 0 for other loops.
func (c *callCounter) rounds(s *parser.ForStmt) int {
	init, ok := s.Init.(*parser.AssignStmt)
	if !ok || init.Token != token.Define || len(init.LHS) != 1 || len(init.RHS) != 1 {
		return 0
	}
	name, isName := init.LHS[0].(*parser.Ident)
	from, isNumber := intLiteral(init.RHS[0])
	cond, isBinary := s.Cond.(*parser.BinaryExpr)
	if !isName || !isNumber || !isBinary || !c.isVariable(cond.LHS, c.Symbols[name]) ||
		c.changes(s.Body, c.Symbols[name]) {
		return 0
	}
	to, isNumber := intLiteral(cond.RHS)
	step := c.step(s.Post, c.Symbols[name])
	if !isNumber {
		return 0
	}
	switch {
	case cond.Token == token.Less && step > 0 && to > from:
		return int(min((to-from+step-1)/step, math.MaxInt32))
	case cond.Token == token.LessEq && step > 0 && to >= from:
		return int(min((to-from)/step+1, math.MaxInt32))
	case cond.Token == token.Greater && step < 0 && to < from:
		return int(min((from-to-step-1)/-step, math.MaxInt32))
	case cond.Token == token.GreaterEq && step < 0 && to <= from:
		return int(min((from-to)/-step+1, math.MaxInt32))
	}
	return 0
}

// step returns the number that a loop adds to its variable after each round, or 0 if it is not constant.
func (c *callCounter) step(post parser.Stmt, s *syntax.Symbol) int64 {
	switch post := post.(type) {
	case *parser.IncDecStmt:
		if !c.isVariable(post.Expr, s) {
			return 0
		}
		if post.Token == token.Dec {
			return -1
		}
		return 1
	case *parser.AssignStmt:
		if len(post.LHS) != 1 || len(post.RHS) != 1 || !c.isVariable(post.LHS[0], s) {
			return 0
		}
		n, _ := intLiteral(post.RHS[0])
		if n < 0 || n > math.MaxInt32 {
			return 0
		}
		switch post.Token {
		case token.AddAssign:
			return n
		case token.SubAssign:
			return -n
		}
	}
	return 0
}

// elements returns the number of rounds of a loop over a literal list or range(a, b). It is 0 for other values.
func (c *callCounter) elements(e parser.Expr) int {
	switch e := e.(type) {
	case *parser.ArrayLit:
		return len(e.Elements)
	case *parser.CallExpr:
		if c.builtin(e.Func) != "range" || len(e.Args) != 2 {
			return 0
		}
		from, known := intLiteral(e.Args[0])
		to, alsoKnown := intLiteral(e.Args[1])
		if known && alsoKnown {
			return int(min(max(to-from, from-to), math.MaxInt32))
		}
	}
	return 0
}

// isVariable reports whether an expression is the variable s.
func (c *callCounter) isVariable(e parser.Expr, s *syntax.Symbol) bool {
	name, ok := e.(*parser.Ident)
	return ok && s != nil && c.Symbols[name] == s
}

// changes reports whether statements assign to a variable.
func (c *callCounter) changes(n parser.Node, s *syntax.Symbol) bool {
	switch n := n.(type) {
	case *parser.AssignStmt:
		if n.Token != token.Define && c.isVariable(n.LHS[0], s) {
			return true
		}
	case *parser.IncDecStmt:
		if c.isVariable(n.Expr, s) {
			return true
		}
	}
	return syntax.AnyChild(n, func(inner parser.Node) bool { return c.changes(inner, s) })
}

// intLiteral returns the value of a literal whole number of at most 31 bits.
func intLiteral(e parser.Expr) (int64, bool) {
	v, _ := syntax.LiteralValue(e)
	n, ok := v.(int64)
	return n, ok && n > math.MinInt32 && n < math.MaxInt32
}

// sum and product saturate at 31 bits.
func sum(a, b int) int { return min(a+b, math.MaxInt32) }

func product(a, b int) int { return int(min(int64(a)*int64(b), math.MaxInt32)) }
