package scripts

import (
	"github.com/d5/tengo/v2/parser"

	"writ/internal/meant"
	"writ/sal/catalog"
	"writ/scripts/diagnostic"
)

// checkTests checks the parts that only test files have: the tests and their use of t.
func (c *checker) checkTests() {
	for _, name := range c.tests {
		fn := c.symbols[name].init.(*parser.FuncLit)
		c.ofTest(c.symbols[fn.Type.Params.List[0]], fn.Body)
	}
	for _, s := range c.main.tree.Stmts {
		assign, ok := s.(*parser.AssignStmt)
		if !ok || len(assign.LHS) != 1 {
			continue
		}
		if name, ok := assign.LHS[0].(*parser.Ident); ok && name.Name == paramsName {
			c.at(diagnostic.CodeTestShape, name, "tests have no parameters").Help = "give them to the script: t.run(\"web.tengo\", {params: {…}})"
		}
	}
	for _, u := range c.units {
		for _, i := range u.imports {
			if ofOperations(i.ModuleName) {
				c.at(diagnostic.CodeTestOperation, i, "tests call no operations, so %q cannot be imported", i.ModuleName).Help = "run a script: t.run(\"web.tengo\")"
			}
		}
	}
	if len(c.tests) == 0 && !c.failed() {
		c.add(diagnostic.CodeTestShape, parser.Pos(c.main.file.Base), 1, "this file contains no test").Help = "write test_name := func(t) { … }"
	}
}

// ofTest checks every use of t below n.
func (c *checker) ofTest(t *symbol, n parser.Node) {
	if call, ok := n.(*parser.CallExpr); ok {
		c.testCall(t, call)
	}
	if e, ok := n.(parser.Expr); ok {
		if base, key := selected(e); key != nil && c.is(base, t) {
			if _, ok := TestMember(key.Value); !ok {
				c.at(diagnostic.CodeTestMember, key, "t has no %q", key.Value).SetHelp(meant.Member("it", key.Value, TestMembers()))
			}
		}
	}
	children(n, func(child parser.Node) { c.ofTest(t, child) })
}

// is reports whether an expression is the variable s and s is never assigned again.
func (c *checker) is(e parser.Expr, s *symbol) bool {
	name, ok := e.(*parser.Ident)
	return ok && s != nil && c.symbols[name] == s && !s.assigned
}

// testCall checks the arguments of t.run and the other members of t where they are literals.
func (c *checker) testCall(t *symbol, e *parser.CallExpr) {
	base, key := selected(e.Func)
	if key == nil || !c.is(base, t) || e.Ellipsis.IsValid() {
		return
	}
	m, ok := TestMember(key.Value)
	if !ok {
		return
	}
	if !m.Takes(len(e.Args)) {
		c.at(diagnostic.CodeArity, e, "t.%s takes %s, not %d", key.Value, m.Arguments(), len(e.Args))
		return
	}
	if key.Value != "run" && key.Value != "plan" || len(e.Args) < 2 {
		return
	}
	v, _ := literalValue(e.Args[1])
	options, ok := v.(map[string]any)
	if !ok {
		return
	}
	r, problems := parseRehearsal(options, nil)
	if key.Value == "plan" && len(r.Faults)+len(r.Results) > 0 {
		c.at(diagnostic.CodeTestOption, e.Args[1], "%v", errPlanned)
	}
	for _, p := range problems {
		element, value := nodeAt(e.Args[1], p.Path)
		// A path of two elements is the key that names a call.
		if element != nil && (p.Reason == catalog.UnknownField || p.Reason == catalog.WrongValue && len(p.Path) == 2) {
			c.add(diagnostic.CodeTestOption, element.KeyPos, keyWidth(element), "%s", p.Message).Suggest(p.Suggestion)
			continue
		}
		c.at(diagnostic.CodeTestOption, value, "%s", p.Message).Suggest(p.Suggestion)
	}
}
