package scripts

import (
	"strconv"

	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/token"
)

// instrumenter changes the tree of a unit so that what it does is deterministic and bounded, without changing what it means:
//
//   - `for … in` walks over maps in the order of their keys;
//   - loops and functions burn fuel for the nodes of their body;
//   - +, ++, /, % and == become functions that know bounds, unless the operands that are written out show that it takes none: as operators
//     of Tengo they can take all memory, recurse until the process dies, or panic;
//   - what <, >, <= and >= compare is weighed, because texts may be long;
//   - x[i] becomes a function, because Tengo prints an index to make a key of it, and takes a text apart to find a character;
//   - builtins that are not bounded are replaced;
//   - a module of the bundle, which is compiled as a function, is called.
//
// For a plan every operator, condition and builtin becomes a function besides, so that each of them sees the values that are not known:
// Tengo's own would take them for values. It is not done for a pass, which must be fast.
//
// The tree is changed, not the text, so every node keeps the position that the author knows.
type instrumenter struct {
	symbols map[*parser.Ident]*symbol
	modules map[string]bool // of the bundle
	main    bool            // the unit is the script itself
	plan    bool            // the program is for a plan
}

func (in *instrumenter) stmts(list []parser.Stmt) {
	for i, s := range list {
		list[i] = in.stmt(s)
	}
}

func (in *instrumenter) stmt(s parser.Stmt) parser.Stmt {
	switch s := s.(type) {
	case *parser.AssignStmt:
		return in.assign(s)
	case *parser.IncDecStmt:
		in.target(s.Expr)
		if s.Token == token.Inc { // of a text it is one longer
			one := &parser.IntLit{Value: 1, ValuePos: s.TokenPos}
			sum := in.binary(&parser.BinaryExpr{LHS: s.Expr, RHS: one, Token: token.Add, TokenPos: s.TokenPos})
			return &parser.AssignStmt{LHS: []parser.Expr{s.Expr}, RHS: []parser.Expr{sum}, Token: token.Assign, TokenPos: s.TokenPos}
		}
	case *parser.ExprStmt:
		s.Expr = in.expr(s.Expr)
	case *parser.BlockStmt:
		in.stmts(s.Stmts)
	case *parser.IfStmt:
		if s.Init != nil {
			s.Init = in.stmt(s.Init)
		}
		s.Cond = in.decision(s.Cond)
		in.stmts(s.Body.Stmts)
		if s.Else != nil {
			s.Else = in.stmt(s.Else)
		}
	case *parser.ForStmt:
		fuel := cost(s.Cond) + cost(s.Post) + cost(s.Body)
		if s.Init != nil {
			s.Init = in.stmt(s.Init)
		}
		if s.Cond != nil {
			s.Cond = in.decision(s.Cond)
		}
		if s.Post != nil {
			s.Post = in.stmt(s.Post)
		}
		in.body(s.Body, fuel, s.ForPos)
	case *parser.ForInStmt:
		fuel := 2 + cost(s.Body)
		s.Iterable = call(nativeIterate, s.Iterable.Pos(), in.expr(s.Iterable))
		in.body(s.Body, fuel, s.ForPos)
	case *parser.ReturnStmt:
		if s.Result != nil {
			s.Result = in.expr(s.Result)
		}
	case *parser.ExportStmt:
		if in.main {
			return &parser.EmptyStmt{Semicolon: s.ExportPos, Implicit: true} // as Tengo does
		}
		// A module is compiled as a function, and what it exports is what this returns.
		return &parser.ReturnStmt{ReturnPos: s.ExportPos, Result: &parser.ImmutableExpr{Expr: in.expr(s.Result), ErrorPos: s.ExportPos}}
	}
	return s
}

// body instruments the body of a loop or function, and lets it burn fuel first.
func (in *instrumenter) body(b *parser.BlockStmt, fuel int, pos parser.Pos) {
	in.stmts(b.Stmts)
	burn := &parser.ExprStmt{Expr: call(nativeFuel+strconv.Itoa(fuel), pos)}
	b.Stmts = append([]parser.Stmt{burn}, b.Stmts...)
}

// cost counts the nodes below n that are evaluated when n is, without what burns for itself. A node that makes a value counts more, about
// one for 6 bytes.
func cost(n parser.Node) int {
	sum := 1
	switch n := n.(type) {
	case nil:
		return 0
	case *parser.FuncLit:
		return 24 // a closure; its body burns when it is called
	case *parser.ForStmt:
		return 1 + cost(n.Init)
	case *parser.ForInStmt:
		return 16 + cost(n.Iterable)
	case *parser.MapLit:
		sum = 58 + 8*len(n.Elements)
	case *parser.ArrayLit:
		sum = 10 + 3*len(n.Elements)
	case *parser.CallExpr:
		sum = 4 + 3*len(n.Args)
	case *parser.SliceExpr, *parser.ImmutableExpr, *parser.ErrorExpr:
		sum = 8
	case *parser.StringLit:
		sum += len(n.Value) / 64 // it may be compared
	case *parser.BinaryExpr, *parser.UnaryExpr:
		sum = 3
	}
	children(n, func(c parser.Node) { sum += cost(c) })
	return sum
}

// assign instruments an assignment. x += y becomes x = x + y where the operator needs bounds; Tengo evaluates x twice either way.
func (in *instrumenter) assign(s *parser.AssignStmt) parser.Stmt {
	s.RHS[0] = in.expr(s.RHS[0])
	in.target(s.LHS[0])
	operator := map[token.Token]token.Token{token.AddAssign: token.Add, token.QuoAssign: token.Quo, token.RemAssign: token.Rem}[s.Token]
	if in.plan {
		operator = compound[s.Token]
	}
	if operator == token.Illegal {
		return s
	}
	s.RHS[0] = in.binary(&parser.BinaryExpr{LHS: s.LHS[0], RHS: s.RHS[0], Token: operator, TokenPos: s.TokenPos})
	s.Token = token.Assign
	return s
}

// compound are the operators of all assignments that have one.
var compound = map[token.Token]token.Token{
	token.AddAssign: token.Add, token.SubAssign: token.Sub, token.MulAssign: token.Mul, token.QuoAssign: token.Quo, token.RemAssign: token.Rem,
	token.AndAssign: token.And, token.OrAssign: token.Or, token.XorAssign: token.Xor, token.AndNotAssign: token.AndNot,
	token.ShlAssign: token.Shl, token.ShrAssign: token.Shr,
}

// target instruments the left side of an assignment.
func (in *instrumenter) target(e parser.Expr) {
	switch e := e.(type) {
	case *parser.SelectorExpr:
		in.target(e.Expr)
	case *parser.IndexExpr:
		in.target(e.Expr)
		e.Index = in.index(e.Index)
	}
}

func (in *instrumenter) exprs(list []parser.Expr) {
	for i, e := range list {
		list[i] = in.expr(e)
	}
}

func (in *instrumenter) expr(e parser.Expr) parser.Expr {
	switch e := e.(type) {
	case *parser.Ident:
		if s := in.symbols[e]; s != nil && s.builtin && (in.plan || bounded[e.Name] != nil) {
			return &parser.ImportExpr{ModuleName: nativeBuiltin + e.Name, Token: token.Import, TokenPos: e.NamePos}
		}
	case *parser.ImportExpr:
		if in.modules[e.ModuleName] {
			return &parser.CallExpr{Func: e}
		}
	case *parser.BinaryExpr:
		e.LHS, e.RHS = in.expr(e.LHS), in.expr(e.RHS)
		return in.binary(e)
	case *parser.ArrayLit:
		in.exprs(e.Elements)
	case *parser.MapLit:
		for _, element := range e.Elements {
			element.Value = in.expr(element.Value)
		}
	case *parser.UnaryExpr:
		e.Expr = in.expr(e.Expr)
		if in.plan && e.Token != token.Add && !number(e.Expr) { // +x does nothing
			return call(nativeUnary+strconv.Itoa(int(e.Token)), e.Pos(), e.Expr)
		}
	case *parser.ParenExpr:
		e.Expr = in.expr(e.Expr)
	case *parser.ErrorExpr:
		e.Expr = in.expr(e.Expr)
	case *parser.ImmutableExpr:
		e.Expr = in.expr(e.Expr)
	case *parser.CondExpr:
		e.Cond, e.True, e.False = in.decision(e.Cond), in.expr(e.True), in.expr(e.False)
	case *parser.SelectorExpr:
		e.Expr = in.expr(e.Expr)
	case *parser.IndexExpr:
		e.Expr = in.expr(e.Expr)
		if _, isKey := e.Index.(*parser.StringLit); !isKey {
			return call(nativeElement, e.Pos(), e.Expr, in.expr(e.Index))
		}
	case *parser.SliceExpr:
		e.Expr = in.expr(e.Expr)
		if e.Low != nil {
			e.Low = in.expr(e.Low)
		}
		if e.High != nil {
			e.High = in.expr(e.High)
		}
		if in.plan {
			return call(nativeSlice, e.Pos(), e.Expr, orUndefined(e.Low), orUndefined(e.High))
		}
	case *parser.CallExpr:
		in.call(e)
	case *parser.FuncLit:
		in.body(e.Body, 2+cost(e.Body), e.Pos())
	}
	return e
}

func (in *instrumenter) call(e *parser.CallExpr) {
	e.Func = in.expr(e.Func)
	in.exprs(e.Args)
	if last := len(e.Args) - 1; last >= 0 && e.Ellipsis.IsValid() {
		e.Args[last] = call(nativeSpread, e.Args[last].Pos(), e.Args[last])
	}
}

// decision instruments what decides which way the script goes.
func (in *instrumenter) decision(e parser.Expr) parser.Expr {
	return in.decides(in.expr(e))
}

func (in *instrumenter) decides(e parser.Expr) parser.Expr {
	if in.plan && !literal(e) {
		return call(nativeDecide, e.Pos(), e)
	}
	return e
}

func orUndefined(e parser.Expr) parser.Expr {
	if e == nil {
		return &parser.UndefinedLit{}
	}
	return e
}

func (in *instrumenter) index(e parser.Expr) parser.Expr {
	switch e.(type) {
	case *parser.StringLit, *parser.IntLit:
		return e
	}
	return call(nativeIndex, e.Pos(), in.expr(e))
}

// binary returns what takes the place of an operator whose operands are instrumented.
func (in *instrumenter) binary(e *parser.BinaryExpr) parser.Expr {
	switch e.Token {
	case token.Add:
		if !number(e.LHS) {
			return call(nativeAdd, e.Pos(), e.LHS, e.RHS)
		}
	case token.Less, token.LessEq, token.Greater, token.GreaterEq:
		if !literal(e.LHS) && !literal(e.RHS) {
			e.LHS = call(nativeWeigh, e.LHS.Pos(), e.LHS)
		}
	case token.Quo, token.Rem:
		if n, ok := e.RHS.(*parser.IntLit); !ok || n.Value == 0 {
			return call(map[token.Token]string{token.Quo: nativeDivide, token.Rem: nativeRest}[e.Token], e.Pos(), e.LHS, e.RHS)
		}
	case token.Equal, token.NotEqual:
		if literal(e.LHS) || literal(e.RHS) {
			break
		}
		equal := call(nativeEqual, e.Pos(), e.LHS, e.RHS)
		switch {
		case e.Token == token.Equal:
			return equal
		case in.plan:
			return call(nativeUnary+strconv.Itoa(int(token.Not)), e.Pos(), equal)
		default:
			return &parser.UnaryExpr{Expr: equal, Token: token.Not, TokenPos: e.TokenPos}
		}
	case token.LAnd, token.LOr:
		e.LHS = in.decides(e.LHS)
		return e
	}
	if in.plan && (!literal(e.LHS) || !literal(e.RHS)) {
		return call(nativeOperator+strconv.Itoa(int(e.Token)), e.Pos(), e.LHS, e.RHS)
	}
	return e
}

// number reports whether e is a number that is written out.
func number(e parser.Expr) bool {
	switch e.(type) {
	case *parser.IntLit, *parser.FloatLit, *parser.CharLit:
		return true
	default:
		return false
	}
}

// literal reports whether e is a scalar that is written out.
func literal(e parser.Expr) bool {
	switch e.(type) {
	case *parser.StringLit, *parser.BoolLit, *parser.UndefinedLit:
		return true
	default:
		return number(e)
	}
}

// call makes the call of a native at a position of the source.
func call(native string, pos parser.Pos, args ...parser.Expr) *parser.CallExpr {
	return &parser.CallExpr{Func: &parser.ImportExpr{ModuleName: native, Token: token.Import, TokenPos: pos}, Args: args}
}
