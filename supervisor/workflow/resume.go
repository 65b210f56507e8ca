package workflow

import (
	"slices"
	"time"

	"writ"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
)

// MayResume returns an error if a run cannot be resumed in its present state.
func MayResume(run *journal.Run, now time.Time) error {
	switch {
	case !run.State.Ended():
		return writ.Errorf(writ.CodeConflict, "the state of run %s is %s", run.ID, run.State).
			WithHint("`writ run watch %s` shows it", run.ID)
	case run.State != writ.RunFailed:
		return writ.Errorf(writ.CodeConflict, "the state of run %s is %s; only a failed run can be resumed", run.ID,
			run.State).
			WithHint("submit its script again with `writ submit`")
	case !now.Before(run.Deadline):
		return writ.Errorf(writ.CodeRunExpired, "the deadline of run %s was %s, and a resume does not move it", run.ID,
			run.Deadline.UTC().Format(time.RFC3339)).
			WithHint("submit its script again, with a later --deadline")
	}
	return nil
}

// resume reopens a failed run. No call is sent before a pass shows that the script continues.
func resume(t *Step, r mail.Resume) error {
	run := t.run
	if err := MayResume(run, t.now); err != nil {
		return err
	}
	if run.Ended.UnixMicro() != r.Seen {
		return writ.Errorf(writ.CodeConflict, "the resume names an earlier end of run %s than its last one", run.ID).
			WithHint("it ended at %s; inspect the run again, then decide", run.Ended.UTC().Format(time.RFC3339))
	}
	if err := curable(t); err != nil {
		return err
	}
	reopened := 0
	for _, c := range t.calls.all {
		if c.State == writ.CallSucceeded || isHandled(run.Handled, c.Seq) {
			continue
		}
		if reopened++; reopened > scripts.MaxOpenCalls {
			return writ.Errorf(writ.CodeConflict, "more than %d calls of run %s have failed; a resume cannot repeat all of them",
				scripts.MaxOpenCalls, run.ID).WithHint("submit its script again with `writ submit`")
		}
		if err := reopen(t, c); err != nil {
			return err
		}
	}
	t.calls.forgetIndex()
	run.FirstEnded, run.FirstEndedBytes, run.FirstPart = 0, 0, 0
	t.resumed = true
	run.Resumes++
	run.Resumed = r.Signed
	run.Reopened, run.Completed, run.Crashes, run.Waiting = true, false, 0, nil
	run.Stop, run.StopState, run.StopBy = nil, "", time.Time{}
	run.Failure, run.Summary, run.Ended = nil, nil, time.Time{}
	run.Decided = Decided(run.Decided, r.Decision)
	run.Why = writ.Reason{Code: writ.ReasonResumed, By: r.Decision.Signer, Text: r.Decision.Reason}
	return t.moveRun(writ.RunRunning)
}

// isHandled reports whether the script has read the error of a call. handled are such calls, ascending.
func isHandled(handled []int, seq int) bool {
	_, found := slices.BinarySearch(handled, seq)
	return found
}

// curable rejects a resume that would end the same way, because the script has read the error of the failed call.
func curable(t *Step) error {
	c := t.calls.at(t.run.Failure.Seq)
	if c == nil {
		return nil
	}
	cause := handledCause(&t.calls, c, t.run.Handled) // earlier versions stored the dependent call instead of the cause
	if cause == nil {
		return nil
	}
	return writ.Errorf(writ.CodeConflict,
		"the run failed because of call %s, whose error the script has read", t.calls.describe(cause.Seq)).
		WithHint("a resume would end the same way; submit the script again with `writ submit`")
}

// reopen plans a call again. A call that was never sent, or whose operation leaves nothing behind, may go to any node.
// Any other call stays with its node and resource, under a new job key. If a late success was stored, reopen applies it
// instead.
func reopen(t *Step, c *journal.Call) error {
	if err := t.move(c, writ.CallPlanned); err != nil {
		return err
	}
	if c.Late != nil {
		return succeed(t, c, c.Late)
	}
	if c.Delivery > 0 {
		c.Attempt++
	}
	if c.Attempt == c.Moved+1 || leavesNothing(c) {
		t.unclaim(c)
	}
	c.Before, c.Spared, c.Delivery, c.Withdrawn = c.Attempt-1, 0, 0, 0
	c.Claimed, c.Ready, c.RetryAt = false, false, time.Time{}
	c.Error, c.Why, c.Change, c.Values = nil, writ.Reason{}, writ.ChangeNone, nil
	c.Queued, c.Started, c.Ended, c.StartBy, c.EndBy = time.Time{}, time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return nil
}

// leavesNothing reports whether a call may be repeated on any node: it has no named resource, and repeating it is safe.
func leavesNothing(c *journal.Call) bool {
	op, ok := catalog.Lookup(c.Operation)
	return ok && !op.Named() && (op.Repeat == catalog.Safe || c.Options.Idempotent)
}

// Decided appends a decision to a list and keeps the last writ.MaxDecisions.
func Decided(list []writ.Decision, d writ.Decision) []writ.Decision {
	list = append(slices.Clone(list), d)
	return list[max(len(list)-writ.MaxDecisions, 0):]
}
