// Package check finds the mistakes of a script without running it: errors of the compiler, violations of the catalogue
// of operations, and code that is probably not meant. It also reports what a script may do, for the people who sign it.
package check

import (
	"maps"
	"slices"
	"strings"

	"github.com/d5/tengo/v2/parser"

	"writ"
	"writ/internal/meant"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/scripts/diagnostic"
	"writ/scripts/interpreter"
	"writ/scripts/operation"
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

// call checks the arguments of a call of a built-in member.
func (c *checker) call(e *parser.CallExpr) {
	c.secretCall(e)
	if e.Ellipsis.IsValid() {
		return
	}
	if op := c.operation(e.Func); op != nil {
		before := len(c.List)
		c.operate(op, e)
		for i := range c.List[before:] {
			c.List[before+i].Operation = op.Name()
		}
		return
	}
	base, key := selected(e.Func)
	if key == nil {
		return
	}
	module := c.module(base)
	if m, ok := interpreter.LookupMember(module, key.Value); ok && m.Call && !m.Takes(len(e.Args)) {
		c.At(diagnostic.CodeArity, e, "%s.%s takes %s, not %d", module, key.Value, m.Arguments(), len(e.Args))
	}
}

// operate checks the arguments of an operation where they are literals.
func (c *checker) operate(op *catalog.Operation, e *parser.CallExpr) {
	least, most := operation.Arity(op)
	if len(e.Args) < least || len(e.Args) > most {
		c.At(diagnostic.CodeArity, e, "%s takes %s, not %d arguments", op.Name(), operation.Arguments(op), len(e.Args))
		return
	}
	args := e.Args
	if op.Named() {
		c.resourceName(op, args[0])
		prefix, whole := c.nameOf(args[0])
		c.targets.of(op, prefix, whole)
		args = args[1:]
	}
	for i, arg := range args {
		given, ok := c.mapOf(op, arg)
		if !ok {
			continue
		}
		if i == 0 {
			problems := op.Args.Check(given, c.isHandle)
			for _, p := range problems {
				if p.Reason != catalog.MissingField || !misspelt(p, problems) {
					c.problem(op, arg, p)
				}
			}
			continue
		}
		options, problems := operation.Options(op, given, nil)
		if len(problems) == 0 && options.Timeout > 0 {
			c.timeouts = append(c.timeouts,
				Timeout{op.Name(), scripts.Printable(c.Files.Position(arg.Pos()).String()), options.Timeout})
		}
		for _, p := range problems {
			c.optionProblem(arg, p)
		}
	}
}

// misspelt reports whether a missing field is present under a name for which one of the problems suggests it.
func misspelt(missing catalog.Problem, problems []catalog.Problem) bool {
	last := len(missing.Path) - 1
	return slices.ContainsFunc(problems, func(p catalog.Problem) bool {
		return len(p.Path) == last+1 && slices.Equal(p.Path[:last], missing.Path[:last]) && p.Suggestion == missing.Path[last]
	})
}

// resourceName checks the first argument of an operation.
func (c *checker) resourceName(op *catalog.Operation, e parser.Expr) {
	if s, ok := e.(*parser.StringLit); ok {
		if !writ.ValidName(s.Value) {
			c.At(diagnostic.CodeResourceName, e, "%q cannot name a %s", s.Value,
				op.Kind).Help = "1 to 63 lower-case letters, digits and hyphens"
		}
		return
	}
	if c.isSecret(e) {
		c.At(diagnostic.CodeSecretPlace, e, "the name of a %s cannot be a secret", op.Kind)
		return
	}
	if made := c.handle(e); made != nil && made.Kind != op.Kind {
		c.At(diagnostic.CodeArgument, e, "%s takes the name of a %s or a handle to one, not the result of %s", op.Name(),
			op.Kind, made.Name())
		return
	}
	switch v, complete := syntax.LiteralValue(e); v.(type) {
	case catalog.Unknown:
	default:
		if complete {
			c.At(diagnostic.CodeArgument, e, "%s takes the name of a %s first", op.Name(), op.Kind)
		}
	}
}

// mapOf returns the literal part of a spec or of options.
func (c *checker) mapOf(op *catalog.Operation, e parser.Expr) (map[string]any, bool) {
	v := c.literal(e)
	if m, ok := v.(map[string]any); ok {
		return m, true
	}
	if _, unknown := v.(catalog.Unknown); !unknown && v != nil {
		c.At(diagnostic.CodeArgument, e, "%s takes %s; this is not a map", op.Name(), operation.Arguments(op))
	}
	return nil, false
}

// handleOf represents a handle in a literal. Handles from the same call are equal.
type handleOf struct {
	kind writ.ResourceKind
	call parser.Expr
}

func (c *checker) isHandle(v any) (writ.ResourceKind, bool) {
	h, ok := v.(handleOf)
	return h.kind, ok
}

// madeBy returns the call that made the handle of an expression; see handle.
func (c *checker) madeBy(e parser.Expr) parser.Expr {
	if name, ok := e.(*parser.Ident); ok {
		return c.Symbols[name].Init
	}
	return e
}

// literal is literalValue that also recognizes handles and secrets.
func (c *checker) literal(e parser.Expr) any {
	switch e := e.(type) {
	case *parser.ParenExpr:
		return c.literal(e.Expr)
	case *parser.ArrayLit:
		list := make([]any, len(e.Elements))
		for i, element := range e.Elements {
			list[i] = c.literal(element)
		}
		return list
	case *parser.MapLit:
		m := make(map[string]any, len(e.Elements))
		for _, element := range e.Elements {
			m[element.Key] = c.literal(element.Value)
		}
		return m
	case *parser.Ident, *parser.CallExpr:
		if op := c.handle(e); op != nil {
			kind := op.Kind
			if kind == "" {
				kind = writ.ResourceKind(op.Module)
			}
			return handleOf{kind: kind, call: c.madeBy(e)}
		}
		if c.isSecret(e) {
			return catalog.Secret("") // the name of the secret does not matter here
		}
	}
	v, _ := syntax.LiteralValue(e)
	return v
}

// problem reports a violation of the schema of an operation at its place in the source.
func (c *checker) problem(op *catalog.Operation, spec parser.Expr, p catalog.Problem) {
	key, value := syntax.NodeAt(spec, p.Path)
	switch {
	case p.Reason == catalog.UnknownField && key != nil:
		c.Add(diagnostic.CodeUnknownField, key.KeyPos, syntax.KeyWidth(key), "%s has %s", op.Name(), p.Message).Suggest(
			p.Suggestion)
	case p.Reason == catalog.SecretMisplaced:
		c.At(diagnostic.CodeSecretPlace, value, "%s: %s", op.Name(), p.Message)
	case p.Reason == catalog.MissingField:
		c.Add(diagnostic.CodeFieldMissing, value.Pos(), 1, "%s: %s", op.Name(), p.Message)
	default:
		c.At(diagnostic.CodeFieldType, value, "%s: %s", op.Name(), p.Message).Suggest(p.Suggestion)
	}
}

func (c *checker) optionProblem(options parser.Expr, p catalog.Problem) {
	key, value := syntax.NodeAt(options, p.Path)
	if p.Reason == catalog.UnknownField && key != nil {
		d := c.Add(diagnostic.CodeUnknownOption, key.KeyPos, syntax.KeyWidth(key), "unknown option %q", key.Key)
		d.Help = "the options are " + strings.Join(operation.OptionSchema.Names(), ", ")
		d.Suggest(p.Suggestion)
		return
	}
	c.At(diagnostic.CodeOptionValue, value, "%s", p.Message).Suggest(p.Suggestion)
}

// ofOperations reports whether the module has operations, so that its use must be visible in the text.
func ofOperations(module string) bool { return len(catalog.Of(module)) > 0 }
