// Package instrument changes the syntax trees of a program to make it deterministic and bounded, without changing its
// meaning:
//
//   - `for … in` iterates over maps in the order of their keys.
//   - Loops and functions burn fuel for the nodes of their body.
//   - +, ++, /, % and == become functions with limits, unless literal operands make limits unnecessary. The operators
//     of Tengo can use all memory, recurse until the process dies, or panic.
//   - The operands of <, >, <= and >= burn fuel, because texts may be long.
//   - x[i] becomes a function, because Tengo prints an index to make a key, and decodes a text to find a character.
//   - Builtins without limits are replaced.
//   - A module of the bundle is compiled as a function, and its import becomes a call.
//
// For a plan, every other operator, condition and builtin also becomes a function that handles unknown values; the
// Tengo originals would treat them as values. A pass skips this, because it must be fast.
//
// The tree is changed, not the text, so every node keeps its source position.
package instrument

import (
	"strconv"

	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/token"

	"writ/scripts/syntax"
)

// The names of the natives that replace operators and statements: functions in Go that the program imports. A script
// cannot contain these names.
const (
	Iterate = "\x00iterate"
	Add     = "\x00add"
	Divide  = "\x00divide"
	Rest    = "\x00rest"
	Equal   = "\x00equal"
	Weigh   = "\x00weigh"
	Index   = "\x00index"
	Element = "\x00element"
	Spread  = "\x00spread"
	Fuel    = "\x00fuel:"    // followed by the amount
	Builtin = "\x00builtin:" // followed by the name of a builtin

	// The natives below are used only in plans.
	Decide   = "\x00decide"
	Slice    = "\x00slice"
	Unary    = "\x00unary:"    // followed by the token
	Operator = "\x00operator:" // followed by the token
)

// Options describe the program.
type Options struct {
	Symbols  map[*parser.Ident]*syntax.Symbol
	Modules  map[string]bool           // of the bundle
	Replaced func(builtin string) bool // reports whether a native replaces a builtin function in every program
	Plan     bool                      // the program is for a plan
}

// Script changes the statements of the script itself.
func (o Options) Script(list []parser.Stmt) { (&instrumenter{o, true}).stmts(list) }

// Module changes the statements of a module, and returns them as the body of a function at pos.
func (o Options) Module(list []parser.Stmt, pos parser.Pos) parser.Expr {
	return (&instrumenter{o, false}).expr(&parser.FuncLit{
		Type: &parser.FuncType{FuncPos: pos, Params: &parser.IdentList{}},
		Body: &parser.BlockStmt{Stmts: list, LBrace: pos},
	})
}

// instrumenter changes the tree of one unit.
type instrumenter struct {
	Options
	main bool // the unit is the script itself
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
		if s.Token == token.Inc { // x++ on a text appends to it
			one := &parser.IntLit{Value: 1, ValuePos: s.TokenPos}
			sum := in.binary(&parser.BinaryExpr{LHS: s.Expr, RHS: one, Token: token.Add, TokenPos: s.TokenPos})
			return &parser.AssignStmt{
				LHS: []parser.Expr{s.Expr}, RHS: []parser.Expr{sum}, Token: token.Assign, TokenPos: s.TokenPos,
			}
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
		s.Iterable = Call(Iterate, s.Iterable.Pos(), in.expr(s.Iterable))
		in.body(s.Body, fuel, s.ForPos)
	case *parser.ReturnStmt:
		if s.Result != nil {
			s.Result = in.expr(s.Result)
		}
	case *parser.ExportStmt:
		if in.main {
			return &parser.EmptyStmt{Semicolon: s.ExportPos, Implicit: true} // Tengo ignores it, too
		}
		// A module is compiled as a function that returns its export.
		return &parser.ReturnStmt{
			ReturnPos: s.ExportPos, Result: &parser.ImmutableExpr{Expr: in.expr(s.Result), ErrorPos: s.ExportPos},
		}
	}
	return s
}

// body instruments the body of a loop or function, and burns fuel at its start.
func (in *instrumenter) body(b *parser.BlockStmt, fuel int, pos parser.Pos) {
	in.stmts(b.Stmts)
	burn := &parser.ExprStmt{Expr: Call(Fuel+strconv.Itoa(fuel), pos)}
	b.Stmts = append([]parser.Stmt{burn}, b.Stmts...)
}

// assign instruments an assignment. x += y becomes x = x + y if the operator needs limits; Tengo evaluates x twice
// either way.
func (in *instrumenter) assign(s *parser.AssignStmt) parser.Stmt {
	s.RHS[0] = in.expr(s.RHS[0])
	in.target(s.LHS[0])
	operator := map[token.Token]token.Token{
		token.AddAssign: token.Add, token.QuoAssign: token.Quo, token.RemAssign: token.Rem,
	}[s.Token]
	if in.Plan {
		operator = compound[s.Token]
	}
	if operator == token.Illegal {
		return s
	}
	s.RHS[0] = in.binary(&parser.BinaryExpr{LHS: s.LHS[0], RHS: s.RHS[0], Token: operator, TokenPos: s.TokenPos})
	s.Token = token.Assign
	return s
}

// compound maps each assignment token to its operator.
var compound = map[token.Token]token.Token{
	token.AddAssign: token.Add, token.SubAssign: token.Sub, token.MulAssign: token.Mul, token.QuoAssign: token.Quo,
	token.RemAssign: token.Rem, token.AndAssign: token.And, token.OrAssign: token.Or, token.XorAssign: token.Xor,
	token.AndNotAssign: token.AndNot, token.ShlAssign: token.Shl, token.ShrAssign: token.Shr,
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
		if s := in.Symbols[e]; s != nil && s.Builtin && (in.Plan || in.Replaced(e.Name)) {
			return &parser.ImportExpr{ModuleName: Builtin + e.Name, Token: token.Import, TokenPos: e.NamePos}
		}
	case *parser.ImportExpr:
		if in.Modules[e.ModuleName] {
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
		if in.Plan && e.Token != token.Add && !syntax.IsNumber(e.Expr) { // +x equals x
			return Call(Unary+strconv.Itoa(int(e.Token)), e.Pos(), e.Expr)
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
			return Call(Element, e.Pos(), e.Expr, in.expr(e.Index))
		}
	case *parser.SliceExpr:
		e.Expr = in.expr(e.Expr)
		if e.Low != nil {
			e.Low = in.expr(e.Low)
		}
		if e.High != nil {
			e.High = in.expr(e.High)
		}
		if in.Plan {
			return Call(Slice, e.Pos(), e.Expr, orUndefined(e.Low), orUndefined(e.High))
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
		e.Args[last] = Call(Spread, e.Args[last].Pos(), e.Args[last])
	}
}

// decision instruments an expression that determines the control flow.
func (in *instrumenter) decision(e parser.Expr) parser.Expr {
	return in.decides(in.expr(e))
}

func (in *instrumenter) decides(e parser.Expr) parser.Expr {
	if in.Plan && !syntax.IsLiteral(e) {
		return Call(Decide, e.Pos(), e)
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
	return Call(Index, e.Pos(), in.expr(e))
}

// binary returns the replacement of an operator whose operands are instrumented.
func (in *instrumenter) binary(e *parser.BinaryExpr) parser.Expr {
	switch e.Token {
	case token.Add:
		if !syntax.IsNumber(e.LHS) {
			return Call(Add, e.Pos(), e.LHS, e.RHS)
		}
	case token.Less, token.LessEq, token.Greater, token.GreaterEq:
		if !syntax.IsLiteral(e.LHS) && !syntax.IsLiteral(e.RHS) {
			e.LHS = Call(Weigh, e.LHS.Pos(), e.LHS)
		}
	case token.Quo, token.Rem:
		if n, ok := e.RHS.(*parser.IntLit); !ok || n.Value == 0 {
			return Call(map[token.Token]string{token.Quo: Divide, token.Rem: Rest}[e.Token], e.Pos(), e.LHS, e.RHS)
		}
	case token.Equal, token.NotEqual:
		if syntax.IsLiteral(e.LHS) || syntax.IsLiteral(e.RHS) {
			break
		}
		equal := Call(Equal, e.Pos(), e.LHS, e.RHS)
		switch {
		case e.Token == token.Equal:
			return equal
		case in.Plan:
			return Call(Unary+strconv.Itoa(int(token.Not)), e.Pos(), equal)
		default:
			return &parser.UnaryExpr{Expr: equal, Token: token.Not, TokenPos: e.TokenPos}
		}
	case token.LAnd, token.LOr:
		e.LHS = in.decides(e.LHS)
		return e
	}
	if in.Plan && (!syntax.IsLiteral(e.LHS) || !syntax.IsLiteral(e.RHS)) {
		return Call(Operator+strconv.Itoa(int(e.Token)), e.Pos(), e.LHS, e.RHS)
	}
	return e
}

// Call returns a call of a native at a source position.
func Call(native string, pos parser.Pos, args ...parser.Expr) *parser.CallExpr {
	return &parser.CallExpr{Func: &parser.ImportExpr{ModuleName: native, Token: token.Import, TokenPos: pos}, Args: args}
}
