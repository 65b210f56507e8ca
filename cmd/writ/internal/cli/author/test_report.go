package author

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/junit"
	"writ/cmd/writ/internal/terminal"
	"writ/scripts"
	"writ/scripts/check"
	"writ/scripts/diagnostic"
	"writ/scripts/scripttest"
)

// testReport shows the results of tests while they run, and a report at the end.
type testReport struct {
	*cli.Env
	verbose bool
	all     []*testedFile
}

// testedFile holds the results of a file, also for -o json.
type testedFile struct {
	File        string                  `json:"file"`
	OK          bool                    `json:"ok"`
	Seconds     float64                 `json:"seconds"`
	Tests       []tested                `json:"tests,omitempty"`
	Diagnostics []diagnostic.Diagnostic `json:"diagnostics,omitempty"` // errors and warnings of an invalid file

	began  time.Time
	errors int            // number of errors in an invalid file
	Bundle scripts.Bundle // sources of the tests
}

// tested is the result of a test.
type tested struct {
	scripttest.Verdict
	Line    int     `json:"line"`
	Seconds float64 `json:"seconds"`
}

func newTestReport(env *cli.Env, verbose bool) *testReport {
	return &testReport{Env: env, verbose: verbose}
}

// live reports whether results are shown immediately.
func (r *testReport) live() bool { return r.Format == terminal.Table || r.Format == terminal.Wide }

func (r *testReport) say(format string, args ...any) {
	if r.live() {
		fmt.Fprintf(r.Out, "%s\n", terminal.CleanLines(fmt.Sprintf(format, args...)))
	}
}

func (r *testReport) file() *testedFile { return r.all[len(r.all)-1] }

// begin adds the file of a script.
func (r *testReport) begin(script client.Script) {
	r.all = append(r.all, &testedFile{File: script.Path, OK: true, began: time.Now(), Bundle: script.Bundle})
}

// broken reports a file that has errors.
func (r *testReport) broken(report check.Report) {
	f := r.file()
	f.OK, f.Diagnostics, f.errors = false, report.Diagnostics, report.Errors()
	r.say("%s", report)
	r.say("FAIL  %s  the file has errors", f.File)
	if cli.OnGitHub() {
		cli.Annotate(r.Env, report)
	}
}

// start adds a test to the last file.
func (r *testReport) start(test scripttest.Test) {
	f := r.file()
	f.Tests = append(f.Tests, tested{Line: test.Line})
	if r.verbose {
		r.say("=== RUN   %s", test.Name)
	}
}

// words maps outcomes to their display form.
var words = map[scripttest.Outcome]string{
	scripttest.Passed: "PASS", scripttest.Failed: "FAIL", scripttest.Skipped: "SKIP",
}

// done records the result of the last test.
func (r *testReport) done(v scripttest.Verdict, took time.Duration) {
	f := r.file()
	one := &f.Tests[len(f.Tests)-1]
	one.Verdict, one.Seconds = v, took.Seconds()
	f.OK = f.OK && v.Outcome != scripttest.Failed
	if !r.verbose && v.Outcome != scripttest.Failed {
		return
	}
	r.say("--- %s: %s (%.2fs)%s", words[v.Outcome], v.Test, took.Seconds(), f.notesText(v.Notes, "    "))
	if !cli.OnGitHub() {
		return
	}
	for _, n := range v.Notes {
		if n.Failure {
			line, column := f.lineOf(n.Position)
			if line == 0 {
				line, column = one.Line, 1
			}
			cli.Annotation(r.Env, "error", v.Test, n.Text, "file", f.File, "line", line, "col", column)
		}
	}
}

// lineOf returns the line and column of a position in this file. For a position in another file it returns 0: the trace
// then contains the position of the caller.
func (f *testedFile) lineOf(position string) (line, column int) {
	name, line, column, _ := scripts.ParsePosition(position)
	if name != filepath.Base(f.File) {
		return 0, 0
	}
	return line, column
}

// notesText formats the notes of a test, each with its position. Failures include the source line.
func (f *testedFile) notesText(notes []scripttest.Note, margin string) string {
	var b strings.Builder
	for _, n := range notes {
		text := n.Text
		if n.Position != "" {
			text = n.Position + ": " + text
		}
		if excerpt := f.Bundle.Excerpt(n.Position); n.Failure && excerpt != "" {
			text += "\n" + excerpt
		}
		for _, at := range n.Trace {
			text += "\ncalled from " + at
		}
		b.WriteString("\n" + margin + strings.ReplaceAll(text, "\n", "\n"+margin+"    "))
	}
	return b.String()
}

// end completes the last file.
func (r *testReport) end() {
	f := r.file()
	f.Seconds = time.Since(f.began).Seconds()
	word := "ok"
	if !f.OK {
		word = "FAIL"
	}
	r.say("%-4s  %s  %.2fs", word, f.File, f.Seconds)
}

// failed reports whether any test failed, or any file is broken.
func (r *testReport) failed() bool { return len(r.bad()) > 0 }

// bad returns the names of files with a failed test or an error.
func (r *testReport) bad() (names []string) {
	for _, f := range r.all {
		if !f.OK {
			names = append(names, f.File)
		}
	}
	return names
}

// conclude prints the remaining results and writes the JUnit report. Its error carries the exit code for the results.
func (r *testReport) conclude(junitPath string) error {
	if junitPath != "" {
		if err := r.writeJUnit(junitPath); err != nil {
			return err
		}
	}
	if !r.live() {
		if err := r.Print(terminal.View{Data: r.all, Names: r.names()}); err != nil {
			return err
		}
	}
	counts := make(map[scripttest.Outcome]int)
	mistakes, total := 0, 0
	var broken []string
	for _, f := range r.all {
		mistakes += f.errors
		if f.errors > 0 {
			broken = append(broken, f.File)
		}
		for _, t := range f.Tests {
			counts[t.Outcome]++
			total++
		}
	}
	skipped := ""
	if n := counts[scripttest.Skipped]; n > 0 {
		skipped = fmt.Sprintf(", %d skipped", n)
	}
	if n := counts[scripttest.Failed]; n > 0 {
		r.Bad("%d of %s failed%s", n, cli.Count(total, "test"), skipped)
	} else if total > 0 {
		r.Done("%s passed%s", cli.Count(counts[scripttest.Passed], "test"), skipped)
	}
	switch {
	case mistakes > 0:
		return writ.Errorf(writ.CodeScriptInvalid, "%s in %s", cli.Count(mistakes, "error"), strings.Join(broken, ", ")).
			WithHint("`writ explain CODE` explains each code")
	case counts[scripttest.Failed] > 0:
		return &terminal.ExitError{Exit: writ.ExitFailed}
	}
	return nil
}

// names lists every test as file:test.
func (r *testReport) names() (names []string) {
	for _, f := range r.all {
		for _, t := range f.Tests {
			names = append(names, f.File+":"+t.Test)
		}
	}
	return names
}

func (r *testReport) writeJUnit(path string) error {
	var suites []junit.Suite
	for _, f := range r.all {
		suites = append(suites, f.suite())
	}
	var b bytes.Buffer
	if err := junit.Write(&b, "writ test", suites); err != nil {
		return err
	}
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		return writ.Errorf(writ.CodeUsage, "cannot write the results: %v", err)
	}
	return nil
}

// suite returns the file as a JUnit suite.
func (f *testedFile) suite() junit.Suite {
	class := junit.ClassOf(f.File)
	s := junit.Suite{Name: f.File, Began: f.began, Took: time.Duration(f.Seconds * float64(time.Second))}
	if f.errors > 0 {
		s.Cases = append(s.Cases, junit.Case{
			Name: "check", Class: class, File: f.File,
			Error: &junit.Problem{
				Message: cli.Count(f.errors, "error"), Text: check.Report{Diagnostics: f.Diagnostics}.String(),
			},
		})
	}
	for _, t := range f.Tests {
		c := junit.Case{
			Name: t.Test, Class: class, File: f.File, Line: t.Line, Took: time.Duration(t.Seconds * float64(time.Second)),
		}
		text := strings.TrimPrefix(f.notesText(t.Notes, ""), "\n")
		switch t.Outcome {
		case scripttest.Failed:
			c.Failure = &junit.Problem{Message: firstFailure(t.Notes), Text: text}
		case scripttest.Skipped:
			c.Skipped = &junit.Problem{Message: t.Notes[len(t.Notes)-1].Text}
		default:
			c.Output = text
		}
		s.Cases = append(s.Cases, c)
	}
	return s
}

// firstFailure returns the first line of the first failure.
func firstFailure(notes []scripttest.Note) string {
	for _, n := range notes {
		if n.Failure {
			line, _, _ := strings.Cut(n.Text, "\n")
			return line
		}
	}
	return ""
}

func testNames(tests []scripttest.Test) string {
	names := make([]string, len(tests))
	for i, t := range tests {
		names[i] = t.Name
	}
	return strings.Join(names, " ")
}
