package syntax

import (
	"slices"

	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/token"

	"writ/sal/catalog"
)

// LiteralValue returns the value of a literal expression. Parts that are not literal (names, calls and operators)
// become catalog.Unknown; complete reports whether the whole expression is literal. A float becomes a float64, which
// only fields of the type Decimal accept.
func LiteralValue(e parser.Expr) (v any, complete bool) {
	switch e := e.(type) {
	case *parser.StringLit:
		return e.Value, true
	case *parser.IntLit:
		return e.Value, true
	case *parser.BoolLit:
		return e.Value, true
	case *parser.FloatLit:
		return e.Value, true
	case *parser.UndefinedLit:
		return nil, true
	case *parser.ParenExpr:
		return LiteralValue(e.Expr)
	case *parser.UnaryExpr:
		if n, ok := e.Expr.(*parser.IntLit); ok && e.Token == token.Sub {
			return -n.Value, true
		}
		if n, ok := e.Expr.(*parser.FloatLit); ok && e.Token == token.Sub {
			return -n.Value, true
		}
	case *parser.ArrayLit:
		list := make([]any, len(e.Elements))
		complete = true
		for i, element := range e.Elements {
			seen := false
			list[i], seen = LiteralValue(element)
			complete = complete && seen
		}
		return list, complete
	case *parser.MapLit:
		m := make(map[string]any, len(e.Elements))
		complete = true
		for _, element := range e.Elements {
			value, seen := LiteralValue(element.Value)
			m[element.Key] = value
			complete = complete && seen
		}
		return m, complete
	}
	return catalog.Unknown{}, false
}

// NodeAt follows a path into a literal. It returns the key and the value at the end of the path, or the innermost key
// and value that exist.
func NodeAt(e parser.Expr, path catalog.Path) (key *parser.MapElementLit, value parser.Expr) {
	value = e
	for _, step := range path {
		if p, ok := value.(*parser.ParenExpr); ok {
			value = p.Expr
		}
		switch v := value.(type) {
		case *parser.ArrayLit:
			i, ok := step.(int)
			if !ok || i >= len(v.Elements) {
				return key, value
			}
			key, value = nil, v.Elements[i]
		case *parser.MapLit:
			found := ElementNamed(v, step)
			if found == nil {
				return key, value
			}
			key, value = found, found.Value
		default:
			return key, value
		}
	}
	return key, value
}

// ElementNamed returns the last element of a map with the given key, because later elements replace earlier elements
// with the same key.
func ElementNamed(m *parser.MapLit, name any) *parser.MapElementLit {
	for _, element := range slices.Backward(m.Elements) {
		if element.Key == name {
			return element
		}
	}
	return nil
}

// KeyWidth returns the length of the key of a map in the text, without the quotes that it may have.
func KeyWidth(e *parser.MapElementLit) int {
	return max(len(e.Key), 1)
}

// IsNumber reports whether e is a literal number.
func IsNumber(e parser.Expr) bool {
	switch e.(type) {
	case *parser.IntLit, *parser.FloatLit, *parser.CharLit:
		return true
	default:
		return false
	}
}

// IsLiteral reports whether e is a literal scalar.
func IsLiteral(e parser.Expr) bool {
	switch e.(type) {
	case *parser.StringLit, *parser.BoolLit, *parser.UndefinedLit:
		return true
	default:
		return IsNumber(e)
	}
}
