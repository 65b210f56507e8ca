package runs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/runview"
	"writ/cmd/writ/internal/cli/why"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/junit"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/identity"
)

// reportRun writes the result of a run to the requested files. The datacenter has signed the state of the run. The
// states of its calls are reported by the coordinator without a signature.
func reportRun(
	ctx context.Context, c *client.Client, roster *identity.Roster, run api.Run, end client.End, w watchOptions,
) error {
	if w.junit == "" && w.summary == "" {
		return nil
	}
	calls, err := c.Runs.Calls(ctx, run.ID)
	if err != nil {
		return fmt.Errorf("report the calls of run %s: %w", run.ID, err)
	}
	name := identity.DatacenterName(roster, run.Datacenter)
	status := fmt.Sprintf("%s, signed by the supervisor of %s and %s", run.State, name, verified(end))
	return errors.Join(reportTests(run, end, calls, w), reportText(name, status, run, end, calls, w))
}

// reportTests writes a JUnit report with a test for the run and one for each of its calls.
func reportTests(run api.Run, end client.End, calls []writ.Call, w watchOptions) error {
	if w.junit == "" {
		return nil
	}
	return writeTests(w.junit, suiteOfRun(run, end, calls, w.script))
}

// writeTests writes a JUnit file.
func writeTests(path string, suite junit.Suite) error {
	var b bytes.Buffer
	if err := junit.Write(&b, "writ submit", []junit.Suite{suite}); err != nil {
		return err
	}
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		return writ.Errorf(writ.CodeUsage, "cannot write the report of --junit: %v", err)
	}
	return nil
}

// reportText appends a Markdown report to a file to which other steps of the CI job may also write. `status` is the text
// for the state.
func reportText(name, status string, run api.Run, end client.End, calls []writ.Call, w watchOptions) error {
	if w.summary == "" {
		return nil
	}
	run.Failure, run.Output = end.Failure, end.Output
	shown := shownRun{RunValues: api.RunValues{Run: run}}
	for _, call := range calls {
		shown.Calls = append(shown.Calls, api.CallValues{Call: call})
	}
	text := fmt.Sprintf("### writ run: %s in %s\n\n%s", run.State, terminal.Clean(name),
		cli.Fenced("", cli.Shorten(runText(shown, status, name, false, false), cli.MostMarkdown)))
	return appendSummary(w, text)
}

// appendSummary appends a text to the file of --summary, if it is set.
func appendSummary(w watchOptions, text string) error {
	if w.summary == "" {
		return nil
	}
	file, err := os.OpenFile(w.summary, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err == nil {
		_, err = file.WriteString(text)
		err = cmp.Or(err, file.Close())
	}
	if err != nil {
		return writ.Errorf(writ.CodeUsage, "cannot write the report of --summary: %v", err)
	}
	return nil
}

func suiteOfRun(run api.Run, end client.End, calls []writ.Call, script string) junit.Suite {
	name := run.Script
	if filepath.Base(script) == name {
		name = script // the path is unique, the name of the script may not be
	}
	s := junit.Suite{Name: name, Began: run.Accepted, Took: max(run.Ended.Sub(run.Accepted), 0)}
	class := junit.ClassOf(name)
	whole := junit.Case{Name: "run " + string(run.ID), Class: class, File: script, Took: s.Took}
	failed := 0 // number of the call that ended the run
	if f := end.Failure; f != nil {
		failed = f.Seq
		whole.Line, _ = runview.FailedAt(f, script)
		whole.Failure = &junit.Problem{Message: fmt.Sprintf("%s: %s", f.Code, f.Message), Text: placeOf(f)}
	} else if end.State != writ.RunSucceeded {
		whole.Failure = &junit.Problem{Message: "the run " + cli.StateClause(writ.RunState(run.State))}
	}
	s.Cases = append(s.Cases, whole)
	for _, call := range calls {
		s.Cases = append(s.Cases, caseOfCall(call, class, script, call.Seq == failed))
	}
	return s
}

// placeOf describes where in the script a run failed. It returns "" if the failure has no position.
func placeOf(f *writ.Failure) string {
	if f.Position == "" {
		return ""
	}
	return strings.Join(append([]string{"at " + f.Position}, why.TraceLines(f)...), "\n")
}

// caseOfCall returns the test for a call. A failed call is a failed test only if it ended the run, because the script
// handled all other failures.
func caseOfCall(call writ.Call, class, script string, ended bool) junit.Case {
	one := junit.Case{
		Name: strings.TrimSuffix(fmt.Sprintf("%d %s %s", call.Seq, call.Operation, call.Name), " "), Class: class,
		File: script,
	}
	one.Line, _ = runview.FailedAt(&writ.Failure{Position: call.Position}, script)
	if !call.Started.IsZero() && !call.Ended.IsZero() {
		one.Took = max(call.Ended.Sub(call.Started), 0)
	}
	if call.State == writ.CallSucceeded {
		return one
	}
	problem := &junit.Problem{Message: "it is " + string(call.State)}
	if e := call.Error; e != nil {
		problem.Message, problem.Text = fmt.Sprintf("%s: %s", e.Code, e.Message), e.Hint
	}
	if ended {
		one.Failure = problem
	} else {
		one.Skipped = problem
	}
	return one
}
