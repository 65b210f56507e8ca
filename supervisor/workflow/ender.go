package workflow

import (
	"cmp"
	"fmt"
	"slices"

	"writ"
	"writ/identity/envelope"
	"writ/internal/clip"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
)

// ender ends calls and the run.
type ender struct{ *Step }

// conclude ends the run if it was stopped and its calls have ended or its stop time is over, or if its script and all
// calls have ended.
func (t ender) conclude(tx *journal.Tx) error {
	if t.run.State.Ended() {
		return nil
	}
	open := slices.ContainsFunc(t.calls, func(c *journal.Call) bool { return !c.State.Ended() })
	switch {
	case t.run.Stop != nil && (!open || !t.now.Before(t.run.StopBy)):
		return t.end(tx, t.run.StopState)
	case t.run.Stop == nil && t.run.Completed && !open:
		if c := t.unhandled(); c != nil {
			t.run.Failure = t.blame(writ.Failure{Error: *c.Error, Position: c.Position, Seq: c.Seq})
			return t.end(tx, writ.RunFailed)
		}
		return t.end(tx, writ.RunSucceeded)
	}
	return nil
}

// unhandled returns the call that fails the run: the first failed call whose error the script did not read. Calls that
// only lack a dependency come last.
func (t ender) unhandled() *journal.Call {
	var follower *journal.Call
	for _, c := range t.calls {
		if c.State == writ.CallSucceeded || slices.Contains(t.run.Handled, c.Seq) {
			continue
		}
		if c.Error.Code != writ.CodeDependencyFailed {
			return c
		}
		if follower == nil {
			follower = c
		}
	}
	return follower
}

// end moves the run to its last state and signs its summary.
func (t ender) end(tx *journal.Tx, state writ.RunState) error {
	run := t.run
	for _, c := range t.calls { // a stopped run may have open calls whose nodes did not report in time
		if c.State.Ended() {
			continue
		}
		if err := t.fail(c, t.stoppedCall(), run.Stop); err != nil {
			return err
		}
	}
	if state != writ.RunSucceeded && run.Failure == nil {
		run.Failure = &writ.Failure{Error: *run.Stop}
	}
	run.Ended, run.Why, run.Waiting = t.now, writ.Reason{}, nil
	if state != writ.RunSucceeded {
		run.Output = nil
	}
	if err := t.moveRun(state); err != nil {
		return err
	}
	if run.Deployment != "" {
		next, err := tx.NextOf(run.Project, run.Deployment)
		if err != nil {
			return err
		}
		if next != "" {
			t.out.Runs = append(t.out.Runs, next)
		}
	}
	results, err := tx.ResultsDigest(run.ID, t.calls)
	if err != nil {
		return err
	}
	run.Summary, err = envelope.Sign(envelope.Summary, t.Key, writ.Summary{
		Run: run.ID, Datacenter: t.Datacenter, Payload: run.Payload, State: state, Failure: signedFailure(run.Failure),
		Output: run.Output, Calls: len(t.calls), Results: results, Ended: t.now.UnixMilli(),
	})
	return err
}

// signedFailure returns a failure in the form of signed summaries. Earlier clients refuse a summary with unknown
// fields.
func signedFailure(f *writ.Failure) *writ.Failure {
	if f == nil || !f.Handled {
		return f
	}
	signed := *f
	signed.Handled = false
	return &signed
}

// handled returns the first cause of a failed call if the script has read its error, else nil.
func (t ender) handled(failed *journal.Call) *journal.Call {
	if cause := firstCause(t.calls, failed); slices.Contains(t.run.Handled, cause.Seq) {
		return cause
	}
	return nil
}

// cascade fails the planned calls that need a failed call. If the run is stopped, it ends all planned calls.
func (t ender) cascade() error {
	for _, c := range t.calls {
		if c.State != writ.CallPlanned {
			continue
		}
		if t.run.Stop != nil {
			if err := t.fail(c, t.stoppedCall(), t.run.Stop); err != nil {
				return err
			}
			continue
		}
		for _, seq := range c.After {
			need := t.call(seq)
			if need == nil || !need.State.Ended() || need.State == writ.CallSucceeded {
				continue
			}
			if err := t.fail(c, writ.CallFailed, t.unmet(need)); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// unmet returns the error of a call whose need failed. It names the first cause with its hint, because the error of the
// run is often all that a person sees.
func (t ender) unmet(need *journal.Call) *writ.Error {
	cause := firstCause(t.calls, need)
	if cause.Error == nil {
		return writ.Errorf(writ.CodeDependencyFailed, "call %s did not succeed", t.describeSeq(cause.Seq)).
			WithHint("see why with `writ run show %s`", t.run.ID)
	}
	err := writ.Errorf(writ.CodeDependencyFailed, "call %s did not succeed: %s: %s", t.describeSeq(cause.Seq),
		cause.Error.Code, clip.Text(cause.Error.Message, maxCause)).
		WithHint("%s", cmp.Or(cause.Error.Hint, fmt.Sprintf("see why with `writ run show %s`", t.run.ID)))
	err.Node = cause.Error.Node
	return err
}

// blame returns the failure of a run with the code and number of the call that failed first, because failures are
// counted and found by these. The position in the script stays.
func (t ender) blame(f writ.Failure) *writ.Failure {
	needs := t.call(f.Seq)
	f.Handled = needs != nil && t.handled(needs) != nil
	if needs == nil || f.Code != writ.CodeDependencyFailed {
		return &f
	}
	if cause := firstCause(t.calls, needs); cause != needs && cause.Error != nil {
		f.Code, f.Hint, f.Node, f.Seq = cause.Error.Code, cause.Error.Hint, cause.Error.Node, cause.Seq
		f.Message = fmt.Sprintf("%s needs %s, which did not succeed: %s", describe(needs), describe(cause),
			clip.Text(cause.Error.Message, maxCause))
	}
	return &f
}

// moveRun changes the state of the run.
func (t ender) moveRun(to writ.RunState) error {
	t.runDirty, t.runMoved = true, true
	return t.run.Move(to)
}

// halt stops the run: no more calls are sent, queued jobs are withdrawn, and nodes stop started jobs. If the run is
// already ending, halt can only make the end earlier.
func (t ender) halt(why mail.Stop) {
	switch {
	case t.run.State.Ended():
		return
	case t.run.Stop == nil:
		t.run.Stop, t.run.StopState, t.run.StopBy = why.Err, why.State, why.By
	case why.By.Before(t.run.StopBy):
		t.run.StopBy = why.By
	default:
		return
	}
	t.run.Why = writ.Reason{Code: writ.ReasonEnding, Error: withoutHint(why.Err)}
	t.runDirty, t.runMoved = true, true
	for _, c := range t.calls {
		if c.State.Sent() {
			t.callBack(c)
		}
	}
}

// callBack withdraws a sent call from the queue and requests its node to stop it.
func (t ender) callBack(c *journal.Call) {
	t.out.Stops.Cancels[c.Node] = t.run.Resumes
	t.out.Stops.Withdraw[c.Node] = append(t.out.Stops.Withdraw[c.Node], mail.DeliveriesOf(c)...)
}

// stoppedCall returns the state of calls that end with their run.
func (t ender) stoppedCall() writ.CallState {
	if t.run.StopState == writ.RunExpired {
		return writ.CallExpired
	}
	return writ.CallCancelled
}
