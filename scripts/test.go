package scripts

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/token"

	"writ"
)

// TestEnding is how the name of a file with tests ends: "web_test.tengo". What is in such a file is never a script.
const TestEnding = "_test.tengo"

// testPrefix is how the names of functions begin that are tests.
const testPrefix = "test_"

// IsTest reports whether a file of this name holds tests.
func IsTest(name string) bool { return strings.HasSuffix(name, TestEnding) }

// TestFile is a file of tests that is ready to be carried out: functions test_…(t) at its top level. Every test is an evaluation of the
// whole file, from its first line and with nothing of the tests before it, followed by a call of the test's function. It is bounded as a
// pass of a script is. Any number of tests may be carried out at the same time.
type TestFile struct {
	program *Program
	tests   []Test
}

// Test is a test of a file.
type Test struct {
	Name string `json:"name"`
	Line int    `json:"line"` // where it is defined, from 1
}

// CompileTests makes a TestFile of a bundle whose main source is one. An error is SCRIPT_INVALID with the first thing that is wrong;
// Check tells all of it.
func CompileTests(bundle Bundle) (*TestFile, error) {
	a := analyse(bundle)
	if !IsTest(bundle.Main.Name) {
		return nil, writ.Errorf(writ.CodeScriptInvalid, "%s is no test file: its name does not end with %s", bundle.Main.Name, TestEnding)
	}
	if err := a.err(); err != nil {
		return nil, err
	}
	program, err := a.compile(false)
	if err != nil {
		a.refused(err)
		return nil, a.err()
	}
	return &TestFile{program: program, tests: a.testList()}, nil
}

// Tests returns the tests in the order of the file.
func (f *TestFile) Tests() []Test { return f.tests }

// TestOutcome is how a test ended.
type TestOutcome string

// The ends of a test.
const (
	TestPassed  TestOutcome = "pass"
	TestFailed  TestOutcome = "fail"
	TestSkipped TestOutcome = "skip"
)

// Verdict is what came of one test.
type Verdict struct {
	Test    string      `json:"test"`
	Outcome TestOutcome `json:"outcome"`
	Notes   []TestNote  `json:"notes,omitempty"` // in the order in which they were made
}

// TestNote is something that a test said, and where.
type TestNote struct {
	Failure  bool     `json:"failure,omitempty"` // it failed the test; the others only tell
	Text     string   `json:"text"`              // maybe of several lines
	Position string   `json:"position,omitempty"`
	Trace    []string `json:"trace,omitempty"` // positions of the callers within the test, innermost first
}

// trial is one test that is being carried out.
type trial struct {
	ctx     context.Context
	sim     Sim
	index   int  // of the test in its file
	began   bool // the file's top level is through
	verdict *Verdict
	bytes   int // of the notes
}

// maxTestText bounds what one test may say, in bytes.
const maxTestText = 1 << 20

// errTestEnds unwinds a test that has said why it ends.
var errTestEnds = errors.New("the test ends here")

// Run carries out the i-th test. Its runs take place in the sim. When ctx ends the test fails, with ctx's cause.
func (f *TestFile) Run(ctx context.Context, i int, sim Sim) Verdict {
	v := Verdict{Test: f.tests[i].Name, Outcome: TestPassed}
	p := &pass{fuel: MaxFuel}
	p.test = &trial{ctx: ctx, sim: sim, index: i, verdict: &v}
	err := p.evaluate(ctx, f.program)
	switch {
	case ctx.Err() != nil && !errors.Is(err, errTestEnds):
		p.failTest(context.Cause(ctx).Error())
	case err == nil || errors.Is(err, errTestEnds):
	default:
		found := failure(err)
		text := found.Message
		if errors.Is(err, errFuel) {
			text = "the test does too much: it has " + strconv.Itoa(MaxFuel) + " units of work"
		}
		note := TestNote{Failure: true, Text: text, Position: found.Position, Trace: p.test.within(found.Trace)}
		if found.Position == "" {
			note.Position, note.Trace = p.place()
		}
		v.Outcome = TestFailed
		v.Notes = append(v.Notes, note)
	}
	return v
}

// within takes the last position off a trace: that of the call of the test, which no author wrote.
func (t *trial) within(trace []string) []string {
	if !t.began || len(trace) == 0 {
		return trace
	}
	return trace[:len(trace)-1]
}

// place is where the test is, and from where that was called.
func (p *pass) place() (position string, trace []string) {
	all := frames(p.vm, p.files)
	if len(all) == 0 {
		return "", nil
	}
	return all[0], p.test.within(all[1:])
}

// note adds to what the test said.
func (p *pass) note(failed bool, text string) {
	t := p.test
	if t.bytes > maxTestText {
		return
	}
	if t.bytes += len(text); t.bytes > maxTestText {
		text = "a test keeps 1 MiB of what it says; what follows is dropped"
	}
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = printable(lines[i])
	}
	n := TestNote{Failure: failed, Text: strings.Join(lines, "\n")}
	n.Position, n.Trace = p.place()
	t.verdict.Notes = append(t.verdict.Notes, n)
}

// failTest notes a failure; the test goes on unless the caller ends it.
func (p *pass) failTest(text string) {
	p.test.verdict.Outcome = TestFailed
	p.note(true, text)
}

// findTests collects the tests of the main unit: what is defined at its top level as test_… := func(t).
func (a *analysis) findTests() {
	for _, s := range a.main.tree.Stmts {
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
			a.at(codeTestShape, name, "%s is no test: a test is a function of one argument, t", name.Name).Help = "write " + name.Name + " := func(t) { … }"
		case a.symbols[name] != nil && a.symbols[name].assigned:
			a.at(codeTestShape, name, "%s is assigned again below, so which test it is cannot be seen", name.Name)
		default:
			a.tests = append(a.tests, name)
		}
	}
}

func (a *analysis) testList() []Test {
	var list []Test
	for _, name := range a.tests {
		list = append(list, Test{Name: name.Name, Line: a.main.file.Position(name.NamePos).Line})
	}
	return list
}

// callTests makes the end of a test file: `if selected { test_name(t) }` for each test. The tree is changed, not the text, so every
// position stays the author's.
func callTests(tests []*parser.Ident) []parser.Stmt {
	var list []parser.Stmt
	for i, name := range tests {
		at := name.NamePos
		t := &parser.ImportExpr{ModuleName: nativeTester, Token: token.Import, TokenPos: at}
		list = append(list, &parser.IfStmt{
			IfPos: at,
			Cond:  call(nativeSelected+strconv.Itoa(i), at),
			Body: &parser.BlockStmt{LBrace: at, Stmts: []parser.Stmt{&parser.ExprStmt{
				Expr: &parser.CallExpr{Func: &parser.Ident{Name: name.Name, NamePos: at}, LParen: at, Args: []parser.Expr{t}},
			}}},
		})
	}
	return list
}
