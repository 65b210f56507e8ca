package workflow

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"writ"
	"writ/sal/catalog"
	"writ/supervisor/bound"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
)

// defaultRetries is the number of attempts after the first attempt if a failure is retryable and the script does not
// set the option retries.
const defaultRetries = 5

// Backoff between attempts: it doubles from BackoffFirst to BackoffMost. Jitter shortens each pause by up to half.
const (
	BackoffFirst = time.Second
	BackoffMost  = time.Minute
)

// receiver applies mail to the calls of a step, in memory only.
type receiver struct {
	*Step
	mail mail.Mail
}

// receive applies all mail to the step. A non-nil `why` ends the run.
func (t *receiver) receive(why *mail.Stop) error {
	if why != nil {
		t.halt(*why)
	}
	if err := t.receiveResults(); err != nil {
		return err
	}
	if err := t.receiveStarts(); err != nil {
		return err
	}
	t.receiveProgress()
	if t.mail.StopAgain && t.run.StopsCalls() {
		callBackAll(t.Step)
	}
	for _, key := range t.mail.Overdue {
		if err := t.overdue(key); err != nil {
			return err
		}
	}
	for _, node := range t.lostNow(t.mail.LostNodes) {
		lost := newLoss(t.Step, node)
		if err := lost.apply(); err != nil {
			return err
		}
	}
	if t.mail.Resume != nil {
		if err := resume(t.Step, *t.mail.Resume); err != nil {
			return err
		}
	}
	if t.mail.Stop != nil && !t.tooEarly(*t.mail.Stop) {
		if err := t.stop(*t.mail.Stop); err != nil {
			return err
		}
	}
	return t.receiveWithdrawn()
}

// receiveResults applies the results of sent jobs.
func (t *receiver) receiveResults() error {
	for i, a := range t.mail.Results {
		if !t.genuine[i] {
			t.out.Unasked = append(t.out.Unasked, a)
			continue
		}
		if err := t.answer(a, t.left[i]); err != nil {
			return err
		}
	}
	return nil
}

// receiveStarts records the jobs that their nodes have started.
func (t *receiver) receiveStarts() error {
	for _, a := range t.mail.Started {
		t.stopGivenUp(a)
		c := t.calls.sent(a.Key)
		if c == nil || c.Node != a.Node {
			continue
		}
		if c.Why.LostNode() || c.KeptBack { // the node is back and still works on the call
			c.Why, c.KeptBack = writ.Reason{}, false
			t.touch(c)
		}
		if c.State == writ.CallQueued {
			c.Started = t.now
			if err := t.move(c, writ.CallRunning); err != nil {
				return err
			}
		}
	}
	return nil
}

// receiveProgress records the progress of running jobs.
func (t *receiver) receiveProgress() {
	for _, p := range t.mail.Progress {
		c := t.calls.sent(p.Key)
		why := writ.Reason{Code: writ.ReasonProgress, Text: p.Text}
		if c != nil && c.Node == p.Node && c.State == writ.CallRunning && !c.Why.Equal(why) && !c.Why.LostNode() {
			c.Why = why
			t.touch(c)
		}
	}
}

// stop stops the run for a decision or because its time is over.
func (t *receiver) stop(s mail.Stop) error {
	if t.mail.Done != nil && t.run.State.Ended() {
		return writ.Errorf(writ.CodeConflict, "run %s has already ended: %s", t.run.ID, t.run.State).
			WithHint("`writ run show %s` shows how", t.run.ID)
	}
	if !s.Signed.IsZero() && s.Signed.Before(t.run.Resumed) { // the cancel was delayed on its way
		return writ.Errorf(writ.CodeConflict, "run %s was resumed after the cancel was signed", t.run.ID).
			WithHint("inspect the run again, then decide")
	}
	if s.State == writ.RunExpired {
		addWait(t.Step, s.Err)
		setHoldHint(t.Step, s.Err)
	}
	t.halt(s)
	if d := s.Decision; d != nil {
		t.run.Decided, t.runDirty, t.runMoved = Decided(t.run.Decided, *d), true, true
	}
	return nil
}

// tooEarly reports whether an expiry comes before its time. Package watch reads the times from unverified columns of
// the database, so they are checked again here.
func (t *receiver) tooEarly(s mail.Stop) bool {
	return s.State == writ.RunExpired && t.now.Before(t.run.Due())
}

// answer applies the result of a call. A late success, for a call that was cancelled or given up, still changes its
// resource. left is the leftover resource of an earlier call that blocked this call, or nil.
func (t *receiver) answer(a mail.Arrival, left *leftover) error {
	c := t.calls.at(a.Result.Seq)
	switch {
	case c == nil || c.State == writ.CallSucceeded || a.Result.Attempt > c.Attempt:
		return nil // applied before, or for an unknown call or attempt: only acknowledge it
	case a.Result.Attempt < c.Attempt:
		return t.belated(c, a)
	case c.State == writ.CallPlanned:
		return nil
	}
	a.Result = validateResult(t.run, c, a.Result)
	r := a.Result
	t.out.Freed[a.Node] = true
	if !c.State.Sent() {
		if r.Error == nil {
			t.applied = append(t.applied, appliedResult{a, c, true})
			c.Late = &r
			t.touch(c)
		}
		return nil
	}
	t.applied = append(t.applied, appliedResult{a, c, false})
	if r.Error == nil {
		return succeed(t.Step, c, &r)
	}
	report(c, &r)
	noteFailureKnown(c, r.Error.Code)
	if t.run.Stop != nil && r.Error.Code == writ.CodeRunCancelled {
		return t.fail(c, stoppedState(t.run), r.Error)
	}
	if err := t.move(c, writ.CallFailed); err != nil {
		return err
	}
	c.Ready = false
	// the node did not start the call, so the attempt does not count as a retry
	if r.Error.Code == writ.CodeNodeStore || r.Error.Code == writ.CodeResourceBusy && t.behindStuck(c) {
		c.Spared++
	}
	if t.run.Stop == nil && left != nil && c.UID != left.uid {
		return t.takeOver(c, left)
	}
	if t.run.Stop == nil && r.Error.Retryable() && c.Attempt-c.Before-c.Spared <= retries(c) {
		return t.tryAgain(c)
	}
	return nil
}

// behindStuck reports whether a call cannot start because drivers of its node ignore their deadlines. Either such a
// driver works on the same resource, or such drivers take all slots.
func (t *receiver) behindStuck(c *journal.Call) bool {
	n, _ := t.Nodes.Get(c.Node)
	return len(n.Stuck) >= max(n.Slots, 1) || slices.ContainsFunc(n.Stuck, func(w writ.Stuck) bool {
		op, ok := catalog.Lookup(w.Operation)
		return ok && writ.ResourceID{Project: w.Project, Kind: op.Kind, Name: w.Name} == c.Resource()
	})
}

// noteFailureKnown records that the failure of the current attempt is known. KnownFailures grows only if the failures
// of all earlier attempts are known, too, or if the node has checked the earlier attempts (OUTCOME_UNKNOWN,
// PROGRAM_FAILED). A refusal that the node could not store does not count, because the attempt has not ended on the
// node.
func noteFailureKnown(c *journal.Call, code writ.Code) {
	checked := code == writ.CodeOutcomeUnknown || code == writ.CodeProgramFailed
	if c.KnownFailures == c.Attempt-1 && code != writ.CodeNodeStore || checked {
		c.KnownFailures = c.Attempt
	}
}

// succeed ends a call with the success that its node reported.
func succeed(t *Step, c *journal.Call, r *writ.Result) error {
	report(c, r)
	c.Values, c.Late = completeValues(c, r.Values), nil
	t.run.Bytes += bound.Size(c.Values)
	return t.move(c, writ.CallSucceeded)
}

// report copies the facts of a result to its call.
func report(c *journal.Call, r *writ.Result) {
	c.Driver, c.Simulated, c.Change = r.Driver, r.Simulated, r.Change
	c.Started, c.Ended = time.UnixMilli(r.Started).UTC(), time.UnixMilli(r.Ended).UTC()
	c.Error, c.Why = r.Error, writ.Reason{}
}

// retries returns the number of further attempts after a retryable failure.
func retries(c *journal.Call) int {
	if c.Options.Retries != nil {
		return *c.Options.Retries
	}
	return defaultRetries
}

// tryAgain plans the next attempt of a call after a retryable failure.
func (t *receiver) tryAgain(c *journal.Call) error {
	c.RetryAt = t.now.Add(t.Backoff(max(c.Attempt-c.Before-c.Spared, 1)))
	c.Attempt++
	c.Delivery, c.Withdrawn = 0, 0
	c.Why = writ.Reason{Code: writ.ReasonRetry, Until: c.RetryAt, Error: withoutHint(c.Error)}
	return t.move(c, writ.CallPlanned)
}

// withoutHint returns a copy of an error with its code and message only, for a reason.
func withoutHint(err *writ.Error) *writ.Error {
	return &writ.Error{Code: err.Code, Message: err.Message}
}

// Backoff returns the default pause after the failure of an attempt.
func Backoff(attempt int) time.Duration {
	d := BackoffMost
	if attempt < 7 { // the pauses of later attempts would exceed BackoffMost
		d = min(BackoffFirst<<(attempt-1), BackoffMost)
	}
	return d/2 + rand.N(d/2+1)
}

// overdue fails a call whose node did not report in time.
func (t *receiver) overdue(key writ.JobKey) error {
	c := t.calls.sent(key)
	if c == nil {
		return nil
	}
	t.out.Freed[c.Node] = true
	err := writ.Errorf(writ.CodeDeadlineExceeded, "%s did not end by %s on %s", c.Operation, c.EndBy.Format(time.TimeOnly),
		c.NodeName).
		WithHint("give it more time with the option timeout, or inspect the node")
	if n, _ := t.Nodes.Get(c.Node); slices.ContainsFunc(n.Stuck, func(w writ.Stuck) bool { return w.JobKey == key }) {
		err.Message += ", and its driver does not stop"
		err.Hint = fmt.Sprintf("other work on the %s waits until the driver has ended; `writ node show %s` shows it",
			c.Resource(), c.NodeName)
	}
	return t.fail(c, writ.CallExpired, err)
}

// belated applies the result of an earlier attempt, such as an attempt before the last resume. A success completes the
// call if its new attempt was not sent yet. Otherwise the success only changes the resource. Failures have no effect.
func (t *receiver) belated(c *journal.Call, a mail.Arrival) error {
	a.Result = validateResult(t.run, c, a.Result)
	t.out.Freed[a.Node] = true
	if a.Result.Error != nil || a.Node != c.Node {
		return nil
	}
	t.applied = append(t.applied, appliedResult{a, c, true})
	if c.State == writ.CallPlanned && c.Delivery == 0 {
		c.Claimed = true
		return succeed(t.Step, c, &a.Result)
	}
	return nil
}

// stopGivenUp orders a node to stop a job if the run no longer needs the outcome of the job.
func (t *receiver) stopGivenUp(a mail.Active) {
	switch order, resumes := stopOf(t.run, t.calls.at(a.Key.Seq), a.Key.Attempt); order {
	case stopRun:
		t.out.Stops.Cancels[a.Node] = resumes
	case stopJob:
		t.out.Stops.GivenUp[a.Node] = append(t.out.Stops.GivenUp[a.Node], a.Key)
	}
}
