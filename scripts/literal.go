package scripts

import (
	"slices"

	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/token"

	"writ/sal/catalog"
)

// literalValue returns what an expression is worth if that can be seen without running anything, and whether all of it can be seen. What
// cannot is catalog.Unknown: names, calls, operators. A float stays a float64, which fits nothing.
func literalValue(e parser.Expr) (v any, complete bool) {
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
		return literalValue(e.Expr)
	case *parser.UnaryExpr:
		if n, ok := e.Expr.(*parser.IntLit); ok && e.Token == token.Sub {
			return -n.Value, true
		}
	case *parser.ArrayLit:
		list := make([]any, len(e.Elements))
		complete = true
		for i, element := range e.Elements {
			seen := false
			list[i], seen = literalValue(element)
			complete = complete && seen
		}
		return list, complete
	case *parser.MapLit:
		m := make(map[string]any, len(e.Elements))
		complete = true
		for _, element := range e.Elements {
			value, seen := literalValue(element.Value)
			m[element.Key] = value
			complete = complete && seen
		}
		return m, complete
	}
	return catalog.Unknown{}, false
}

// nodeAt follows a path into a literal: it returns the key and the value that the path ends at, the innermost that there is.
func nodeAt(e parser.Expr, path catalog.Path) (key *parser.MapElementLit, value parser.Expr) {
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
			found := elementNamed(v, step)
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

// elementNamed finds a key of a map, the last of its name as that is what counts.
func elementNamed(m *parser.MapLit, name any) *parser.MapElementLit {
	for _, element := range slices.Backward(m.Elements) {
		if element.Key == name {
			return element
		}
	}
	return nil
}

// keyWidth is how long the key of a map is in the text; it may be written as a string.
func keyWidth(e *parser.MapElementLit) int {
	return max(len(e.Key), 1)
}
