// Package check finds the mistakes of a script without running it: errors of the compiler, violations of the catalogue
// of operations, and valid code that is probably a mistake. It also lists what a script may do, for its signers.
package check

import (
	"maps"
	"slices"

	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/token"

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
	c.units()
	result := Report{}
	switch test := scripts.IsTest(bundle.Main.Name); {
	case a.Main.Tree == nil:
	case test:
		testChecker{c.scope}.file()
		result.Tests = interpreter.TestsOf(a)
	default:
		result.Params = c.params.declared()
		c.params.checkReads(result.Params)
	}
	for _, m := range a.Modules {
		if m.Source.Name != "enum" {
			result.Modules = append(result.Modules, m.Source.Name)
		}
	}
	if !a.Failed() {
		before := len(a.List)
		lint(c, result.Params)
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
	result.Secrets = slices.Sorted(maps.Keys(c.secrets.names))
	result.Images = slices.Compact(slices.Sorted(slices.Values(c.calls.images)))
	result.Timeouts, result.LeastCalls = c.calls.timeouts, c.leastCalls
	result.Diagnostics, result.More = a.Sorted()
	return result
}

func destructive(operations []string) bool {
	return slices.ContainsFunc(operations, func(name string) bool {
		op, ok := catalog.Lookup(name)
		return ok && op.Destructive
	})
}

// checker visits each node of a bundle once, and checks how it uses the built-in modules.
type checker struct {
	scope
	calls      callChecker
	secrets    secretChecker
	params     paramChecker
	targets    *targets
	assigned   map[*syntax.Symbol][]assignment
	operations map[string]bool
	leastCalls int
	hasEffect  bool                 // the text names an operation, or a member of run with an effect
	seen       map[parser.Expr]bool // module names in permitted positions
}

func newChecker(a *syntax.Analysis) *checker {
	in := scope{a}
	t := &targets{scope: in}
	return &checker{
		scope:      in,
		calls:      callChecker{scope: in, targets: t},
		secrets:    secretChecker{scope: in, names: make(map[string]bool)},
		params:     paramChecker{scope: in, misdeclared: make(map[string]bool)},
		targets:    t,
		assigned:   make(map[*syntax.Symbol][]assignment),
		operations: make(map[string]bool),
		seen:       make(map[parser.Expr]bool),
	}
}

// units checks the script and its modules.
func (c *checker) units() {
	for _, u := range c.Units {
		if u.Tree != nil {
			c.nodes(u.Tree)
		}
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
		c.assignment(n)
	case *parser.SelectorExpr:
		if key, ok := n.Sel.(*parser.StringLit); ok {
			c.selector(n.Expr, key)
		}
	case *parser.IndexExpr:
		if key, ok := n.Index.(*parser.StringLit); ok {
			c.selector(n.Expr, key)
		}
	case *parser.CallExpr:
		c.secrets.call(n)
		c.calls.call(n)
	case *parser.BinaryExpr:
		c.secrets.operands(n)
	case *parser.MapLit:
		c.duplicateKeys(n)
	case *parser.Ident:
		c.value(n)
	case *parser.ImportExpr:
		c.value(n)
	}
	syntax.Children(n, c.nodes)
}

// assignment records a value that a variable gets after its definition.
func (c *checker) assignment(n *parser.AssignStmt) {
	if name, ok := n.LHS[0].(*parser.Ident); ok && n.Token != token.Define {
		if s := c.Symbols[name]; s != nil {
			c.assigned[s] = append(c.assigned[s], assignment{n.Token, n.RHS[0]})
		}
	}
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
		c.params.reads = append(c.params.reads, key)
		return
	}
	if op, _ := c.handle(base); op != nil {
		fields := interpreter.HandleFields(op)
		if !slices.Contains(fields, key.Value) && (!op.Named() || key.Value != interpreter.FieldName) {
			c.At(diagnostic.CodeHandleField, key, "the result of %s has no field %q", op.Name(), key.Value).SetHelp(
				catalog.MemberHelp(key.Value, fields))
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
	c.hasEffect = c.hasEffect || module == "run" && !slices.Contains([]string{"params", "secret", "text", "url"}, key.Value)
	if _, ok := interpreter.LookupMember(module, key.Value); !ok {
		c.At(diagnostic.CodeUnknownMember, key, "module %s has no %q", module, key.Value).SetHelp(
			catalog.MemberHelp(key.Value, interpreter.MemberNames(module)))
	}
}
