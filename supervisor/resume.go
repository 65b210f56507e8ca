package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"writ"
	"writ/identity"
	"writ/sal/catalog"
	"writ/supervisor/journal"
	"writ/supervisor/link"
	"writ/supervisor/mail"
)

// A resume lets a failed run go on where it failed: what succeeded stays done, errors that the script has seen stay seen, and all other
// calls that did not succeed get another attempt. The deadline stays: the signer bounded the run from its acceptance on, nodes hold a run that
// destroys to it themselves, and an operator cannot give what the signer did not.

// resume carries out a resume statement. The signer of the run, not only that of the statement, must still have the right to it.
func (s *Supervisor) resume(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error) {
	id := writ.RunID(v.Statement.ID())
	answer := link.StatementAnswer{Subject: v.Statement.Subject, Done: goesOn(id)}
	err := s.resumeRun(ctx, v, id, v.Statement.Seen, func(tx *journal.Tx) error { return s.record(tx, v, &answer) })
	if err != nil {
		return link.StatementAnswer{}, err
	}
	return answer, nil
}

func goesOn(id writ.RunID) string { return fmt.Sprintf("run %s goes on", id) }

// resumeRun resumes a run that the signer of a statement saw. also is written in the same transaction.
func (s *Supervisor) resumeRun(ctx context.Context, v *identity.VerifiedStatement, id writ.RunID, seen identity.Seen, also func(*journal.Tx) error) error {
	for range rosterAttempts {
		if err := s.resumeBy(ctx, s.verifier(), v, id, seen, also); !errors.Is(err, errRosterChanged) {
			return err
		}
	}
	return s.unknownRoster()
}

// resumeBy resumes a run whose rights one roster decides.
func (s *Supervisor) resumeBy(
	ctx context.Context, verifier *identity.Verifier, v *identity.VerifiedStatement, id writ.RunID, seen identity.Seen, also func(*journal.Tx) error,
) error {
	run, signed, err := s.submission(ctx, id)
	if err == nil && run == nil {
		err = writ.Errorf(writ.CodeNotFound, "there is no run %s in this datacenter", id)
	}
	if err == nil {
		err = sameRun(run.Run, seen)
	}
	if err == nil {
		err = mayResume(run, s.Now())
	}
	if err == nil {
		err = s.reverify(ctx, run, signed)
	}
	if err == nil {
		_, err = verifier.SubmissionAt(signed, run.Accepted)
	}
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	s.steps.Post(id, mail.Mail{
		Resume: &mail.Resume{Decision: decisionOfRun(v, s.Now()), Seen: seen.Revision, Signed: v.Statement.Created},
		Also: func(tx *journal.Tx) error {
			if err := stillNewest(tx, run); err != nil {
				return err
			}
			newest, err := tx.RosterVersion()
			if err != nil {
				return err
			}
			if newest != verifier.Roster.Version { // who adopted it did not see this run among the open ones
				return errRosterChanged
			}
			if err := tx.SetChecked(newest, id); err != nil {
				return err
			}
			if also == nil {
				return nil
			}
			return also(tx)
		},
		Done: done,
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// submission returns a run with its payload as it was signed, nil if there is none.
func (s *Supervisor) submission(ctx context.Context, id writ.RunID) (run *journal.Run, signed []byte, err error) {
	err = s.Journal.Read(ctx, func(tx *journal.Tx) error {
		if run, err = tx.Run(id); err != nil || run == nil {
			return err
		}
		signed, err = tx.Payload(run.Payload)
		return err
	})
	return run, signed, err
}

// mayResume says why a run cannot be resumed, nil if it can as far as itself is concerned.
func mayResume(run *journal.Run, now time.Time) error {
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

// stillNewest refuses a run whose deployment has moved on: it would undo what came after it.
func stillNewest(tx *journal.Tx, run *journal.Run) error {
	if run.Deployment == "" {
		return nil
	}
	have, err := tx.Revision(run.Project, run.Deployment)
	if err == nil && have != run.Revision {
		err = writ.Errorf(writ.CodeConflict, "the deployment %s is at revision %d, the run makes revision %d", run.Deployment, have, run.Revision).
			WithHint("`writ plan FILE --deployment %s` shows what the script would change now, and how to sign it again", run.Deployment)
	}
	return err
}

// resume opens a failed run again. Nothing is sent before a pass has shown that the script goes on.
func (t *step) resume(r mail.Resume) error {
	run := t.run
	if err := mayResume(run, t.now); err != nil {
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
	run.Decided = decided(run.Decided, r.Decision)
	run.Why = writ.Reason{Code: writ.ReasonResumed, By: r.Decision.Signer, Text: r.Decision.Reason}
	return t.moveRun(writ.RunRunning)
}

// curable refuses a resume that could only come to the same end: the script has seen the error of the call that failed the run, and what it has seen stays.
func (t *step) curable() error {
	c := t.call(t.run.Failure.Seq)
	if c == nil {
		return nil
	}
	cause := t.handled(c) // runs that ended under an earlier version name the call that needed it
	if cause == nil {
		return nil
	}
	return writ.Errorf(writ.CodeConflict, "the run failed because call %s did, whose error the script has read and gone on", describeSeq(t, cause.Seq)).
		WithHint("a resume would end the same way; hand the script in again with `writ submit`")
}

// handled returns the call because of which another one failed, if the script has read its error, otherwise nil.
func (t *step) handled(failed *journal.Call) *journal.Call {
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
func (t *step) reopen(c *journal.Call) error {
	if err := t.move(c, writ.CallPlanned); err != nil {
		return err
	}
	if c.Late != nil {
		return t.take(c, c.Late)
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
func (t *step) belated(c *journal.Call, a mail.Arrival) error {
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
func (t *step) stopGivenUp(a mail.Active) {
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
