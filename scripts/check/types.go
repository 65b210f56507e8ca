package check

import (
	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/token"

	"writ/scripts"
	"writ/scripts/diagnostic"
	"writ/scripts/syntax"
)

// types finds members and operators that the type of a value lacks. It reports only values whose type is certain.
type types struct {
	scope
	params    scripts.Params
	assigned  map[*syntax.Symbol][]assignment
	known     map[*syntax.Symbol]string        // the types of variables, "" if unknown
	current   *syntax.Symbol                   // the variable whose type is determined, nil outside
	tentative string                           // its type so far
	calls     map[parser.Expr]*parser.CallExpr // by the called expression
}

// assignment is a value that a variable gets after its definition.
type assignment struct {
	op    token.Token // Assign, or AddAssign and others
	value parser.Expr
}

func newTypes(in scope, params scripts.Params, assigned map[*syntax.Symbol][]assignment) *types {
	return &types{
		scope: in, params: params, assigned: assigned, known: make(map[*syntax.Symbol]string),
		calls: make(map[parser.Expr]*parser.CallExpr),
	}
}

// member reports a read of base.key if the type of base has no members.
func (t *types) member(e, base parser.Expr, key *parser.StringLit) {
	kind := t.of(base)
	if kind == "" || t.Crowded() {
		return
	}
	args := "…"
	if call := t.calls[e]; call != nil && len(call.Args) > 0 {
		args = ""
		for i, arg := range call.Args {
			if i > 0 {
				args += ", "
			}
			args += sourceOf(arg)
		}
	}
	t.At(diagnostic.CodeNoMember, key, "a %s has no %q", kind, key.Value).Help =
		syntax.MemberHelp(kind, sourceOf(base), key.Value, args)
}

// binary reports an operator that texts lack.
func (t *types) binary(e *parser.BinaryExpr) {
	switch e.Token {
	case token.Sub, token.Mul, token.Quo, token.Rem:
	default:
		return
	}
	if t.of(e.LHS) == syntax.TypeText && !t.Crowded() {
		t.At(diagnostic.CodeNoMember, e, "a text has no operator %s", e.Token).Help =
			syntax.OperatorHelp(e.Token, sourceOf(e.LHS), sourceOf(e.RHS))
	}
}

// sourceOf returns the source of a short expression for a hint, "…" for other expressions.
func sourceOf(e parser.Expr) string {
	const most = 24 // bytes
	switch e := e.(type) {
	case *parser.Ident, *parser.IntLit, *parser.StringLit, *parser.SelectorExpr:
		if text := e.String(); len(text) <= most {
			return scripts.Printable(text)
		}
	}
	return "…"
}

// of returns the type of an expression: TypeText, TypeList, TypeNumber, or "" if it has another type or none that is
// certain.
func (t *types) of(e parser.Expr) string {
	switch e := e.(type) {
	case *parser.ParenExpr:
		return t.of(e.Expr)
	case *parser.StringLit:
		return syntax.TypeText
	case *parser.ArrayLit:
		return syntax.TypeList
	case *parser.IntLit, *parser.FloatLit:
		return syntax.TypeNumber
	case *parser.BinaryExpr:
		return t.ofOperation(e.Token, e.LHS)
	case *parser.CallExpr:
		return t.ofCall(e)
	case *parser.SelectorExpr:
		return t.ofParam(e)
	case *parser.Ident:
		return t.ofVariable(t.Symbols[e])
	}
	return ""
}

// ofOperation returns the type of a binary operation. A text or list determines it; a number does not.
func (t *types) ofOperation(op token.Token, left parser.Expr) string {
	if op != token.Add {
		return ""
	}
	if kind := t.of(left); kind != syntax.TypeNumber {
		return kind
	}
	return ""
}

// ofCall returns the type of the result of a builtin function, or of a function of the module text.
func (t *types) ofCall(e *parser.CallExpr) string {
	name := t.builtin(e.Func)
	if base, key := selected(e.Func); key != nil && t.module(base) == "text" {
		name = "text." + key.Value
	}
	switch name {
	case "append", "range", "text.split", "text.fields":
		return syntax.TypeList
	case "format", "type_name", "text.to_upper", "text.to_lower", "text.trim_space", "text.trim", "text.replace",
		"text.join", "text.repeat", "text.trim_prefix", "text.trim_suffix":
		return syntax.TypeText
	case "len":
		return syntax.TypeNumber
	}
	return ""
}

// ofParam returns the declared type of a parameter.
func (t *types) ofParam(e parser.Expr) string {
	base, key := selected(e)
	if key == nil || !t.isParams(base) {
		return ""
	}
	p, _ := t.params.Named(key.Value)
	return map[string]string{"string": syntax.TypeText, "list": syntax.TypeList, "int": syntax.TypeNumber}[p.Type]
}

// ofVariable returns the type that all values of a variable have. The values may depend on the variable itself, as in
// `text = text + "a"`, but not on another variable whose type is being determined.
func (t *types) ofVariable(s *syntax.Symbol) string {
	if s == nil || s.Init == nil {
		return ""
	}
	if s == t.current {
		return t.tentative
	}
	if kind, known := t.known[s]; known {
		return kind
	}
	t.known[s] = ""
	outer, before := t.current, t.tentative
	t.current, t.tentative = s, ""
	t.tentative = t.of(s.Init)
	kind := t.tentative
	for _, a := range t.assigned[s] {
		if kind == "" {
			break
		}
		got := ""
		switch a.op {
		case token.Assign:
			got = t.of(a.value)
		case token.AddAssign:
			if kind != syntax.TypeNumber {
				got = kind
			}
		}
		if got != kind {
			kind = ""
		}
	}
	t.current, t.tentative = outer, before
	t.known[s] = kind
	return kind
}
