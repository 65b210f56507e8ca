package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/why"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/junit"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/identity"
)

// unendedTime limits how long a command that stops watching asks for the state of its run.
const unendedTime = 5 * time.Second

// stopWatching returns the error of a command that stops watching a run before its end: ctx was cancelled, watching
// timed out, or err occurred. It cancels the run if w.cancel is set, and writes the reports of --junit and --summary
// with the calls so far.
func stopWatching(
	ctx, watching context.Context, env *cli.Env, c *client.Client, roster *identity.Roster, id writ.RunID, err error,
	w watchOptions,
) error {
	asking, stop := context.WithTimeout(context.WithoutCancel(ctx), unendedTime)
	defer stop()
	timedOut := errors.Is(watching.Err(), context.DeadlineExceeded)
	// Without an answer, the report has only the error.
	s, _ := why.SituationOf(asking, c, id)
	if s == nil {
		s = new(why.Situation)
	}
	run, calls, why := s.Run, s.Calls, why.WaitClause(s.WaitReasons())
	cause := writ.AsError(err)
	switch {
	case ctx.Err() != nil:
		next, cancelled := leave(ctx, env, c, id, w)
		err = terminal.Interrupted(next)
		cause = writ.Errorf(writ.CodeTimeout, "the command was interrupted before run %s ended%s%s", id, why, cancelled)
	case timedOut:
		next, cancelled := leave(ctx, env, c, id, w)
		cause = writ.Errorf(writ.CodeTimeout, "run %s has not ended in %s%s%s", id, w.timeout, why, cancelled).
			WithHint("%s", next)
		err = cause
	// Another error, for example an expired login certificate.
	case !slices.Contains([]writ.Code{writ.CodeNotFound, writ.CodeUsage}, writ.CodeOf(err)):
		env.Note("run %s may still be open; to watch it again: writ run watch %s", id, id)
	}
	if unwritten := reportUnended(roster, run, calls, cause, w); unwritten != nil {
		env.Warn("%v", unwritten)
	}
	return err
}

// reportUnended writes the reports of a run that has not ended, with the calls so far. run is empty if its state is
// unknown.
func reportUnended(roster *identity.Roster, run api.Run, calls []writ.Call, cause *writ.Error, w watchOptions) error {
	if run.ID == "" || roster == nil {
		return reportUnsubmitted(cause, w)
	}
	end := client.End{Summary: writ.Summary{State: writ.RunState(run.State), Failure: &writ.Failure{Error: *cause}}}
	name := identity.DatacenterName(roster, run.Datacenter)
	status := fmt.Sprintf("%s, as the coordinator reports it; it has not ended", run.State)
	return errors.Join(reportTests(run, end, calls, w), reportText(name, status, run, end, calls, w))
}

// reportUnsubmitted writes the reports of a submission without a known run. In the JUnit report it is one test, which
// failed with cause.
func reportUnsubmitted(cause *writ.Error, w watchOptions) error {
	return errors.Join(testUnsubmitted(cause, w), appendSummary(w, cli.ErrorMarkdown("writ submit: no run", cause)))
}

// endUnverified returns the error of a command that cannot verify the end of its run, and writes it to the reports of
// --junit and --summary. They have no calls, because the states of calls are not proved.
func endUnverified(env *cli.Env, err error, w watchOptions) error {
	cause := writ.AsError(err)
	unwritten := errors.Join(testUnsubmitted(cause, w),
		appendSummary(w, cli.ErrorMarkdown("writ submit: the end of the run is not verified", cause)))
	if unwritten != nil {
		env.Warn("%v", unwritten)
	}
	return err
}

// testUnsubmitted writes a JUnit report with one test, which failed with cause.
func testUnsubmitted(cause *writ.Error, w watchOptions) error {
	if w.junit == "" {
		return nil
	}
	failure := &junit.Problem{Message: fmt.Sprintf("%s: %s", cause.Code, cause.Message), Text: cause.Hint}
	test := junit.Case{Name: "submit", Class: junit.ClassOf(w.script), File: w.script, Failure: failure}
	return writeTests(w.junit, junit.Suite{Name: w.script, Began: time.Now(), Cases: []junit.Case{test}})
}
