package check

import (
	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/token"

	"writ/scripts/diagnostic"
	"writ/scripts/interpreter"
	"writ/scripts/syntax"
)

// comparisons finds comparisons and conditions that have the same result in every run.
type comparisons struct{ scope }

// binary reports comparisons of handles that have the same result in every run.
func (c comparisons) binary(n *parser.BinaryExpr) {
	switch n.Token {
	case token.LAnd, token.LOr:
		c.condition(n.LHS)
	case token.Equal, token.NotEqual:
		c.compared(n, n.LHS, n.RHS)
		c.compared(n, n.RHS, n.LHS)
	}
}

func (c comparisons) compared(n *parser.BinaryExpr, e, with parser.Expr) {
	if !syntax.IsLiteral(with) {
		return
	}
	always := "never"
	if n.Token == token.NotEqual {
		always = "always"
	}
	if op, _ := c.handle(e); op != nil {
		d := c.warn(diagnostic.CodeNeverEqual, n, "a handle never equals a literal: this is %s true", always)
		if _, isUndefined := with.(*parser.UndefinedLit); isUndefined {
			d.Help = "compare its field err"
		} else {
			d.Help = "compare a field of it"
		}
		return
	}
	base, key := selected(e)
	if key == nil || key.Value != interpreter.FieldErr {
		return
	}
	_, isUndefined := with.(*parser.UndefinedLit)
	if op, _ := c.handle(base); op != nil && !isUndefined {
		c.warn(diagnostic.CodeNeverEqual, n, "err is undefined or a map: this is %s true",
			always).Help = "compare err.code or err.message"
	}
}

// condition reports handles that are used as conditions.
func (c comparisons) condition(e parser.Expr) {
	switch e := e.(type) {
	case *parser.ParenExpr:
		c.condition(e.Expr)
	case *parser.BinaryExpr:
		if e.Token == token.LAnd || e.Token == token.LOr {
			c.condition(e.LHS)
			c.condition(e.RHS)
		}
	case *parser.Ident, *parser.CallExpr:
		if op, _ := c.handle(e); op != nil {
			c.warn(diagnostic.CodeAlwaysTrue, e, "a handle is always true").Help = "read its field err"
		}
	}
}
