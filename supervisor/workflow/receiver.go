package workflow

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"writ"
	"writ/internal/clip"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/supervisor/bound"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
)

// defaultRetries is the number of attempts after the first one if a failure is retryable and the script does not set
// the option retries.
const defaultRetries = 5

// Backoff between attempts: it doubles from BackoffFirst to BackoffMost. Jitter shortens each pause by up to half.
const (
	BackoffFirst = time.Second
	BackoffMost  = time.Minute
)

// receiver applies the mail of a step to its calls.
type receiver struct{ *Step }

// receive applies mail to the step, in memory only. A non-nil why ends the run.
func (t receiver) receive(m mail.Mail, why *mail.Stop) error {
	if why != nil {
		ender(t).halt(*why)
	}
	for i, a := range m.Results {
		if !t.genuine[i] {
			t.out.Unasked = append(t.out.Unasked, a)
			continue
		}
		if err := t.answer(a, t.left[i]); err != nil {
			return err
		}
	}
	for _, a := range m.Started {
		t.stopGivenUp(a)
		c := t.open(a.Key)
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
	for _, p := range m.Progress {
		c := t.open(p.Key)
		why := writ.Reason{Code: writ.ReasonProgress, Text: p.Text}
		if c != nil && c.Node == p.Node && c.State == writ.CallRunning && !c.Why.Equal(why) && !c.Why.LostNode() {
			c.Why = why
			t.touch(c)
		}
	}
	for _, key := range m.Overdue {
		if err := t.overdue(key); err != nil {
			return err
		}
	}
	for _, node := range (losses(t)).lostNow(m.LostNodes) {
		if err := (losses(t)).lose(node); err != nil {
			return err
		}
	}
	if m.Resume != nil {
		if err := (resumer(t)).resume(*m.Resume); err != nil {
			return err
		}
	}
	if m.Stop != nil && !t.tooEarly(*m.Stop) {
		if m.Done != nil && t.run.State.Ended() {
			return writ.Errorf(writ.CodeConflict, "run %s has already ended: %s", t.run.ID, t.run.State).
				WithHint("`writ run show %s` shows how", t.run.ID)
		}
		if !m.Stop.Signed.IsZero() && m.Stop.Signed.Before(t.run.Resumed) { // the cancel was delayed on its way
			return writ.Errorf(writ.CodeConflict, "run %s was resumed after the cancel was signed", t.run.ID).
				WithHint("look at it again, then decide")
		}
		if m.Stop.State == writ.RunExpired {
			waiter(t).sayHeld(m.Stop.Err)
		}
		ender(t).halt(*m.Stop)
		if d := m.Stop.Decision; d != nil {
			t.run.Decided, t.runDirty, t.runMoved = Decided(t.run.Decided, *d), true, true
		}
	}
	return losses(t).receiveWithdrawn(m)
}

// tooEarly reports whether an expiry comes before its time. The watch reads the times from the database, so they are
// checked again here.
func (t receiver) tooEarly(s mail.Stop) bool {
	due := t.run.Deadline
	if !t.run.StopBy.IsZero() {
		due = t.run.StopBy
	}
	return s.State == writ.RunExpired && t.now.Before(due)
}

// answer applies the result of a call. A late success, for a call that was cancelled or given up, still changes its
// resource. left is an earlier resource of ours that was in the way, else nil.
func (t receiver) answer(a mail.Arrival, left *leftover) error {
	c := t.call(a.Result.Seq)
	switch {
	case c == nil || c.State == writ.CallSucceeded || a.Result.Attempt > c.Attempt:
		return nil // applied before: only acknowledge it
	case a.Result.Attempt < c.Attempt:
		return t.belated(c, a)
	case c.State == writ.CallPlanned:
		return nil
	}
	a.Result = t.validateResult(c, a.Result)
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
		return t.take(c, &r)
	}
	report(c, &r)
	noteFailureKnown(c, r.Error.Code)
	if t.run.Stop != nil && r.Error.Code == writ.CodeRunCancelled {
		return t.fail(c, ender(t).stoppedCall(), r.Error)
	}
	if err := t.move(c, writ.CallFailed); err != nil {
		return err
	}
	c.Ready = false
	// the node tried nothing, so the attempt does not count as a retry
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

// behindStuck reports whether a call cannot start because drivers of its node ignore their deadlines: a driver on the
// same resource, or drivers in all slots.
func (t receiver) behindStuck(c *journal.Call) bool {
	n, _ := t.Nodes.Get(c.Node)
	return len(n.Stuck) >= max(n.Slots, 1) || slices.ContainsFunc(n.Stuck, func(w writ.Stuck) bool {
		op, ok := catalog.Lookup(w.Operation)
		return ok && writ.ResourceID{Project: w.Project, Kind: op.Kind, Name: w.Name} == c.Resource()
	})
}

// noteFailureKnown records that the failure of the current attempt is known. KnownFailures grows only if all earlier
// attempts are known as well, or if the node has checked them (OUTCOME_UNKNOWN). A refusal that the node could not
// store does not end its attempt there.
func noteFailureKnown(c *journal.Call, code writ.Code) {
	if c.KnownFailures == c.Attempt-1 && code != writ.CodeNodeStore || code == writ.CodeOutcomeUnknown {
		c.KnownFailures = c.Attempt
	}
}

// take ends a call with a success.
func (t receiver) take(c *journal.Call, r *writ.Result) error {
	report(c, r)
	c.Values, c.Late = t.completeValues(c, r.Values), nil
	t.run.Bytes += bound.Size(c.Values)
	return t.move(c, writ.CallSucceeded)
}

// report copies the facts of a result to its call.
func report(c *journal.Call, r *writ.Result) {
	c.Driver, c.Simulated, c.Change = r.Driver, r.Simulated, r.Change
	c.Started, c.Ended = time.UnixMilli(r.Started).UTC(), time.UnixMilli(r.Ended).UTC()
	c.Error, c.Why = r.Error, writ.Reason{}
}

// completeValues adds the values that the supervisor supplies: the name of the node.
func (t receiver) completeValues(c *journal.Call, values map[string]any) map[string]any {
	op, ok := catalog.Lookup(c.Operation)
	if !ok || values == nil {
		return values
	}
	if _, has := op.Result.Field("node"); has && c.NodeName != "" {
		values["node"] = c.NodeName
	}
	return values
}

// retries returns the number of further attempts after a retryable failure.
func retries(c *journal.Call) int {
	if c.Options.Retries != nil {
		return *c.Options.Retries
	}
	return defaultRetries
}

// tryAgain plans the next attempt of a call after a retryable failure.
func (t receiver) tryAgain(c *journal.Call) error {
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
	if attempt < 7 { // later ones would exceed BackoffMost
		d = min(BackoffFirst<<(attempt-1), BackoffMost)
	}
	return d/2 + rand.N(d/2+1)
}

// overdue fails a call whose node did not report in time.
func (t receiver) overdue(key writ.JobKey) error {
	c := t.open(key)
	if c == nil {
		return nil
	}
	t.out.Freed[c.Node] = true
	err := writ.Errorf(writ.CodeDeadlineExceeded, "%s did not end by %s on %s", c.Operation, c.EndBy.Format(time.TimeOnly),
		c.NodeName).
		WithHint("give it more time with the option timeout, or look at the node")
	if n, _ := t.Nodes.Get(c.Node); slices.ContainsFunc(n.Stuck, func(w writ.Stuck) bool { return w.JobKey == key }) {
		err.Message += ", and its driver does not stop"
		err.Hint = fmt.Sprintf("other work on the %s waits until that is done; `writ node show %s` tells when it is",
			c.Resource(), c.NodeName)
	}
	return t.fail(c, writ.CallExpired, err)
}

// validateResult returns a result in bounded form. A success that does not fit its operation becomes a failure.
func (t receiver) validateResult(c *journal.Call, r writ.Result) writ.Result {
	r.Driver = clip.Text(r.Driver, bound.MaxWord)
	if r.Error == nil {
		if err := t.misfit(c, r); err != nil {
			r.Error = err
		}
	}
	if r.Error == nil {
		return r
	}
	r.Change, r.Values = writ.ChangeNone, nil
	if r.Error.Code.Info().Code != r.Error.Code {
		r.Error.Code = writ.CodeInternal // the node has another version, or it lies
	}
	r.Error = bound.Error(r.Error)
	return r
}

// misfit returns an error if a success does not fit its operation or the limits of the run, else nil.
func (t receiver) misfit(c *journal.Call, r writ.Result) *writ.Error {
	if err := writ.CheckValue(r.Values); err != nil {
		return writ.Errorf(writ.CodeInternal, "the node answered %s with what is no value: %v", c.Operation, err)
	}
	switch size := bound.Size(r.Values); {
	case size > scripts.MaxResult:
		return writ.Errorf(writ.CodeScriptLimit, "the result has %d KiB, %d are possible", size>>10, scripts.MaxResult>>10)
	case t.run.Bytes+size > scripts.MaxJournal:
		return writ.Errorf(writ.CodeScriptLimit, "the arguments and results of a run may have %d KiB in all",
			scripts.MaxJournal>>10)
	}
	if op, ok := catalog.Lookup(c.Operation); ok {
		if problems := op.Result.Check(r.Values, nil); len(problems) > 0 {
			return writ.Errorf(writ.CodeInternal, "the node answered %s with what is no result of it: %s", c.Operation,
				clip.Text(problems[0].Message, bound.MaxText))
		}
	}
	switch r.Change {
	case writ.ChangeNone, writ.ChangeCreated, writ.ChangeUpdated, writ.ChangeUnchanged, writ.ChangeDeleted:
		return nil
	default:
		return writ.Errorf(writ.CodeInternal, "the node answered %s with an unknown change", c.Operation)
	}
}

// leftoverOf returns the earlier resource of ours that was in the way of a call, nil if there was none.
func (t receiver) leftoverOf(tx *journal.Tx, a mail.Arrival) (*leftover, error) {
	c := t.call(a.Result.Seq)
	if a.Result.Found == "" || a.Result.Error == nil || a.Result.Error.Code != writ.CodeResourceConflict || c == nil ||
		c.Node != a.Node {
		return nil, nil
	}
	if op, ok := catalog.Lookup(c.Operation); !ok || op.Effect != catalog.Make {
		return nil, nil
	}
	have, err := tx.Resource(c.Resource())
	if err != nil {
		return nil, err
	}
	if have != nil { // its late result was applied before this one
		if have.UID != a.Result.Found || have.Node != a.Node {
			return nil, nil
		}
		return &leftover{have.UID, have.Run, have.Deployment, "run " + string(have.Run)}, nil
	}
	calls, err := tx.LeftCalls(c.Resource())
	if err != nil {
		return nil, err
	}
	for _, left := range calls {
		if newUID(left) != a.Result.Found || left.Node != a.Node {
			continue
		}
		run, err := tx.Run(left.Run)
		if err != nil || run == nil {
			return nil, err
		}
		by := fmt.Sprintf("call %d of run %s, which is %s", left.Seq, left.Run, left.State)
		return &leftover{a.Result.Found, left.Run, run.Deployment, by}, nil
	}
	return nil, nil
}

// takeOver retries a call that has just failed with the resource that an earlier call left. It keeps the failure if the
// resource has another owner and the call does not adopt.
func (t receiver) takeOver(c *journal.Call, left *leftover) error {
	if left.deployment != t.run.Deployment && !c.Options.Adopt {
		owner := &journal.Resource{Resource: writ.Resource{ResourceID: c.Resource(), Deployment: left.deployment}}
		err := claimer(t).notOwner(owner)
		err.Message += "; it was left on " + c.NodeName + " by " + left.by
		c.Error = err
		return nil
	}
	before := c.UID
	for _, e := range t.calls { // later calls of the run on the same resource
		if e.Resource() == c.Resource() && e.UID == before && !e.State.Ended() {
			e.UID = left.uid
			t.touch(e)
		}
	}
	c.UID = left.uid
	if err := t.tryAgain(c); err != nil {
		return err
	}
	c.RetryAt = t.now
	c.Why = writ.Reason{Code: writ.ReasonTakeOver, Resource: c.Resource().String(), Node: c.NodeName, Text: left.by}
	return nil
}

// belated applies the result of an earlier attempt, such as one before the last resume. A success completes the call if
// its new attempt was not sent yet. Otherwise the success only changes the resource. Failures have no effect.
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

// stopGivenUp tells a node to stop a job whose outcome no longer matters: the run has ended or was resumed, or the call
// has failed.
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
