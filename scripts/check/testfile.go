package check

import (
	"github.com/d5/tengo/v2/parser"

	"writ/internal/meant"
	"writ/sal/catalog"
	"writ/scripts/diagnostic"
	"writ/scripts/interpreter"
	"writ/scripts/scripttest"
	"writ/scripts/syntax"
)

// testChecker checks the parts that only test files have: the tests and their use of t.
type testChecker struct{ scope }

func (c testChecker) file() {
	for _, name := range c.Tests {
		fn := c.Symbols[name].Init.(*parser.FuncLit)
		c.uses(c.Symbols[fn.Type.Params.List[0]], fn.Body)
	}
	for _, s := range c.Main.Tree.Stmts {
		assign, ok := s.(*parser.AssignStmt)
		if !ok || len(assign.LHS) != 1 {
			continue
		}
		if name, ok := assign.LHS[0].(*parser.Ident); ok && name.Name == paramsName {
			c.At(diagnostic.CodeTestShape, name,
				"tests have no parameters").Help = "give them to the script: t.run(\"web.tengo\", {params: {…}})"
		}
	}
	for _, u := range c.Units {
		for _, i := range u.Imports {
			if ofOperations(i.ModuleName) {
				c.At(diagnostic.CodeTestOperation, i, "tests call no operations, so %q cannot be imported",
					i.ModuleName).Help = "run a script: t.run(\"web.tengo\")"
			}
		}
	}
	if len(c.Tests) == 0 && !c.Failed() {
		c.Add(diagnostic.CodeTestShape, parser.Pos(c.Main.File.Base), 1,
			"this file contains no test").Help = "write test_name := func(t) { … }"
	}
}

// uses checks every use of t below n.
func (c testChecker) uses(t *syntax.Symbol, n parser.Node) {
	if call, ok := n.(*parser.CallExpr); ok {
		c.call(t, call)
	}
	if e, ok := n.(parser.Expr); ok {
		if base, key := selected(e); key != nil && c.is(base, t) {
			if _, ok := interpreter.TestMember(key.Value); !ok {
				c.At(diagnostic.CodeTestMember, key, "t has no %q", key.Value).SetHelp(
					meant.Member(key.Value, interpreter.TestMembers()))
			}
		}
	}
	syntax.Children(n, func(child parser.Node) { c.uses(t, child) })
}

// call checks the arguments of t.run and the other members of t where they are literals.
func (c testChecker) call(t *syntax.Symbol, e *parser.CallExpr) {
	base, key := selected(e.Func)
	if key == nil || !c.is(base, t) || e.Ellipsis.IsValid() {
		return
	}
	m, ok := interpreter.TestMember(key.Value)
	if !ok {
		return
	}
	if !m.Takes(len(e.Args)) {
		c.At(diagnostic.CodeArity, e, "t.%s takes %s, not %d", key.Value, m.Arguments(), len(e.Args))
		return
	}
	if key.Value != "run" && key.Value != "plan" || len(e.Args) < 2 {
		return
	}
	v, _ := syntax.LiteralValue(e.Args[1])
	options, ok := v.(map[string]any)
	if !ok {
		return
	}
	r, problems := scripttest.Parse(options, nil)
	if key.Value == "plan" && len(r.Faults)+len(r.Results) > 0 {
		c.At(diagnostic.CodeTestOption, e.Args[1], "%v", scripttest.ErrPlanned)
	}
	for _, p := range problems {
		element, value := syntax.NodeAt(e.Args[1], p.Path)
		// A path of two elements is the key that names a call.
		if element != nil && (p.Reason == catalog.UnknownField || p.Reason == catalog.WrongValue && len(p.Path) == 2) {
			c.Add(diagnostic.CodeTestOption, element.KeyPos, syntax.KeyWidth(element), "%s", p.Message).Suggest(p.Suggestion)
			continue
		}
		c.At(diagnostic.CodeTestOption, value, "%s", p.Message).Suggest(p.Suggestion)
	}
}
