package check

import (
	"slices"

	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/token"

	"writ"
	"writ/scripts"
	"writ/scripts/diagnostic"
	"writ/scripts/syntax"
)

// secretChecker reports secrets in places where a script would read them, and collects the names of literal secrets.
type secretChecker struct {
	scope
	names map[string]bool
}

// call records the secret that a call requests, and reports secrets in the arguments of functions that make
// texts.
func (c *secretChecker) call(e *parser.CallExpr) {
	if c.isSecret(e) && len(e.Args) == 1 {
		c.name(e.Args[0])
		return
	}
	what := c.writes(e.Func)
	if what == "" {
		return
	}
	for _, arg := range e.Args {
		if place := c.find(arg); place != nil {
			c.At(diagnostic.CodeSecretPlace, place, "%s cannot take a secret", what)
		}
	}
}

// name checks the argument of run.secret if it is a literal.
func (c *secretChecker) name(e parser.Expr) {
	v, complete := syntax.LiteralValue(e)
	name, isText := v.(string)
	switch {
	case !complete:
	case !isText:
		c.At(diagnostic.CodeArgument, e, "run.secret takes the name of a secret")
	case !writ.ValidName(name):
		c.At(diagnostic.CodeSecretName, e, "%q cannot name a secret",
			name).Help = "1 to 63 lower-case letters, digits and hyphens, without a version"
	default:
		c.names[name] = true
	}
}

// writes returns the name of the function f if f turns its arguments into a readable text. It returns "" if f does not,
// or is not statically known.
func (c *secretChecker) writes(f parser.Expr) string {
	if name := c.builtin(f); slices.Contains([]string{"string", "format", "bytes"}, name) {
		return name
	}
	base, key := selected(f)
	if key == nil {
		return ""
	}
	module := c.module(base)
	pure := scripts.BuiltIn(module) && !ofOperations(module) && module != "run" && module != "enum"
	if pure || module == "run" && key.Value == "output" {
		return module + "." + key.Value
	}
	return ""
}

// find returns the first secret in a literal expression, or nil.
func (c *secretChecker) find(e parser.Expr) parser.Expr {
	if c.isSecret(e) {
		return e
	}
	var inside []parser.Expr
	switch e := e.(type) {
	case *parser.ParenExpr:
		inside = []parser.Expr{e.Expr}
	case *parser.ArrayLit:
		inside = e.Elements
	case *parser.MapLit:
		for _, element := range e.Elements {
			inside = append(inside, element.Value)
		}
	}
	for _, e := range inside {
		if found := c.find(e); found != nil {
			return found
		}
	}
	return nil
}

// operands reports secrets that are compared or concatenated.
func (c *secretChecker) operands(e *parser.BinaryExpr) {
	if e.Token == token.LAnd || e.Token == token.LOr {
		return
	}
	for _, operand := range []parser.Expr{e.LHS, e.RHS} {
		if c.isSecret(operand) {
			c.At(diagnostic.CodeSecretPlace, operand, "a secret cannot be compared, and only run.text puts it into a text")
		}
	}
}
