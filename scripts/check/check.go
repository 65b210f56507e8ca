// Package check finds the mistakes of a script without running it: errors of the compiler, violations of the catalogue
// of operations, and code that is probably not meant. It also reports what a script may do, for the people who sign it.
package check

import (
	"maps"
	"slices"

	"github.com/d5/tengo/v2/parser"

	"writ"
	"writ/internal/meant"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/scripts/diagnostic"
	"writ/scripts/interpreter"
	"writ/scripts/syntax"
)

// Check returns all diagnostics of a script and its modules, without running them: errors of the compiler, and
// violations of the catalogue of operations. The report also lists the parameters and operations of the script.
func Check(bundle scripts.Bundle) Report {
	a := syntax.Analyse(bundle)
	c := newChecker(a)
	for _, u := range a.Units {
		if u.Tree != nil {
			c.nodes(u.Tree)
		}
	}
	result := Report{}
	switch test := scripts.IsTest(bundle.Main.Name); {
	case a.Main.Tree == nil:
	case test:
		c.checkTests()
		result.Tests = interpreter.TestsOf(a)
	default:
		result.Params = c.declared()
		c.paramReads(result.Params)
	}
	for _, m := range a.Modules {
		if m.Source.Name != "enum" {
			result.Modules = append(result.Modules, m.Source.Name)
		}
	}
	if !a.Failed() {
		before := len(a.List)
		c.lint(result.Params)
		if _, err := interpreter.Build(a, false); err != nil {
			a.List = a.List[:before]
			interpreter.ReportError(&a.Findings, err)
		}
	}
	for _, u := range a.Units {
		if u.Source.Name != "enum" {
			c.Disguises(u)
		}
	}
	slices.Sort(result.Modules)
	result.Operations = slices.Sorted(maps.Keys(c.operations))
	result.Destructive = destructive(result.Operations)
	result.Targets, result.MoreTargets = c.targets.list()
	result.Secrets = slices.Sorted(maps.Keys(c.secrets))
	result.Timeouts = c.timeouts
	result.Diagnostics, result.More = a.Sorted()
	return result
}

func destructive(operations []string) bool {
	return slices.ContainsFunc(operations, func(name string) bool {
		op, ok := catalog.Lookup(name)
		return ok && op.Destructive
	})
}

// checker checks how a script uses the built-in modules.
type checker struct {
	*syntax.Analysis
	operations map[string]bool
	secrets    map[string]bool
	targets    targets
	timeouts   []Timeout
	hasEffect  bool                 // the text names an operation, or a member of run with an effect
	seen       map[parser.Expr]bool // module names in permitted positions

	reads        []paramRead
	paramsSymbol *syntax.Symbol
	misdeclared  map[string]bool // parameters whose declaration was reported; reads of them are not reported
	undeclared   bool            // the whole declaration of parameters was reported
}

// paramRead is a read of a parameter by its name.
type paramRead struct {
	name string
	at   parser.Expr
}

func newChecker(a *syntax.Analysis) *checker {
	return &checker{
		Analysis: a, operations: make(map[string]bool), secrets: make(map[string]bool), seen: make(map[parser.Expr]bool),
		misdeclared: make(map[string]bool),
	}
}

// nodes checks n and everything below it.
func (c *checker) nodes(n parser.Node) {
	switch n := n.(type) {
	case *parser.AssignStmt:
		for _, e := range n.RHS {
			if i, ok := e.(*parser.ImportExpr); ok && len(n.LHS) == 1 && c.namesModule(n.LHS[0]) {
				c.seen[i] = true
			}
		}
	case *parser.SelectorExpr:
		if key, ok := n.Sel.(*parser.StringLit); ok {
			c.selector(n.Expr, key)
		}
	case *parser.IndexExpr:
		if key, ok := n.Index.(*parser.StringLit); ok {
			c.selector(n.Expr, key)
		}
	case *parser.CallExpr:
		c.call(n)
	case *parser.BinaryExpr:
		c.operands(n)
	case *parser.MapLit:
		c.duplicates(n)
	case *parser.Ident:
		c.value(n)
	case *parser.ImportExpr:
		c.value(n)
	}
	syntax.Children(n, c.nodes)
}

// namesModule reports whether e is a variable that is defined here as a module and never assigned again.
func (c *checker) namesModule(e parser.Expr) bool {
	name, ok := e.(*parser.Ident)
	if !ok {
		return false
	}
	c.seen[name] = true
	s := c.Symbols[name]
	return s != nil && !s.Assigned
}

// value reports a module of operations that is used as a value.
func (c *checker) value(e parser.Expr) {
	module := c.module(e)
	if module == "" || c.seen[e] || !ofOperations(module) {
		return
	}
	c.At(diagnostic.CodeModuleAsValue, e, "the module %q is used as a value", module).Help = "use it as " + module +
		".operation(…)"
}

// module returns the built-in module that an expression denotes, or "" if it denotes none or is not statically known.
func (c *checker) module(e parser.Expr) string {
	switch e := e.(type) {
	case *parser.ParenExpr:
		return c.module(e.Expr)
	case *parser.ImportExpr:
		if scripts.BuiltIn(e.ModuleName) {
			return e.ModuleName
		}
	case *parser.Ident:
		s := c.Symbols[e]
		if s == nil || s.Init == nil {
			return ""
		}
		if i, ok := s.Init.(*parser.ImportExpr); ok && scripts.BuiltIn(i.ModuleName) {
			return i.ModuleName
		}
	}
	return ""
}

// operation returns the operation that an expression denotes, or nil if it denotes none or is not statically known.
func (c *checker) operation(e parser.Expr) *catalog.Operation {
	base, key := selected(e)
	if key == nil {
		return nil
	}
	if module := c.module(base); module != "" {
		if op, ok := catalog.Lookup(module + "." + key.Value); ok {
			return op
		}
	}
	return nil
}

// selected splits x.key and x["key"].
func selected(e parser.Expr) (base parser.Expr, key *parser.StringLit) {
	switch e := e.(type) {
	case *parser.SelectorExpr:
		key, _ = e.Sel.(*parser.StringLit)
		return e.Expr, key
	case *parser.IndexExpr:
		key, _ = e.Index.(*parser.StringLit)
		return e.Expr, key
	}
	return nil, nil
}

// selector checks base.key.
func (c *checker) selector(base parser.Expr, key *parser.StringLit) {
	if module := c.module(base); module != "" {
		c.seen[base] = true
		if p, ok := base.(*parser.ParenExpr); ok {
			c.seen[p.Expr] = true
		}
		c.member(module, key)
		return
	}
	if c.isSecret(base) {
		c.At(diagnostic.CodeSecretPlace, base, "a secret has no fields")
		return
	}
	if c.isParams(base) {
		c.reads = append(c.reads, paramRead{key.Value, key})
		return
	}
	if op := c.handle(base); op != nil {
		fields := interpreter.HandleFields(op)
		if !slices.Contains(fields, key.Value) && (!op.Named() || key.Value != interpreter.FieldName) {
			c.At(diagnostic.CodeHandleField, key, "the result of %s has no field %q", op.Name(), key.Value).SetHelp(
				meant.Member("it", key.Value, fields))
		}
	}
}

// member checks module.key.
func (c *checker) member(module string, key *parser.StringLit) {
	if module == "enum" {
		return // enum is Tengo source that exports a map
	}
	if op, ok := catalog.Lookup(module + "." + key.Value); ok {
		c.operations[op.Name()], c.hasEffect = true, true
		c.targets.mention(op)
		return
	}
	c.hasEffect = c.hasEffect || module == "run" && key.Value != "params" && key.Value != "secret"
	if _, ok := interpreter.LookupMember(module, key.Value); !ok {
		c.At(diagnostic.CodeUnknownMember, key, "module %s has no %q", module, key.Value).SetHelp(
			meant.Member("it", key.Value, interpreter.MemberNames(module)))
	}
}

// handle returns the operation whose handle an expression certainly is: a call, or a variable that is assigned only
// once.
func (c *checker) handle(e parser.Expr) *catalog.Operation {
	if name, ok := e.(*parser.Ident); ok {
		s := c.Symbols[name]
		if s == nil || s.Assigned || s.Init == nil {
			return nil
		}
		e = s.Init
	}
	if call, ok := e.(*parser.CallExpr); ok {
		if op := c.operation(call.Func); op != nil && op.Module != "run" {
			return op
		}
	}
	return nil
}

// isParams reports whether an expression is run.params, or a variable that is assigned only that.
func (c *checker) isParams(e parser.Expr) bool {
	if name, ok := e.(*parser.Ident); ok {
		s := c.Symbols[name]
		if s == nil || s.Assigned || s.Init == nil {
			return false
		}
		e = s.Init
	}
	base, key := selected(e)
	return key != nil && key.Value == "params" && c.module(base) == "run"
}

// paramReads checks the parameters that the script and its modules read by name.
func (c *checker) paramReads(params scripts.Params) {
	for _, r := range c.reads {
		if _, ok := params.Named(r.name); !ok && !c.misdeclared[r.name] && !c.undeclared {
			d := c.At(diagnostic.CodeUnknownParam, r.at, "unknown parameter %q", r.name)
			if !c.Crowded() {
				d.Suggest(meant.Closest(r.name, params.Names()))
			}
		}
	}
	if c.paramsSymbol == nil {
		return
	}
	for name, s := range c.Symbols {
		if s == c.paramsSymbol && s.Init != nil && name.Pos() > s.Init.Pos() {
			c.At(diagnostic.CodeParamsRead, name, "params is the declaration, not the values").Help = "write run.params"
		}
	}
}

func (c *checker) duplicates(m *parser.MapLit) {
	keys := make(map[string]bool, len(m.Elements))
	for _, e := range m.Elements {
		if keys[e.Key] {
			c.Add(diagnostic.CodeDuplicateKey, e.KeyPos, syntax.KeyWidth(e), "duplicate key %q", e.Key)
		}
		keys[e.Key] = true
	}
}

// handleOf represents a handle in a literal. Handles from the same call are equal.
type handleOf struct {
	kind writ.ResourceKind
	call parser.Expr
}
