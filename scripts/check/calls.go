package check

import (
	"slices"
	"strings"

	"github.com/d5/tengo/v2/parser"

	"writ"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/scripts/diagnostic"
	"writ/scripts/interpreter"
	"writ/scripts/operation"
	"writ/scripts/syntax"
)

// callChecker checks the arguments of calls. It collects the targets of destructive calls, literal timeouts, and literal
// references to images.
type callChecker struct {
	scope
	targets  *targets
	timeouts []Timeout
	images   []string
}

// call checks the arguments of a call of a built-in member.
func (c *callChecker) call(e *parser.CallExpr) {
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
func (c *callChecker) operate(op *catalog.Operation, e *parser.CallExpr) {
	least, most := operation.Arity(op)
	if len(e.Args) < least || len(e.Args) > most {
		c.At(diagnostic.CodeArity, e, "%s takes %s, not %d arguments", op.Name(), operation.Arguments(op), len(e.Args))
		return
	}
	args := e.Args
	if op.Named() {
		c.resourceName(op, args[0])
		c.targets.add(op, args[0])
		args = args[1:]
	}
	var spec map[string]any
	for i, arg := range args {
		given, ok := c.mapOf(op, arg)
		if !ok {
			continue
		}
		if i == 0 {
			spec = given
			c.images = append(c.images, catalog.Images(op.Args, given)...)
			problems := op.Args.Check(given, isHandle)
			for _, p := range problems {
				if p.Reason != catalog.MissingField || !misspelt(p, problems) {
					c.problem(op, arg, p)
				}
			}
			continue
		}
		options, problems := operation.Options(op, given, nil)
		if len(problems) == 0 {
			problems = operation.ShortTimeout(op, spec, options)
		}
		if len(problems) == 0 && options.Timeout > 0 {
			c.timeouts = append(c.timeouts,
				Timeout{op.Name(), scripts.Printable(c.Files.Position(arg.Pos()).String()), options.Timeout})
		}
		for _, p := range problems {
			c.optionProblem(arg, p)
		}
	}
}

// misspelt reports whether one of the problems is a misspelt name of the missing field.
func misspelt(missing catalog.Problem, problems []catalog.Problem) bool {
	last := len(missing.Path) - 1
	return slices.ContainsFunc(problems, func(p catalog.Problem) bool {
		return len(p.Path) == last+1 && slices.Equal(p.Path[:last], missing.Path[:last]) && p.Suggestion == missing.Path[last]
	})
}

// resourceName checks the first argument of an operation.
func (c *callChecker) resourceName(op *catalog.Operation, e parser.Expr) {
	if s, ok := e.(*parser.StringLit); ok {
		if !writ.ValidName(s.Value) {
			found := c.At(diagnostic.CodeResourceName, e, "%q cannot name a %s", s.Value, op.Kind)
			if found.Help = "1 to 63 lower-case letters, digits and hyphens"; syntax.SumOf(s) != "" {
				found.Help = "a text contains no variables: write " + syntax.SumOf(s)
			}
		}
		return
	}
	if c.isSecret(e) {
		c.At(diagnostic.CodeSecretPlace, e, "the name of a %s cannot be a secret", op.Kind)
		return
	}
	if made, _ := c.handle(e); made != nil && made.Kind != op.Kind {
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
func (c *callChecker) mapOf(op *catalog.Operation, e parser.Expr) (map[string]any, bool) {
	v := c.literal(e)
	if m, ok := v.(map[string]any); ok {
		return m, true
	}
	if _, unknown := v.(catalog.Unknown); !unknown && v != nil {
		c.At(diagnostic.CodeArgument, e, "%s takes %s; this is not a map", op.Name(), operation.Arguments(op))
	}
	return nil, false
}

// problem reports a violation of the schema of an operation at its place in the source.
func (c *callChecker) problem(op *catalog.Operation, spec parser.Expr, p catalog.Problem) {
	key, value := syntax.NodeAt(spec, p.Path)
	switch {
	case p.Reason == catalog.UnknownField && key != nil:
		d := c.Add(diagnostic.CodeUnknownField, key.KeyPos, syntax.KeyWidth(key), "%s has %s", op.Name(), p.Message)
		d.Help = p.Hint
		d.Suggest(p.Suggestion)
	case p.Reason == catalog.SecretMisplaced:
		c.At(diagnostic.CodeSecretPlace, value, "%s: %s", op.Name(), p.Message)
	case p.Reason == catalog.MissingField:
		c.Add(diagnostic.CodeFieldMissing, value.Pos(), 1, "%s: %s", op.Name(), p.Message)
	default:
		c.At(diagnostic.CodeFieldType, value, "%s: %s", op.Name(), p.Message).Suggest(p.Suggestion)
	}
}

func (c *callChecker) optionProblem(options parser.Expr, p catalog.Problem) {
	key, value := syntax.NodeAt(options, p.Path)
	if p.Reason == catalog.UnknownField && key != nil {
		d := c.Add(diagnostic.CodeUnknownOption, key.KeyPos, syntax.KeyWidth(key), "unknown option %q", key.Key)
		d.Help = "the options are " + strings.Join(operation.OptionSchema.Names(), ", ")
		d.Suggest(p.Suggestion)
		return
	}
	c.At(diagnostic.CodeOptionValue, value, "%s", p.Message).Suggest(p.Suggestion)
}
