// Package workflow advances runs. A step receives a run, its mail and a View of the supervisor; it evaluates the
// script, decides about the calls, and produces Effects. Its changes are written in one transaction, and the effects
// happen after the commit. The order of a step is fixed: load, receive, evaluate, decide, write, send. The package does
// not depend on the senders of mail, the transport to nodes, or the form of people's decisions.
//
// A pass evaluates the script with the results so far, as if from its beginning. A call is claimed when its resource is
// determined and no other run uses that resource. It is placed when it has a node, and sent when a job for it is queued
// there. After a retryable failure it gets another attempt; if the job of an attempt is lost, it gets another delivery.
// The needs of a call are the calls and resources that it depends on.
package workflow

import (
	"fmt"
	"time"

	"writ"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/supervisor/bound"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
	"writ/supervisor/outbox"
	"writ/supervisor/placement"
)

// Step is one step of one run, in memory. It starts with the state of the journal, is changed by mail and by a pass of
// the script, and is written in one transaction.
type Step struct {
	*View
	now     time.Time
	run     *journal.Run
	calls   callList
	blocked writ.RunID        // earlier open run of the same deployment, "" if none
	genuine map[int]bool      // indexes of results in the mail that answer a sent job
	left    map[int]*leftover // by index of the result in the mail: the resource that blocked its call

	touched map[int]bool // seqs of calls to write
	// the calls that were claimed in this step and are not placed yet, by seq: their wait states before the claim
	claimed  map[int]wait
	runDirty bool // the run is to be written
	runMoved bool // the state of the run, or another public fact, has changed
	// this step resumed the run; the next step has the pass, so that a failing pass cannot undo the resume
	resumed bool
	applied []appliedResult // results applied in this step
	survey  *survey         // of a long run that is about to end, else nil
	// continues is set if the run continues in another step at once, without mail
	continues bool

	out      Effects
	verdicts map[int]placement.Decision // placement of calls, by seq; nil unless the step is a preview
}

// Effects are the consequences of a step outside the journal. They happen after the commit.
type Effects struct {
	Jobs      map[writ.NodeID][]outbox.Job
	Stops     outbox.Stops
	Freed     map[writ.NodeID]bool // nodes with room for other calls
	Runs      []writ.RunID         // runs that may continue
	Unasked   []mail.Arrival       // results that answer no sent job
	OpenCalls int                  // change of the open calls of the project
	OpenRuns  int                  // change of the open runs of the project
}

// appliedResult is a result that the run accepted, with its call.
type appliedResult struct {
	mail.Arrival
	call *journal.Call
	late bool // the call had ended before: only the effect on its resource counts
}

// NewStep returns a step of a run at the time now.
func NewStep(view *View, run *journal.Run, now time.Time) *Step {
	return &Step{
		View: view, now: now, run: run,
		genuine: make(map[int]bool), left: make(map[int]*leftover), touched: make(map[int]bool), claimed: make(map[int]wait),
		out: Effects{
			Jobs: make(map[writ.NodeID][]outbox.Job), Freed: make(map[writ.NodeID]bool),
			Stops: outbox.Stops{
				Cancels: make(map[writ.NodeID]int), GivenUp: make(map[writ.NodeID][]writ.JobKey),
				Withdraw: make(map[writ.NodeID][]mail.Delivery), Reclaim: make(map[writ.NodeID][]mail.Delivery),
				Stale: make(map[writ.NodeID][]mail.Delivery),
			},
		},
	}
}

// rebase shortens waits and stop times that are too far away because the clock was set back. A run that stops because
// its script failed keeps its deadline as stop time.
func (t *Step) rebase() {
	if run := t.run; run.StopsCalls() && !run.State.Ended() && run.StopBy.After(t.now.Add(StopWithin)) {
		run.StopBy, t.runDirty = t.now.Add(StopWithin), true
	}
	for _, c := range t.calls.live {
		if c.State == writ.CallPlanned && c.RetryAt.After(t.now.Add(BackoffMost)) {
			c.RetryAt = t.now
			t.touch(c)
		}
	}
}

// touch marks a call to be written.
func (t *Step) touch(c *journal.Call) { t.touched[c.Seq] = true }

// move changes the state of a call.
func (t *Step) move(c *journal.Call, to writ.CallState) error {
	t.touch(c)
	return c.Move(to)
}

// wait is the state of a waiting call before its claim.
type wait struct {
	why   writ.Reason
	since time.Time
	kept  bool // the call is as in the journal
}

// isClaimed reports whether a call was claimed in this step and is not placed yet.
func (t *Step) isClaimed(c *journal.Call) bool {
	_, is := t.claimed[c.Seq]
	return is
}

// waits returns the wait state of a call.
func (t *Step) waits(c *journal.Call) wait { return wait{c.Why, c.RetryAt, !t.touched[c.Seq]} }

// waitOn restores the state of a call before its claim, with the reason `why`. The call is written only if the reason
// differs.
func (t *Step) waitOn(c *journal.Call, before wait, why writ.Reason) {
	c.Claimed, c.Need = false, writ.Capacity{}
	c.Why, c.RetryAt = before.why, before.since
	if before.kept {
		delete(t.touched, c.Seq)
	}
	t.delay(c, why)
}

// delay makes a planned call wait. Package watch rechecks waiting calls in rotation.
func (t *Step) delay(c *journal.Call, why writ.Reason) {
	if !c.Why.Equal(why) {
		c.Why, c.RetryAt = why, t.now
		t.touch(c)
	}
}

// fail ends a call in a final state with an error.
func (t *Step) fail(c *journal.Call, state writ.CallState, err *writ.Error) error {
	c.Error, c.Ended, c.Why, c.Ready = err, t.now, writ.Reason{}, false
	return t.move(c, state)
}

// unclaim reverts the claim and placement of a call that was never sent.
func (t *Step) unclaim(c *journal.Call) {
	c.Node, c.NodeName, c.UID, c.Need = "", "", "", writ.Capacity{}
	c.Claimed, c.Ready, c.RetryAt = false, false, t.now
	t.touch(c)
}

// pin binds a call to the node of its resource. The node "" leaves the call unchanged.
func (t *Step) pin(c *journal.Call, node writ.NodeID) {
	if node != "" {
		c.Node, c.NodeName = node, t.Nodes.Name(node)
	}
}

// addCall adds a new call of a pass to the run.
func (t *Step) addCall(n scripts.NewCall) error {
	if n.Seq != countOf(&t.calls)+1 {
		return fmt.Errorf("run %s: call %d does not follow call %d", t.run.ID, n.Seq, countOf(&t.calls))
	}
	op, ok := catalog.Lookup(n.Operation)
	if !ok {
		return fmt.Errorf("run %s: the catalogue has no operation %s", t.run.ID, n.Operation)
	}
	c := &journal.Call{
		Call: writ.Call{
			Seq: n.Seq, Operation: n.Operation, Name: n.Name, Kind: op.Kind, Position: n.Position,
			State: writ.CallPlanned, Attempt: 1, After: n.After, Planned: t.now,
		},
		Hash: n.Hash, Args: n.Args, Options: n.Options, Aside: op.Aside, Read: n.Read,
	}
	c.In(t.run)
	t.calls.all, t.calls.live = append(t.calls.all, c), append(t.calls.live, c)
	t.run.Bytes += bound.Size(c.Args)
	t.touch(c)
	return nil
}

// cascade fails the planned calls that need a failed call. If the run is stopped, it ends all planned calls.
func (t *Step) cascade() error {
	fails := newCascader(t)
	for _, c := range t.calls.live {
		if err := fails.apply(c); err != nil {
			return err
		}
	}
	return nil
}

// cascader fails calls because other calls have failed. It must be applied to the calls of a run in their order.
type cascader struct {
	*Step
	causes causes
}

func newCascader(t *Step) cascader { return cascader{t, newCauses(&t.calls)} }

// apply fails a planned call if it needs a failed call, or if the run is stopped.
func (t cascader) apply(c *journal.Call) error {
	if c.State != writ.CallPlanned {
		return nil
	}
	if t.run.Stop != nil {
		return t.fail(c, stoppedState(t.run), t.run.Stop)
	}
	if need := failedNeed(&t.calls, c); need != nil {
		return t.fail(c, writ.CallFailed, unmet(t.run, &t.calls, t.causes.of(need)))
	}
	return nil
}

// failedNeed returns the first need of a call that has ended without success, or nil.
func failedNeed(l *callList, c *journal.Call) *journal.Call {
	for _, seq := range c.After {
		if need := l.at(seq); need != nil && need.State.Ended() && need.State != writ.CallSucceeded {
			return need
		}
	}
	return nil
}

// moveRun changes the state of the run.
func (t *Step) moveRun(to writ.RunState) error {
	t.runDirty, t.runMoved = true, true
	return t.run.Move(to)
}

// halt stops the run: no more calls are sent. Unless the script failed, queued jobs are withdrawn, and nodes stop
// started jobs. If the run is already ending, halt can only make the end earlier.
func (t *Step) halt(why mail.Stop) {
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
	if t.run.StopsCalls() {
		callBackAll(t)
	}
}

// callBackAll calls back all sent calls.
func callBackAll(t *Step) {
	for _, c := range t.calls.live {
		if c.State.Sent() {
			t.callBack(c)
		}
	}
}

// callBack withdraws a sent call from the queue and requests its node to stop it.
func (t *Step) callBack(c *journal.Call) {
	t.out.Stops.Cancels[c.Node] = t.run.Resumes
	t.out.Stops.Withdraw[c.Node] = append(t.out.Stops.Withdraw[c.Node], mail.DeliveriesOf(c)...)
}
