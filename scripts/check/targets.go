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

// minTargetPrefix is the minimum length in bytes of the known part of a name, see identity/target.MinPrefix.
const minTargetPrefix = 3

// targets collects the resources that a script destroys, as far as its text names them.
type targets struct {
	scope
	named     map[string]bool // "volume/web-0", or "volume/web-*" if the rest of the name is unknown
	mentioned int             // number of destructive operations in the text
	seen      int             // number of destructive calls whose resource is known
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

// add records the resource of a call, if the beginning of its name is known.
func (t *targets) add(op *catalog.Operation, name parser.Expr) {
	if !op.Destructive {
		return
	}
	prefix, whole := t.nameOf(name)
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

// list returns the targets, sorted, and whether the script may destroy other resources.
func (t *targets) list() (named []string, more bool) {
	return slices.Sorted(maps.Keys(t.named)), t.seen < t.mentioned
}

// nameOf returns the literal beginning of a resource name, and whether that is the whole name.
func (t *targets) nameOf(e parser.Expr) (prefix string, whole bool) {
	if t.steps++; t.steps > maxNameSteps {
		return "", false
	}
	switch e := e.(type) {
	case *parser.ParenExpr:
		return t.nameOf(e.Expr)
	case *parser.StringLit:
		return e.Value, true
	case *parser.BinaryExpr:
		left, all := t.nameOf(e.LHS)
		if e.Token != token.Add || !all {
			return left, false
		}
		right, all := t.partOf(e.RHS)
		if len(left)+len(right) > diagnostic.MaxLine {
			return left, false
		}
		return left + right, all
	case *parser.Ident:
		if value := t.origin(e); value != nil {
			return t.nameOf(value)
		}
	case *parser.SelectorExpr, *parser.IndexExpr:
		if base, key := selected(e); key != nil && t.isParams(base) {
			value, known := t.params[key.Value].(string)
			return value, known
		}
	case *parser.CallExpr:
		if len(e.Args) > 0 && t.builtin(e.Func) == "format" {
			form, all := t.nameOf(e.Args[0])
			prefix, _, cut := strings.Cut(form, "%")
			return prefix, all && !cut
		}
		if op := t.operation(e.Func); op != nil && op.Named() && len(e.Args) > 0 { // a handle
			return t.nameOf(e.Args[0])
		}
	}
	return "", false
}

// partOf is nameOf for the later parts of a name: a number becomes its digits.
func (t *targets) partOf(e parser.Expr) (prefix string, whole bool) {
	if n, ok := e.(*parser.IntLit); ok {
		return strconv.FormatInt(n.Value, 10), true
	}
	if base, key := selected(e); key != nil && t.isParams(base) {
		if n, ok := t.params[key.Value].(int64); ok {
			return strconv.FormatInt(n, 10), true
		}
	}
	return t.nameOf(e)
}

// TargetsOf returns the targets of a script as Check does, but uses the given values of its parameters.
func TargetsOf(bundle scripts.Bundle, params map[string]any) (targets []string, more bool) {
	c := newChecker(syntax.Analyse(bundle))
	c.targets.params = params
	c.units()
	return c.targets.list()
}
