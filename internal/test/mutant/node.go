package mutant

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"

	"writ/internal/test/gosource"
)

// Kind is the kind of syntax node that an edit replaces.
type Kind string

// The kinds, and the parts that a template can use in addition to $0, the whole node.
const (
	If      Kind = "if"         // the condition
	Case    Kind = "case"       // the only condition of a case in a switch
	Receive Kind = "receive"    // "case <-x" of a select, without its colon
	Range   Kind = "range"      // the expression that a loop ranges over
	Compare Kind = "comparison" // $1 and $2 are its sides
	Call    Kind = "call"       // $1, $2 and so on are its arguments; Names is the called function
	Assign  Kind = "assignment" // $1 is the left side, $2 the right side
	Return  Kind = "return"     // $0 is the statement; $1, $2 and so on are the results
	Value   Kind = "value"      // the value of the constant or variable in Edit.In
)

// node is a syntax node that matches a kind.
type node struct {
	whole ast.Node
	end   token.Pos // end of the replaced text, if it is before the end of the node
	parts []ast.Node
	named ast.Node // node whose identifiers match Edit.Names
}

// nodes returns the nodes of a kind in a function, in source order.
func nodes(fn gosource.Function, kind Kind) (all []node) {
	ast.Inspect(fn.Decl.Body, func(n ast.Node) bool {
		if found, ok := match(n, kind); ok {
			all = append(all, found)
		}
		return true
	})
	return all
}

func match(n ast.Node, kind Kind) (node, bool) {
	switch n := n.(type) {
	case *ast.IfStmt:
		return node{whole: n.Cond, named: withoutBody(n)}, kind == If
	case *ast.CaseClause:
		if kind == Case && len(n.List) == 1 {
			return node{whole: n.List[0]}, true
		}
	case *ast.CommClause:
		if kind == Receive && n.Comm != nil {
			return node{whole: n, end: n.Colon, named: n.Comm}, true
		}
	case *ast.RangeStmt:
		return node{whole: n.X}, kind == Range
	case *ast.BinaryExpr:
		return node{whole: n, parts: []ast.Node{n.X, n.Y}}, kind == Compare && comparisons[n.Op]
	case *ast.CallExpr:
		return node{whole: n, parts: expressions(n.Args), named: n.Fun}, kind == Call
	case *ast.AssignStmt:
		if kind == Assign && len(n.Lhs) == 1 && len(n.Rhs) == 1 {
			return node{whole: n, parts: []ast.Node{n.Lhs[0], n.Rhs[0]}}, true
		}
	case *ast.ReturnStmt:
		return node{whole: n, parts: expressions(n.Results)}, kind == Return
	}
	return node{}, false
}

var comparisons = map[token.Token]bool{
	token.EQL: true, token.NEQ: true, token.LSS: true, token.LEQ: true, token.GTR: true, token.GEQ: true,
}

// withoutBody returns the condition of an if, with the statement before it.
func withoutBody(n *ast.IfStmt) ast.Node {
	return &ast.IfStmt{
		If: n.If, Init: n.Init, Cond: n.Cond, Body: &ast.BlockStmt{Lbrace: n.Cond.End(), Rbrace: n.Cond.End()},
	}
}

func expressions(list []ast.Expr) (all []ast.Node) {
	for _, e := range list {
		all = append(all, e)
	}
	return all
}

// has reports whether a node contains an identifier. For a call, only the last part of its function's name matches:
// "Contains" for slices.Contains.
func (n node) has(kind Kind, name string) (found bool) {
	if kind == Call {
		called := gosource.Dotted(n.named.(ast.Expr))
		return called[strings.LastIndexByte(called, '.')+1:] == name
	}
	in := n.named
	if in == nil {
		in = n.whole
	}
	ast.Inspect(in, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == name
		return true
	})
	return found
}

// value returns the value of a constant or variable of a package, or nil if the file does not declare it.
func value(f *gosource.File, name string) ast.Node {
	for _, decl := range f.Syntax.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range group.Specs {
			if v, ok := spec.(*ast.ValueSpec); ok {
				i := slices.IndexFunc(v.Names, func(id *ast.Ident) bool { return id.Name == name })
				if i >= 0 && i < len(v.Values) {
					return v.Values[i]
				}
			}
		}
	}
	return nil
}
