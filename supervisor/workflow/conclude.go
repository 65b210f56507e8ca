package workflow

import (
	"cmp"
	"context"
	"fmt"

	"writ"
	"writ/identity/envelope"
	"writ/internal/clip"
	"writ/scripts"
	"writ/supervisor/journal"
)

// conclude ends the run once its script and all its calls have ended. It ends a stopped run once all its calls have
// ended, or at StopBy.
func (t *writer) conclude() error {
	if t.run.State.Ended() {
		return nil
	}
	switch {
	case !ends(t.Step):
		return nil
	case t.calls.first > 0 && !t.surveyed():
		t.continues = true // the next step begins with the survey
		t.out.Runs = append(t.out.Runs, t.run.ID)
		return nil
	case t.run.Stop != nil:
		return t.end(t.run.StopState)
	default:
		if c := t.firstFailed(); c != nil {
			t.run.Failure = t.calls.withRootCause(t.run.Handled, writ.Failure{Error: *c.Error, Position: c.Position, Seq: c.Seq})
			return t.end(writ.RunFailed)
		}
		return t.end(writ.RunSucceeded)
	}
}

// ends reports whether the run has reached its end.
func ends(t *Step) bool {
	open := t.calls.anyOpen()
	if t.run.Stop != nil {
		return !open || !t.now.Before(t.run.StopBy)
	}
	return t.run.Completed && !open
}

// survey is the knowledge about the calls that the list of a long run lacks, which the end of the run needs.
type survey struct {
	failed  unhandled // of the first calls
	results *journal.Results
}

// newSurvey reads the first calls of a long run that is about to end. It does so before the transaction of the step,
// because other writers would have to wait.
func newSurvey(ctx context.Context, j *journal.Journal, t *Step) error {
	if t.calls.first == 0 || t.run.State.Ended() || !ends(t) {
		return nil
	}
	s := &survey{failed: unhandled{read: t.run.Handled}}
	err := j.Read(ctx, func(tx *journal.Tx) (err error) {
		if s.results, err = journal.NewResults(tx, t.run.ID); err != nil {
			return err
		}
		err = journal.EachCall(tx, t.run, t.calls.first, func(c *journal.Call) error {
			s.failed.add(c)
			s.results.Add(c)
			return nil
		})
		if err != nil {
			return err
		}
		c := s.failed.with(t.calls.all)
		if c != nil && c.Seq <= t.calls.first {
			t.calls.old[c.Seq] = c
		}
		return fetchCauses(&t.calls, tx, t.run, c, make(map[int]bool))
	})
	if err == nil {
		t.survey = s
	}
	return err
}

// surveyed reports whether the step has a survey that its own results do not change.
func (t *writer) surveyed() bool { return t.survey != nil && !t.early }

// firstFailed returns the call that fails the run, or nil.
func (t *writer) firstFailed() *journal.Call {
	if t.survey != nil {
		return t.survey.failed.with(t.calls.all)
	}
	return unhandled{read: t.run.Handled}.with(t.calls.all)
}

// results returns the digest of all results of the run.
func (t *writer) results() (writ.Digest, error) {
	if t.survey == nil {
		return t.tx.ResultsDigest(t.run.ID, t.calls.all)
	}
	// this step may have added rows
	if err := t.survey.results.Resume(t.tx, t.run.ID, t.calls.first); err != nil {
		return writ.Digest{}, err
	}
	for _, c := range t.calls.all {
		t.survey.results.Add(c)
	}
	return t.survey.results.Digest(), nil
}

// end moves the run to its last state and signs its summary.
func (t *writer) end(state writ.RunState) error {
	run := t.run
	for _, c := range t.calls.live { // a stopped run may have open calls whose nodes did not report in time
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
	results, err := t.results()
	if err != nil {
		return err
	}
	run.Summary, err = envelope.Sign(envelope.Summary, t.Key, writ.Summary{
		Run: run.ID, Datacenter: t.Datacenter, Payload: run.Payload, State: state, Failure: signedFailure(run.Failure),
		Output: run.Output, Calls: countOf(&t.calls), Results: results, Ended: t.now.UnixMilli(),
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

// unmet returns the error of a call whose need failed because of the call `cause`. It names the cause with its hint,
// because the error of the run is often all that a person sees.
func unmet(run *journal.Run, calls *callList, cause *journal.Call) *writ.Error {
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

// causes finds the first causes of failed calls. It remembers them, because thousands of calls may depend on each other.
type causes struct {
	calls *callList
	known map[*journal.Call]*journal.Call // by failed call
}

func newCauses(calls *callList) causes { return causes{calls, make(map[*journal.Call]*journal.Call)} }

// of returns the call whose failure caused the failure of c, directly or through other calls.
func (k causes) of(c *journal.Call) *journal.Call {
	var through []*journal.Call
	cause := c
	for {
		if found, known := k.known[cause]; known {
			cause = found
			break
		}
		if cause.Error == nil || cause.Error.Code != writ.CodeDependencyFailed {
			break
		}
		need := failedNeed(k.calls, cause)
		if need == nil {
			break
		}
		through = append(through, cause)
		cause = need
	}
	for _, c := range through {
		k.known[c] = cause
	}
	return cause
}

// unhandled finds the call that fails the run: the first failed call whose error the script did not read. It prefers
// calls that did not fail because of another call.
type unhandled struct {
	read            []int // see journal.Run.Handled
	found, follower *journal.Call
}

// add adds the next call of the run. It ignores open calls, which a stopped run may have.
func (u *unhandled) add(c *journal.Call) {
	switch {
	case u.found != nil || !c.State.Ended() || c.State == writ.CallSucceeded || isHandled(u.read, c.Seq):
	case c.Error.Code != writ.CodeDependencyFailed:
		u.found = c
	case u.follower == nil:
		u.follower = c
	}
}

// with returns the call that fails the run if these are its last calls, or nil.
func (u unhandled) with(last []*journal.Call) *journal.Call {
	for _, c := range last {
		u.add(c)
	}
	return cmp.Or(u.found, u.follower)
}

// handledCause returns the first cause of a failed call if the script has read its error, else nil.
func handledCause(calls *callList, failed *journal.Call, handled []int) *journal.Call {
	if cause := newCauses(calls).of(failed); isHandled(handled, cause.Seq) {
		return cause
	}
	return nil
}

// withRootCause returns the failure of a run with the code, node, number and position of the call that is its first
// cause. People count and search failures by these fields, and the author has to change the line of that call. The
// position at which the script needed the failed call becomes the first entry of the trace.
func (l *callList) withRootCause(handled []int, f writ.Failure) *writ.Failure {
	needs := l.at(f.Seq)
	f.Handled = needs != nil && handledCause(l, needs, handled) != nil
	if needs != nil && needs.Error != nil {
		f.Node = needs.Error.Node // a pass does not return the node
	}
	if needs == nil {
		return &f
	}
	cause := needs
	if f.Code == writ.CodeDependencyFailed {
		cause = newCauses(l).of(needs)
	}
	if cause != needs && cause.Error != nil {
		f.Code, f.Hint, f.Node, f.Seq = cause.Error.Code, cause.Error.Hint, cause.Error.Node, cause.Seq
		f.Message = fmt.Sprintf("%s needs %s, which did not succeed: %s", describe(needs), describe(cause),
			clip.Text(cause.Error.Message, maxCause))
	}
	if at := l.at(f.Seq).Position; at != f.Position {
		if f.Position != "" {
			f.Trace = append([]string{f.Position}, f.Trace[:min(len(f.Trace), scripts.MaxTrace-1)]...)
		}
		f.Position = at
	}
	return &f
}
