package check

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/token"

	"writ"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/scripts/diagnostic"
	"writ/scripts/syntax"
)

// minTargetPrefix is the minimum length in bytes of the known part of a name, see identity.MinTargetPrefix.
const minTargetPrefix = 3

// targets collects the resources that a script destroys, as far as its text names them.
type targets struct {
	named     map[string]bool // "volume/web-0", or "volume/web-*" if the rest of the name is unknown
	mentioned int             // number of destructive operations in the text
	seen      int             // number of these with a known resource
	steps     int             // steps taken to resolve names
	params    map[string]any  // the values of the parameters, if known
}

// maxNameSteps limits the steps to resolve names through variables, for all calls together.
const maxNameSteps = 20_000

// mention counts an occurrence of an operation.
func (t *targets) mention(op *catalog.Operation) {
	if op.Destructive {
		t.mentioned++
	}
}

// of records the resource of a call: the known beginning of its name, and whether that is the whole name.
func (t *targets) of(op *catalog.Operation, prefix string, whole bool) {
	if !op.Destructive {
		return
	}
	switch {
	case whole && writ.ValidName(prefix):
	case !whole && len(prefix) >= minTargetPrefix && writ.ValidName(prefix+"0"):
		prefix += "*"
	default:
		return
	}
	if t.named == nil {
		t.named = make(map[string]bool)
	}
	t.named[string(op.Kind)+"/"+prefix] = true
	t.seen++
}

// list returns the targets, sorted, and whether the script may destroy others.
func (t *targets) list() (named []string, more bool) {
	return slices.Sorted(maps.Keys(t.named)), t.seen < t.mentioned
}

// nameOf returns the literal beginning of a resource name, and whether that is the whole name.
func (c *checker) nameOf(e parser.Expr) (prefix string, whole bool) {
	if c.targets.steps++; c.targets.steps > maxNameSteps {
		return "", false
	}
	switch e := e.(type) {
	case *parser.ParenExpr:
		return c.nameOf(e.Expr)
	case *parser.StringLit:
		return e.Value, true
	case *parser.BinaryExpr:
		left, all := c.nameOf(e.LHS)
		if e.Token != token.Add || !all {
			return left, false
		}
		right, all := c.partOf(e.RHS)
		if len(left)+len(right) > diagnostic.MaxLine {
			return left, false
		}
		return left + right, all
	case *parser.Ident:
		if s := c.Symbols[e]; s != nil && !s.Assigned && s.Init != nil {
			return c.nameOf(s.Init)
		}
	case *parser.SelectorExpr, *parser.IndexExpr:
		if base, key := selected(e); key != nil && c.isParams(base) {
			value, known := c.targets.params[key.Value].(string)
			return value, known
		}
	case *parser.CallExpr:
		if name, ok := e.Func.(*parser.Ident); ok && len(e.Args) > 0 && name.Name == "format" && c.Symbols[name] != nil &&
			c.Symbols[name].Builtin {
			form, all := c.nameOf(e.Args[0])
			prefix, _, cut := strings.Cut(form, "%")
			return prefix, all && !cut
		}
		if op := c.operation(e.Func); op != nil && op.Named() && len(e.Args) > 0 { // a handle
			return c.nameOf(e.Args[0])
		}
	}
	return "", false
}

// partOf is nameOf for the later parts of a name: a number becomes its digits.
func (c *checker) partOf(e parser.Expr) (prefix string, whole bool) {
	if n, ok := e.(*parser.IntLit); ok {
		return strconv.FormatInt(n.Value, 10), true
	}
	if base, key := selected(e); key != nil && c.isParams(base) {
		if n, ok := c.targets.params[key.Value].(int64); ok {
			return strconv.FormatInt(n, 10), true
		}
	}
	return c.nameOf(e)
}

// TargetsOf returns the targets of a script like Check, for known values of the parameters.
func TargetsOf(bundle scripts.Bundle, params map[string]any) (targets []string, more bool) {
	c := newChecker(syntax.Analyse(bundle))
	c.targets.params = params
	for _, u := range c.Units {
		if u.Tree != nil {
			c.nodes(u.Tree)
		}
	}
	return c.targets.list()
}
