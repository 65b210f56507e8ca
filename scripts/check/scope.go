package check

import (
	"cmp"
	"slices"

	"github.com/d5/tengo/v2/parser"

	"writ"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/scripts/diagnostic"
	"writ/scripts/interpreter"
	"writ/scripts/syntax"
)

// scope is an analysed bundle. Its methods return what an expression certainly denotes: a module, an operation, a
// handle, a secret, the parameters. They return nothing for an expression that is not statically known.
type scope struct{ *syntax.Analysis }

// module returns the built-in module that an expression denotes, or "".
func (in scope) module(e parser.Expr) string {
	switch e := e.(type) {
	case *parser.ParenExpr:
		return in.module(e.Expr)
	case *parser.ImportExpr:
		if scripts.BuiltIn(e.ModuleName) {
			return e.ModuleName
		}
	case *parser.Ident:
		s := in.Symbols[e]
		if s == nil || s.Init == nil {
			return ""
		}
		if i, ok := s.Init.(*parser.ImportExpr); ok && scripts.BuiltIn(i.ModuleName) {
			return i.ModuleName
		}
	}
	return ""
}

// operation returns the operation that an expression denotes, or nil.
func (in scope) operation(e parser.Expr) *catalog.Operation {
	base, key := selected(e)
	if key == nil {
		return nil
	}
	if module := in.module(base); module != "" {
		if op, ok := catalog.Lookup(module + "." + key.Value); ok {
			return op
		}
	}
	return nil
}

// builtin returns the name of the builtin function that an expression denotes, or "".
func (in scope) builtin(e parser.Expr) string {
	if name, ok := e.(*parser.Ident); ok {
		if s := in.Symbols[name]; s != nil && s.Builtin {
			return name.Name
		}
	}
	return ""
}

// isRun reports whether an expression is a member of the module run.
func (in scope) isRun(e parser.Expr, member string) bool {
	base, key := selected(e)
	return key != nil && key.Value == member && in.module(base) == "run"
}

// origin returns the only value of a variable, or nil if the variable has several values. It returns any other
// expression unchanged.
func (in scope) origin(e parser.Expr) parser.Expr {
	name, ok := e.(*parser.Ident)
	if !ok {
		return e
	}
	if s := in.Symbols[name]; s != nil && !s.Assigned {
		return s.Init
	}
	return nil
}

// is reports whether an expression is the variable s, and s is never assigned again.
func (in scope) is(e parser.Expr, s *syntax.Symbol) bool {
	name, ok := e.(*parser.Ident)
	return ok && s != nil && in.Symbols[name] == s && !s.Assigned
}

// isParams reports whether an expression is run.params, or a variable that has only this value.
func (in scope) isParams(e parser.Expr) bool { return in.isRun(in.origin(e), "params") }

// isSecret reports whether an expression is a call of run.secret, of run.text with a secret in its literal map, or a
// variable that has only this value.
func (in scope) isSecret(e parser.Expr) bool { return in.isSecretWithin(e, 8) }

func (in scope) isSecretWithin(e parser.Expr, depth int) bool {
	if p, ok := e.(*parser.ParenExpr); ok {
		return in.isSecretWithin(p.Expr, depth)
	}
	call, ok := in.origin(e).(*parser.CallExpr)
	if !ok || depth == 0 {
		return false
	}
	if !in.isRun(call.Func, "text") || len(call.Args) != 2 {
		return in.isRun(call.Func, "secret")
	}
	values, ok := call.Args[1].(*parser.MapLit)
	return ok && slices.ContainsFunc(values.Elements, func(element *parser.MapElementLit) bool {
		return in.isSecretWithin(element.Value, depth-1)
	})
}

// handle returns the operation and the call that returned the handle which an expression denotes, or nil.
func (in scope) handle(e parser.Expr) (*catalog.Operation, *parser.CallExpr) {
	if call, ok := in.origin(e).(*parser.CallExpr); ok {
		if op := in.operation(call.Func); op != nil && op.Module != "run" {
			return op, call
		}
	}
	return nil, nil
}

// literal is like syntax.LiteralValue, but also recognizes handles and secrets.
func (in scope) literal(e parser.Expr) any {
	switch e := e.(type) {
	case *parser.ParenExpr:
		return in.literal(e.Expr)
	case *parser.ArrayLit:
		list := make([]any, len(e.Elements))
		for i, element := range e.Elements {
			list[i] = in.literal(element)
		}
		return list
	case *parser.MapLit:
		m := make(map[string]any, len(e.Elements))
		for _, element := range e.Elements {
			m[element.Key] = in.literal(element.Value)
		}
		return m
	case *parser.Ident, *parser.CallExpr:
		if op, call := in.handle(e); op != nil {
			return handleOf{cmp.Or(op.Kind, writ.ResourceKind(op.Module)), call}
		}
		if in.isSecret(e) {
			return catalog.Secret("") // the name of the secret does not matter here
		}
	}
	v, _ := syntax.LiteralValue(e)
	return v
}

// handleOf represents a handle in a literal. Handles from the same call are equal.
type handleOf struct {
	kind writ.ResourceKind
	call *parser.CallExpr
}

// isHandle recognizes the handles in a literal for the catalogue.
func isHandle(v any) (writ.ResourceKind, bool) {
	h, ok := v.(handleOf)
	return h.kind, ok
}

// pureCall returns the name of the called function if its only effect is its result, or "" otherwise.
func (in scope) pureCall(call *parser.CallExpr) string {
	if name := in.builtin(call.Func); name != "" {
		if name == "delete" || name == "splice" {
			return ""
		}
		return name
	}
	base, key := selected(call.Func)
	if key == nil {
		return ""
	}
	module := in.module(base)
	if m, ok := interpreter.LookupMember(module, key.Value); ok && m.Call && module != "run" {
		return module + "." + key.Value
	}
	return ""
}

// warn reports a node, unless the report is already full.
func (in scope) warn(code string, n parser.Node, format string, args ...any) *diagnostic.Diagnostic {
	if in.Crowded() {
		return &diagnostic.Diagnostic{}
	}
	return in.At(code, n, format, args...)
}

// duplicateKeys reports keys that a literal has several times.
func (in scope) duplicateKeys(m *parser.MapLit) {
	keys := make(map[string]bool, len(m.Elements))
	for _, e := range m.Elements {
		if keys[e.Key] {
			in.Add(diagnostic.CodeDuplicateKey, e.KeyPos, syntax.KeyWidth(e), "duplicate key %q", e.Key)
		}
		keys[e.Key] = true
	}
}

// selected splits x.key and x["key"].
func selected(e parser.Expr) (base parser.Expr, key *parser.StringLit) {
	base, k := partsOf(e)
	key, _ = k.(*parser.StringLit)
	return base, key
}

// partsOf splits x.key and x[key].
func partsOf(e parser.Expr) (base, key parser.Expr) {
	switch e := e.(type) {
	case *parser.SelectorExpr:
		return e.Expr, e.Sel
	case *parser.IndexExpr:
		return e.Expr, e.Index
	}
	return nil, nil
}

// ofOperations reports whether the module has operations, so that its use must be visible in the text.
func ofOperations(module string) bool { return len(catalog.Of(module)) > 0 }
