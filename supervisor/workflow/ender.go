package workflow

import (
	"slices"

	"writ"
	"writ/identity/envelope"
	"writ/supervisor/journal"
)

// ender ends calls and the run.
type ender struct{ *Step }

// conclude ends the run if it was stopped, or if its script and all calls have ended.
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

// unhandled returns the call that fails the run: the first failed call whose error the script did not read. Calls that only
// lack a dependency come last.
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
		Run: run.ID, Datacenter: t.Datacenter, Payload: run.Payload, State: state, Failure: signedFailure(run.Failure), Output: run.Output,
		Calls: len(t.calls), Results: results, Ended: t.now.UnixMilli(),
	})
	return err
}

// signedFailure returns a failure as summaries have it. Earlier clients refuse a summary with other fields.
func signedFailure(f *writ.Failure) *writ.Failure {
	if f == nil || !f.Handled {
		return f
	}
	signed := *f
	signed.Handled = false
	return &signed
}
