package interpreter

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/token"

	"writ"
	"writ/scripts"
	"writ/scripts/interpreter/instrument"
	"writ/scripts/scripttest"
	"writ/scripts/syntax"
)

// TestFile is a compiled test file: functions test_…(t) at its top level. Every test evaluates the whole file from its
// first line, independent of earlier tests, and then calls the test's function. The limits of a pass apply. A TestFile
// is safe for concurrent use.
type TestFile struct {
	program *Program
	tests   []scripttest.Test
}

// CompileTests compiles a bundle whose main source is a test file. An error is SCRIPT_INVALID with the first
// diagnostic; package check returns all diagnostics.
func CompileTests(bundle scripts.Bundle) (*TestFile, error) {
	if !scripts.IsTest(bundle.Main.Name) {
		return nil, writ.Errorf(writ.CodeScriptInvalid, "%s is not a test file: its name does not end with %s",
			bundle.Main.Name, scripts.TestEnding)
	}
	a := syntax.Analyse(bundle)
	program, err := compile(a)
	if err != nil {
		return nil, err
	}
	return &TestFile{program: program, tests: TestsOf(a)}, nil
}

// Tests returns the tests in the order of the file.
func (f *TestFile) Tests() []scripttest.Test { return f.tests }

// trial is a running test.
type trial struct {
	ctx     context.Context
	sim     scripttest.Sim
	fuel    *meter
	frames  func() []string // the current position of the test file, and the positions of its callers
	index   int             // of the test in its file
	began   bool            // the top level of the file has run
	verdict *scripttest.Verdict
	bytes   int // of the notes
}

// maxTestText limits the notes of one test, in bytes.
const maxTestText = 1 << 20

// errTestEnds unwinds a test that has reported why it ends.
var errTestEnds = errors.New("the test ends here")

// Run runs the i-th test. sim runs the scripts that the test starts. When ctx ends, the test fails with ctx's cause.
func (f *TestFile) Run(ctx context.Context, i int, sim scripttest.Sim) scripttest.Verdict {
	v := scripttest.Verdict{Test: f.tests[i].Name, Outcome: scripttest.Passed}
	p := &pass{meter: newMeter()}
	t := &trial{ctx: ctx, sim: sim, fuel: &p.meter, frames: p.frames, index: i, verdict: &v}
	p.test = t
	err := p.evaluate(ctx, f.program)
	switch {
	case ctx.Err() != nil && !errors.Is(err, errTestEnds):
		t.fail(context.Cause(ctx).Error())
	case err == nil || errors.Is(err, errTestEnds):
	default:
		found := failure(err)
		text := found.Message
		if errors.Is(err, errFuel) {
			text = "the test does too much: it has " + strconv.Itoa(scripts.MaxFuel) + " units of work"
		}
		note := scripttest.Note{Failure: true, Text: text, Position: found.Position, Trace: t.within(found.Trace)}
		if found.Position == "" {
			note.Position, note.Trace = t.place()
		}
		v.Outcome = scripttest.Failed
		v.Notes = append(v.Notes, note)
	}
	return v
}

// within removes the last position of a trace, the call of the test that callTests generates.
func (t *trial) within(trace []string) []string {
	if !t.began || len(trace) == 0 {
		return trace
	}
	return trace[:len(trace)-1]
}

// place returns the current position of the test, and the positions of its callers.
func (t *trial) place() (position string, trace []string) {
	all := t.frames()
	if len(all) == 0 {
		return "", nil
	}
	return all[0], t.within(all[1:])
}

// addNote adds a note to the verdict.
func (t *trial) addNote(failed bool, text string) {
	if t.bytes > maxTestText {
		return
	}
	if t.bytes += len(text); t.bytes > maxTestText {
		text = "a test keeps 1 MiB of notes; later notes are dropped"
	}
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = scripts.Printable(lines[i])
	}
	n := scripttest.Note{Failure: failed, Text: strings.Join(lines, "\n")}
	n.Position, n.Trace = t.place()
	t.verdict.Notes = append(t.verdict.Notes, n)
}

// fail adds a failure. The test continues unless the caller ends it.
func (t *trial) fail(text string) {
	t.verdict.Outcome = scripttest.Failed
	t.addNote(true, text)
}

// failFor adds a failure because a script could not run. It returns the error that ends the test.
func (t *trial) failFor(err error) error {
	e := writ.AsError(err)
	text := err.Error()
	if e.Code != writ.CodeInternal {
		text = e.Message
	}
	t.fail(text)
	return errTestEnds
}

// TestsOf lists the tests of a test file.
func TestsOf(a *syntax.Analysis) (list []scripttest.Test) {
	for _, name := range a.Tests {
		list = append(list, scripttest.Test{Name: name.Name, Line: a.Main.File.Position(name.NamePos).Line})
	}
	return list
}

// callTests returns the statements at the end of a test file: `if selected { test_name(t) }` for each test. The tree is
// changed, not the text, so every position stays as in the author's file.
func callTests(tests []*parser.Ident) []parser.Stmt {
	var list []parser.Stmt
	for i, name := range tests {
		at := name.NamePos
		t := &parser.ImportExpr{ModuleName: nativeTester, Token: token.Import, TokenPos: at}
		list = append(list, &parser.IfStmt{
			IfPos: at,
			Cond:  instrument.Call(nativeSelected+strconv.Itoa(i), at),
			Body: &parser.BlockStmt{LBrace: at, Stmts: []parser.Stmt{&parser.ExprStmt{
				Expr: &parser.CallExpr{Func: &parser.Ident{Name: name.Name, NamePos: at}, LParen: at, Args: []parser.Expr{t}},
			}}},
		})
	}
	return list
}
