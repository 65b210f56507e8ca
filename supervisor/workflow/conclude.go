package workflow

import (
	"cmp"
	"fmt"
	"slices"

	"writ"
	"writ/identity/envelope"
	"writ/internal/clip"
	"writ/supervisor/journal"
)

// conclude ends the run once its script and all its calls have ended. It ends a stopped run once all its calls have
// ended, or at StopBy.
func (t *writer) conclude() error {
	if t.run.State.Ended() {
		return nil
	}
	open := t.calls.anyOpen()
	switch {
	case t.run.Stop != nil && (!open || !t.now.Before(t.run.StopBy)):
		return t.end(t.run.StopState)
	case t.run.Stop == nil && t.run.Completed && !open:
		if c := unhandled(&t.calls, t.run.Handled); c != nil {
			t.run.Failure = t.calls.withRootCause(t.run.Handled, writ.Failure{Error: *c.Error, Position: c.Position, Seq: c.Seq})
			return t.end(writ.RunFailed)
		}
		return t.end(writ.RunSucceeded)
	}
	return nil
}

// end moves the run to its last state and signs its summary.
func (t *writer) end(state writ.RunState) error {
	run := t.run
	for _, c := range t.calls.all { // a stopped run may have open calls whose nodes did not report in time
		if c.State.Ended() {
			continue
		}
		if err := t.fail(c, stoppedState(t.run), run.Stop); err != nil {
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
		next, err := t.tx.NextOf(run.Project, run.Deployment)
		if err != nil {
			return err
		}
		if next != "" {
			t.out.Runs = append(t.out.Runs, next)
		}
	}
	results, err := t.tx.ResultsDigest(run.ID, t.calls.all)
	if err != nil {
		return err
	}
	run.Summary, err = envelope.Sign(envelope.Summary, t.Key, writ.Summary{
		Run: run.ID, Datacenter: t.Datacenter, Payload: run.Payload, State: state, Failure: signedFailure(run.Failure),
		Output: run.Output, Calls: len(t.calls.all), Results: results, Ended: t.now.UnixMilli(),
	})
	return err
}

// signedFailure returns a failure for a signed summary: without Handled, because earlier clients refuse a summary with
// unknown fields.
func signedFailure(f *writ.Failure) *writ.Failure {
	if f == nil || !f.Handled {
		return f
	}
	signed := *f
	signed.Handled = false
	return &signed
}

// stoppedState returns the state of calls that end with their run.
func stoppedState(run *journal.Run) writ.CallState {
	if run.StopState == writ.RunExpired {
		return writ.CallExpired
	}
	return writ.CallCancelled
}

// maxCause limits the error text that a call copies from a failed need, in bytes: a thousand calls may share one need.
const maxCause = 512

// unmet returns the error of a call whose need failed. It names the first cause with its hint, because the error of the
// run is often all that a person sees.
func unmet(run *journal.Run, calls *callList, need *journal.Call) *writ.Error {
	cause := firstCause(calls.all, need)
	if cause.Error == nil {
		return writ.Errorf(writ.CodeDependencyFailed, "call %s did not succeed", calls.describe(cause.Seq)).
			WithHint("see why with `writ run show %s`", run.ID)
	}
	err := writ.Errorf(writ.CodeDependencyFailed, "call %s did not succeed: %s: %s", calls.describe(cause.Seq),
		cause.Error.Code, clip.Text(cause.Error.Message, maxCause)).
		WithHint("%s", cmp.Or(cause.Error.Hint, fmt.Sprintf("see why with `writ run show %s`", run.ID)))
	err.Node = cause.Error.Node
	return err
}

// firstCause returns the call whose failure caused the failure of c, directly or through others.
func firstCause(calls []*journal.Call, c *journal.Call) *journal.Call {
	for c.Error != nil && c.Error.Code == writ.CodeDependencyFailed {
		i := slices.IndexFunc(c.After,
			func(seq int) bool { return calls[seq-1].State.Ended() && calls[seq-1].State != writ.CallSucceeded })
		if i < 0 {
			break
		}
		c = calls[c.After[i]-1]
	}
	return c
}

// unhandled returns the call that fails the run: the first failed call whose error the script did not read. It prefers
// calls that did not fail because of another call.
func unhandled(calls *callList, handled []int) *journal.Call {
	var follower *journal.Call
	for _, c := range calls.all {
		if c.State == writ.CallSucceeded || slices.Contains(handled, c.Seq) {
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

// handledCause returns the first cause of a failed call if the script has read its error, else nil.
func handledCause(calls *callList, failed *journal.Call, handled []int) *journal.Call {
	if cause := firstCause(calls.all, failed); slices.Contains(handled, cause.Seq) {
		return cause
	}
	return nil
}

// withRootCause returns the failure of a run with the code, node and number of the call that is its first cause,
// because failures are counted and found by these. The position in the script is not changed.
func (l *callList) withRootCause(handled []int, f writ.Failure) *writ.Failure {
	needs := l.at(f.Seq)
	f.Handled = needs != nil && handledCause(l, needs, handled) != nil
	if needs != nil && needs.Error != nil {
		f.Node = needs.Error.Node // a pass does not return the node
	}
	if needs == nil || f.Code != writ.CodeDependencyFailed {
		return &f
	}
	if cause := firstCause(l.all, needs); cause != needs && cause.Error != nil {
		f.Code, f.Hint, f.Node, f.Seq = cause.Error.Code, cause.Error.Hint, cause.Error.Node, cause.Seq
		f.Message = fmt.Sprintf("%s needs %s, which did not succeed: %s", describe(needs), describe(cause),
			clip.Text(cause.Error.Message, maxCause))
	}
	return &f
}
