package syntax

import (
	"strings"

	"writ/scripts/diagnostic"

	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/token"
)

// testPrefix is the prefix of the names of test functions.
const testPrefix = "test_"

// findTests collects the tests of the main unit: definitions test_… := func(t) at its top level.
func (a *Analysis) findTests() {
	for _, s := range a.Main.Tree.Stmts {
		assign, ok := s.(*parser.AssignStmt)
		if !ok || assign.Token != token.Define || len(assign.LHS) != 1 {
			continue
		}
		name, ok := assign.LHS[0].(*parser.Ident)
		if !ok || !strings.HasPrefix(name.Name, testPrefix) {
			continue
		}
		fn, ok := assign.RHS[0].(*parser.FuncLit)
		switch {
		case !ok || len(fn.Type.Params.List) != 1 || fn.Type.Params.VarArgs:
			a.At(diagnostic.CodeTestShape, name, "%s is not a test: a test is a function of one argument, t",
				name.Name).Help = "write " + name.Name + " := func(t) { … }"
		case a.Symbols[name] != nil && a.Symbols[name].Assigned:
			a.At(diagnostic.CodeTestShape, name, "%s is assigned again below, so its test function is unclear", name.Name)
		default:
			a.Tests = append(a.Tests, name)
		}
	}
}
