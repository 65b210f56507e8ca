package writ_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"writ/scripts/diagnostic"

	"github.com/google/go-cmp/cmp"

	"writ"
)

//go:generate go test . -run ^TestDocuments$ -update

var update = flag.Bool("update", false, "write the documents that are made from tables")

// TestDocuments compares generated documents with their sources: the tables of this package, the catalogue of
// operations and the diagnostics of scripts.
//
// Promise: Plans, scripts and manuals: Manuals and editor files describe operations as the catalogue does.
// How: They are generated and compared; snippets and colours are tested on every example.
// Also: TestGeneratedFiles, TestSnippetsPassTheCheck.
func TestDocuments(t *testing.T) {
	for name, text := range map[string]string{
		"codes.md": codesDocument(), "states.md": statesDocument(), "operations.md": operationsDocument(),
		"manual/diagnostics.md": diagnosticsDocument(),
	} {
		path := filepath.Join("docs", name)
		if *update {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(text, string(got)); diff != "" {
			t.Errorf("%s differs from the tables; run `go generate .` (-tables +file):\n%s", path, diff)
		}
	}
}

// exitCodes lists the exit codes of commands.
var exitCodes = []struct {
	exit  int
	means string
}{
	{writ.ExitDone, "done"},
	{writ.ExitFailed, "the run failed, or the command did"},
	{writ.ExitUsage, "usage, or an error in the script"},
	{writ.ExitDenied, "a signature or a permission was refused"},
	{writ.ExitNotFound, "not found: no run, node, project, secret or other thing has this name"},
	{writ.ExitConflict, "conflict: the object has changed meanwhile, or several objects have this name"},
	{writ.ExitTimeout, "the wait is over; the work continues, unless `--cancel-on-exit` cancels it"},
	{writ.ExitPlanChanges, "the plan has changes (`plan --exit-code`)"},
	{writ.ExitUnreachable, "no server answered, or the server cannot answer now"},
	{writ.ExitUnverified, "the coordinator's answer has no signature of a supervisor; for `writ runner`: the datacenter removed the node"},
	{writ.ExitPlanUnplaced, "no node can carry out a call of the plan now (`plan`)"},
	{writ.ExitInterrupted, "interrupted"},
}

func codesDocument() string {
	var b strings.Builder
	b.WriteString(`# Codes

This page is for people and programs that get an error of writ. Each error has one of these codes, and a code never changes its meaning.
Terms are in the [glossary](architecture.md#words).
*Retry* says whether the same request may succeed later, unchanged. *Status* is the HTTP status, *exit* the exit code of the command line.
Diagnostics of scripts have [their own codes](manual/diagnostics.md), W0001 and up. ` + "`go generate .`" + ` makes this page from the table ` + "`Codes`" + ` of
the root package.

A command ends with the exit code of its error. If it watches a run that fails, is cancelled or expires, that is 1, with each code.

| exit | what happened |
| --- | --- |
`)
	for _, row := range exitCodes {
		fmt.Fprintf(&b, "| %d | %s |\n", row.exit, row.means)
	}
	b.WriteString(`
| code | kind | retry | status | exit | meaning and remedy |
| --- | --- | --- | --- | --- | --- |
`)
	for _, row := range writ.Codes {
		retry := "no"
		if row.Retryable {
			retry = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %d | %d | %s |\n", row.Code, row.Kind, retry, row.Status, row.Exit, row.Explain())
	}
	return b.String()
}

// diagnosticsDocument has an anchor for each code, such as w0104.
func diagnosticsDocument() string {
	var b strings.Builder
	b.WriteString(`# Diagnostics

This page is for people who write [scripts](../architecture.md#words). It lists the errors and warnings of ` + "`writ check`" + `, each with a wrong and a right example.
` + "`writ explain CODE`" + ` prints the same. Errors stop a script. Warnings stop it with ` + "`--strict`" + ` only. A code never changes its meaning.
` + "`go generate .`" + ` makes this page from the table ` + "`Codes`" + ` of the package scripts.
`)
	for i, c := range diagnostic.Codes {
		if i == 0 || c.Code[:3] != diagnostic.Codes[i-1].Code[:3] {
			fmt.Fprintf(&b, "\n## %s\n", map[string]string{
				"W00": "The source and its size", "W01": "Operations and their arguments", "W02": "Names and imports",
				"W03": "Parameters", "W04": "Possible, and most likely a mistake", "W05": "Tests of scripts",
			}[c.Code[:3]])
		}
		fmt.Fprintf(&b, "\n### %s\n\n*%s*: %s.\n%s\n\nWrong:\n\n```tengo\n%s\n```\n\nRight:\n\n```tengo\n%s\n```\n",
			c.Code, c.Severity, c.Title, c.Explain, c.Wrong, c.Right)
	}
	return b.String()
}

func statesDocument() string {
	var b strings.Builder
	b.WriteString(`# States

This page is for people who read states in commands, in the API or in code. It lists the states of [submissions, runs, calls and nodes](architecture.md#words), and
each legal move with its cause. Stores refuse any other move. The liveness of a node (ready, silent, lost) is not stored: it is the age of
its last beat. ` + "`go generate .`" + ` makes this page from the tables of moves in the root package.
`)
	writeMoves(&b, "Submission", "The state of a submission at its coordinator.", writ.SubmissionMoves, writ.SubmissionWaiting)
	writeMoves(&b, "Run", "The state of a run in its datacenter.", writ.RunMoves, writ.RunAccepted)
	writeMoves(&b, "Call", "The state of the n-th operation of a run.", writ.CallMoves, writ.CallPlanned)
	writeMoves(&b, "Admission", "Whether a node may take part at all.", writ.AdmissionMoves, writ.AdmissionPending)
	writeMoves(&b, "Scheduling", "Whether an approved node may get new work.", writ.SchedulingMoves, writ.SchedulingOpen)
	return b.String()
}

func writeMoves[S ~string](b *strings.Builder, title, about string, table []writ.Move[S], first S) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n```mermaid\nstateDiagram-v2\n\t[*] --> %s\n", title, about, first)
	final := map[S]bool{}
	for _, m := range table {
		fmt.Fprintf(b, "\t%s --> %s\n", m.From, m.To)
		final[m.To] = true
	}
	for _, m := range table {
		delete(final, m.From)
	}
	for _, m := range table {
		if final[m.To] {
			fmt.Fprintf(b, "\t%s --> [*]\n", m.To)
			delete(final, m.To)
		}
	}
	b.WriteString("```\n\n| from | to | cause |\n| --- | --- | --- |\n")
	for _, m := range table {
		fmt.Fprintf(b, "| %s | %s | %s |\n", m.From, m.To, m.Cause)
	}
}

// Every script in README.md is also an example. Other tests check and run the examples.
func TestScriptsInTheReadmeAreExamples(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob("scripts/examples/*.tengo")
	if err != nil {
		t.Fatal(err)
	}
	examples := map[string]bool{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		examples[string(text)] = true
	}
	shown := strings.Split(string(readme), "```tengo\n")[1:]
	if len(shown) == 0 {
		t.Error("README.md shows no script")
	}
	for _, rest := range shown {
		script, _, _ := strings.Cut(rest, "```")
		if !examples[script] {
			t.Errorf("README.md shows a script that is not in scripts/examples:\n%s", script)
		}
	}
}
