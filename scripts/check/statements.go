package check

import (
	"slices"

	"github.com/d5/tengo/v2/parser"

	"writ/scripts/diagnostic"
	"writ/scripts/syntax"
)

// statements finds statements without effect, and statements that never run.
type statements struct {
	scope
	main bool // the statements are in the script itself, not in a module
}

// check reports statements without effect, and unreachable statements.
func (s statements) check(list []parser.Stmt) {
	list = slices.DeleteFunc(slices.Clone(list), func(stmt parser.Stmt) bool {
		_, empty := stmt.(*parser.EmptyStmt)
		return empty
	})
	for i, stmt := range list {
		if e, ok := stmt.(*parser.ExprStmt); ok {
			s.unusedResult(e.Expr)
		}
		if last := s.exitOf(stmt); last != "" && i+1 < len(list) {
			s.warn(diagnostic.CodeUnreachable, list[i+1], "statements after %s never run", last)
			return
		}
	}
}

// exitOf returns the name of a statement that always leaves its block, or "" for other statements.
func (s statements) exitOf(stmt parser.Stmt) string {
	switch stmt := stmt.(type) {
	case *parser.ReturnStmt:
		return "return"
	case *parser.BranchStmt:
		return stmt.Token.String()
	case *parser.ExportStmt:
		if !s.main {
			return "export"
		}
	case *parser.ExprStmt:
		if call, ok := stmt.Expr.(*parser.CallExpr); ok && s.isRun(call.Func, "fail") {
			return "run.fail"
		}
	}
	return ""
}

// unusedResult reports an expression statement without effect.
func (s statements) unusedResult(e parser.Expr) {
	if call, ok := e.(*parser.CallExpr); ok {
		if name := s.pureCall(call); name != "" {
			s.warn(diagnostic.CodeUnusedResult, e, "the result of %s is not used", name)
		}
		return
	}
	if !s.acts(e) {
		s.warn(diagnostic.CodeUnusedResult, e, "this changes nothing and its result is not used")
	}
}

// acts reports whether evaluating e may have an effect: a call, a wait for a field, an import.
func (s statements) acts(e parser.Node) bool {
	switch e := e.(type) {
	case *parser.SelectorExpr, *parser.IndexExpr, *parser.ImportExpr, *parser.BadExpr:
		return true
	case *parser.CallExpr:
		if s.pureCall(e) == "" {
			return true
		}
	case *parser.FuncLit:
		return false
	}
	return syntax.AnyChild(e, s.acts)
}
