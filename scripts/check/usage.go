package check

import (
	"slices"
	"strings"

	"github.com/d5/tengo/v2/parser"

	"writ/internal/meant"
	"writ/scripts"
	"writ/scripts/diagnostic"
	"writ/scripts/syntax"
)

// usage records which variables, fields and parameters a bundle defines and reads. It reports unused variables and
// parameters, and reads of missing fields.
type usage struct {
	scope
	defined   []*syntax.Symbol
	read      map[*syntax.Symbol]bool
	loose     map[*syntax.Symbol]bool // used in a way that may change its value
	fields    []fieldRead
	allParams bool // the parameters are used as a whole, so every parameter may be read
}

// fieldRead is a read of a variable with a literal key.
type fieldRead struct {
	of  *syntax.Symbol
	key *parser.StringLit
}

func newUsage(in scope) *usage {
	return &usage{scope: in, read: make(map[*syntax.Symbol]bool), loose: make(map[*syntax.Symbol]bool)}
}

// paramsSource marks a variable as read if e gets the parameters from it.
func (u *usage) paramsSource(e parser.Expr) {
	if base, _ := selected(e); base != nil {
		e = base
	}
	if name, ok := e.(*parser.Ident); ok {
		u.read[u.Symbols[name]] = true
	}
}

// use records a use of a variable that may change its value.
func (u *usage) use(name *parser.Ident) {
	if s := u.Symbols[name]; s != nil && s.Name != name {
		u.read[s], u.loose[s] = true, true
	}
	u.allParams = u.allParams || u.isParams(name)
}

// unusedNames reports variables and modules that are never read.
func (u *usage) unusedNames(params *syntax.Symbol) {
	for _, s := range u.defined {
		if u.read[s] || strings.HasPrefix(s.Name.Name, "_") || s == params || slices.Contains(u.Tests, s.Name) {
			continue
		}
		i, isImport := s.Init.(*parser.ImportExpr)
		switch {
		case !isImport:
			u.warn(diagnostic.CodeUnusedVariable, s.Name, "%q is never read", s.Name.Name)
		case scripts.BuiltIn(i.ModuleName):
			u.warn(diagnostic.CodeUnusedImport, s.Name, "the module %q is imported and not used",
				i.ModuleName).Help = "remove it"
		}
	}
}

// unusedParams reports parameters that are never read, if all reads are known.
func (u *usage) unusedParams(c *paramChecker, params scripts.Params) {
	if u.allParams || c.symbol == nil {
		return
	}
	literal, ok := c.symbol.Init.(*parser.MapLit)
	if !ok {
		return
	}
	for _, e := range literal.Elements {
		_, declared := params.Named(e.Key)
		if declared && !slices.ContainsFunc(c.reads, func(name *parser.StringLit) bool { return name.Value == e.Key }) {
			u.Add(diagnostic.CodeUnusedParam, e.KeyPos, syntax.KeyWidth(e), "the parameter %q is never read",
				e.Key).Help = "read it as run.params." + e.Key
		}
	}
}

// missingKeys reports reads of keys that a literal map does not have.
func (u *usage) missingKeys(params *syntax.Symbol) {
	for _, f := range u.fields {
		if u.Crowded() {
			return
		}
		literal, ok := f.of.Init.(*parser.MapLit)
		if !ok || f.of.Assigned || u.loose[f.of] || f.of == params ||
			syntax.ElementNamed(literal, f.key.Value) != nil {
			continue
		}
		keys := make([]string, len(literal.Elements))
		for i, e := range literal.Elements {
			keys[i] = e.Key
		}
		u.warn(diagnostic.CodeMissingKey, f.key, "%s has no key %q, so this is undefined", f.of.Name.Name, f.key.Value).
			Suggest(meant.Closest(f.key.Value, keys))
	}
}
