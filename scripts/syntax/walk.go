package syntax

import "github.com/d5/tengo/v2/parser"

// Children calls visit for every node directly below n, in the order of the text.
func Children(n parser.Node, visit func(parser.Node)) {
	expr := func(e parser.Expr) {
		if e != nil {
			visit(e)
		}
	}
	stmt := func(s parser.Stmt) {
		if s != nil {
			visit(s)
		}
	}
	switch n := n.(type) {
	case *parser.File:
		for _, s := range n.Stmts {
			stmt(s)
		}
	case *parser.BlockStmt:
		for _, s := range n.Stmts {
			stmt(s)
		}
	case *parser.AssignStmt:
		for _, e := range n.LHS {
			expr(e)
		}
		for _, e := range n.RHS {
			expr(e)
		}
	case *parser.ExprStmt:
		expr(n.Expr)
	case *parser.IncDecStmt:
		expr(n.Expr)
	case *parser.IfStmt:
		stmt(n.Init)
		expr(n.Cond)
		visit(n.Body)
		stmt(n.Else)
	case *parser.ForStmt:
		stmt(n.Init)
		expr(n.Cond)
		stmt(n.Post)
		visit(n.Body)
	case *parser.ForInStmt:
		visit(n.Key)
		visit(n.Value)
		expr(n.Iterable)
		visit(n.Body)
	case *parser.ReturnStmt:
		expr(n.Result)
	case *parser.ExportStmt:
		expr(n.Result)
	case *parser.ArrayLit:
		for _, e := range n.Elements {
			expr(e)
		}
	case *parser.MapLit:
		for _, e := range n.Elements {
			expr(e.Value)
		}
	case *parser.BinaryExpr:
		expr(n.LHS)
		expr(n.RHS)
	case *parser.UnaryExpr:
		expr(n.Expr)
	case *parser.ParenExpr:
		expr(n.Expr)
	case *parser.ErrorExpr:
		expr(n.Expr)
	case *parser.ImmutableExpr:
		expr(n.Expr)
	case *parser.CondExpr:
		expr(n.Cond)
		expr(n.True)
		expr(n.False)
	case *parser.SelectorExpr:
		expr(n.Expr)
		expr(n.Sel)
	case *parser.IndexExpr:
		expr(n.Expr)
		expr(n.Index)
	case *parser.SliceExpr:
		expr(n.Expr)
		expr(n.Low)
		expr(n.High)
	case *parser.CallExpr:
		expr(n.Func)
		for _, e := range n.Args {
			expr(e)
		}
	case *parser.FuncLit:
		visit(n.Body)
	}
}

// AnyChild reports whether `is` returns true for a child of a node.
func AnyChild(n parser.Node, is func(parser.Node) bool) bool {
	found := false
	Children(n, func(c parser.Node) { found = found || is(c) })
	return found
}
