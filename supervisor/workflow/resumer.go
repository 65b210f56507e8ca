package workflow

import (
	"slices"
	"time"

	"writ"
	"writ/sal/catalog"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
)

// resumer continues a failed run.
type resumer struct{ *Step }

// MayResume says why a run cannot be resumed, nil if it can as far as itself is concerned.
func MayResume(run *journal.Run, now time.Time) error {
	switch {
	case !run.State.Ended():
		return writ.Errorf(writ.CodeConflict, "the state of run %s is %s", run.ID, run.State).WithHint("`writ run watch %s` shows it", run.ID)
	case run.State != writ.RunFailed:
		return writ.Errorf(writ.CodeConflict, "the state of run %s is %s; only a failed run can be resumed", run.ID, run.State).
			WithHint("hand its script in again with `writ submit`")
	case !now.Before(run.Deadline):
		return writ.Errorf(writ.CodeRunExpired, "the deadline of run %s was %s, and a resume does not move it", run.ID, run.Deadline.UTC().Format(time.RFC3339)).
			WithHint("hand its script in again, with a later --deadline")
	}
	return nil
}

// resume opens a failed run again. Nothing is sent before a pass has shown that the script goes on.
func (t resumer) resume(r mail.Resume) error {
	run := t.run
	if err := MayResume(run, t.now); err != nil {
		return err
	}
	if run.Ended.UnixMicro() != r.Seen {
		return writ.Errorf(writ.CodeConflict, "the resume was signed for another end of run %s than its last one", run.ID).
			WithHint("it ended at %s; look at it again, then decide", run.Ended.UTC().Format(time.RFC3339))
	}
	if err := t.curable(); err != nil {
		return err
	}
	for _, c := range t.calls {
		if c.State == writ.CallSucceeded || slices.Contains(run.Handled, c.Seq) {
			continue
		}
		if err := t.reopen(c); err != nil {
			return err
		}
	}
	t.resumed = true
	run.Resumes++
	run.Resumed = r.Signed
	run.Reopened, run.Completed, run.Crashes, run.Waiting = true, false, 0, nil
	run.Stop, run.StopState, run.StopBy = nil, "", time.Time{}
	run.Failure, run.Summary, run.Ended = nil, nil, time.Time{}
	run.Decided = Decided(run.Decided, r.Decision)
	run.Why = writ.Reason{Code: writ.ReasonResumed, By: r.Decision.Signer, Text: r.Decision.Reason}
	return ender(t).moveRun(writ.RunRunning)
}

// curable refuses a resume that could only come to the same end: the script has seen the error of the call that failed the run, and what it has seen stays.
func (t resumer) curable() error {
	c := t.call(t.run.Failure.Seq)
	if c == nil {
		return nil
	}
	cause := ender(t).handled(c) // runs that ended under an earlier version name the call that needed it
	if cause == nil {
		return nil
	}
	return writ.Errorf(writ.CodeConflict, "the run failed because call %s did, whose error the script has read and gone on", t.describeSeq(cause.Seq)).
		WithHint("a resume would end the same way; hand the script in again with `writ submit`")
}

// handled returns the call because of which another one failed, if the script has read its error, otherwise nil.
func (t ender) handled(failed *journal.Call) *journal.Call {
	if cause := firstCause(t.calls, failed); slices.Contains(t.run.Handled, cause.Seq) {
		return cause
	}
	return nil
}

// firstCause follows a call that failed because of others to the one that failed by itself.
func firstCause(calls []*journal.Call, c *journal.Call) *journal.Call {
	for c.Error != nil && c.Error.Code == writ.CodeDependencyFailed {
		i := slices.IndexFunc(c.After, func(seq int) bool { return calls[seq-1].State.Ended() && calls[seq-1].State != writ.CallSucceeded })
		if i < 0 {
			break
		}
		c = calls[c.After[i]-1]
	}
	return c
}

// reopen plans a call again. One that was never sent or leaves nothing may go anywhere. Any other stays with the node and the thing that it may have
// begun to make, and gets a new key; if that node was removed, lose decides what becomes of it. A success that was told when nobody waited for it any
// more is taken.
func (t resumer) reopen(c *journal.Call) error {
	if err := t.move(c, writ.CallPlanned); err != nil {
		return err
	}
	if c.Late != nil {
		return receiver(t).take(c, c.Late)
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

// leavesNothing reports whether a call may be done again anywhere, wherever it was done before.
func leavesNothing(c *journal.Call) bool {
	op, ok := catalog.Lookup(c.Operation)
	return ok && !op.Named() && (op.Repeat == catalog.Safe || c.Options.Idempotent)
}

// belated takes the result of an attempt before the last resume. A success is what the call wanted: if its new attempt was not sent yet, it needs
// none. Otherwise it tells what became of the resource.
func (t receiver) belated(c *journal.Call, a mail.Arrival) error {
	a.Result = t.validateResult(c, a.Result)
	t.out.Freed[a.Node] = true
	if a.Result.Error != nil || a.Node != c.Node {
		return nil
	}
	t.applied = append(t.applied, appliedResult{a, c, true})
	if c.State == writ.CallPlanned && c.Delivery == 0 {
		c.Claimed = true
		return t.take(c, &a.Result)
	}
	return nil
}

// stopGivenUp tells a node that works on a job which was given up to leave it: the run has ended, or was resumed since, or the call has ended
// without success, and the script goes on.
func (t receiver) stopGivenUp(a mail.Active) {
	c := t.call(a.Key.Seq)
	switch {
	case t.run.State.Ended():
		t.out.Stops.Cancels[a.Node] = t.run.Resumes
	case c != nil && a.Key.Attempt <= c.Before && t.run.Resumes > 0:
		t.out.Stops.Cancels[a.Node] = t.run.Resumes - 1
	case c != nil && a.Key.Attempt == c.Attempt && c.State.Ended() && c.State != writ.CallSucceeded:
		t.out.Stops.GivenUp[a.Node] = append(t.out.Stops.GivenUp[a.Node], a.Key)
	}
}
