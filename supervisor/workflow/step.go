// Package workflow advances runs. A step receives a run, its mail and a View of the supervisor; it evaluates the
// script, decides about the calls, and produces Effects. Its changes are written in one transaction, and the effects
// happen after the commit. The order of a step is fixed: load, receive, evaluate, decide, write, send. The package does
// not depend on the senders of mail, the transport to nodes, or the way in which people decide.
package workflow

import (
	"cmp"
	"fmt"
	"slices"
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
	calls   []*journal.Call                     // by seq: calls[i].Seq == i+1
	on      map[writ.ResourceID][]*journal.Call // the first indexed calls by resource; see before
	indexed int
	blocked writ.RunID        // earlier open run of the same deployment, "" if none
	genuine map[int]bool      // indexes of results in the mail that answer a sent job
	left    map[int]*leftover // by index of the result in the mail: the resource that was in its way

	touched map[int]bool // seqs of calls to write
	// claimed in this step and without a reservation yet, by seq: their wait state before the claim
	claimed  map[int]wait
	runDirty bool // the run is to be written
	runMoved bool // the state of the run, or another public fact, has changed
	// this step resumed the run; the next step has the pass, so that a failing pass cannot undo the resume
	resumed bool
	lacking bool            // a call was not sent because of a missing secret
	applied []appliedResult // results applied in this step
	events  []writ.Event

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

// isOut reports whether a call of the run is sent, so that a result will bring its next step.
func (t *Step) isOut() bool {
	return slices.ContainsFunc(t.calls, func(c *journal.Call) bool { return c.State.Sent() })
}

// rebase shortens waits and stop times that are too far away because the clock was set back. A run that stops because
// its script failed keeps its deadline as stop time.
func (t *Step) rebase() {
	if run := t.run; run.Stop != nil && !run.State.Ended() && !run.StopBy.Equal(run.Deadline) &&
		run.StopBy.After(t.now.Add(StopWithin)) {
		run.StopBy, t.runDirty = t.now.Add(StopWithin), true
	}
	for _, c := range t.calls {
		if c.State == writ.CallPlanned && c.RetryAt.After(t.now.Add(BackoffMost)) {
			c.RetryAt = t.now
			t.touch(c)
		}
	}
}

// weigh sums the sizes of arguments and values. A changed sum alone does not make the run dirty.
func (t *Step) weigh() {
	t.run.Bytes = 0
	for _, c := range t.calls {
		t.run.Bytes += bound.Size(c.Args) + bound.Size(c.Values)
	}
}

// call returns a call by its seq, nil if unknown.
func (t *Step) call(seq int) *journal.Call {
	if seq < 1 || seq > len(t.calls) {
		return nil
	}
	return t.calls[seq-1]
}

// open returns the call of a key if it is sent under exactly this attempt, else nil.
func (t *Step) open(key writ.JobKey) *journal.Call {
	if c := t.call(key.Seq); c != nil && c.Attempt == key.Attempt && c.State.Sent() {
		return c
	}
	return nil
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
	kept  bool // equals the journal
}

// isClaimed reports whether a call was claimed in this step and is not placed yet.
func (t *Step) isClaimed(c *journal.Call) bool {
	_, is := t.claimed[c.Seq]
	return is
}

// waits returns the wait state of a call.
func (t *Step) waits(c *journal.Call) wait { return wait{c.Why, c.RetryAt, !t.touched[c.Seq]} }

// waitOn restores the state of a call before its claim, with the reason why. The call is written only if the reason
// differs.
func (t *Step) waitOn(c *journal.Call, before wait, why writ.Reason) {
	c.Claimed, c.Need = false, writ.Capacity{}
	c.Why, c.RetryAt = before.why, before.since
	if before.kept {
		delete(t.touched, c.Seq)
	}
	t.delay(c, why)
}

// delay makes a planned call wait. The step checks it again every second.
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

// Decided appends a decision to a list and keeps the last writ.MaxDecisions.
func Decided(list []writ.Decision, d writ.Decision) []writ.Decision {
	list = append(slices.Clone(list), d)
	return list[max(len(list)-writ.MaxDecisions, 0):]
}

// ref returns the resource of the call behind a handle of the script.
func (t *Step) ref(handle any) (any, error) {
	seq, ok := scripts.RefOf(handle)
	c := t.call(seq)
	if !ok || c == nil {
		return nil, fmt.Errorf("%v is no handle of this run", handle)
	}
	return map[string]any{"kind": string(c.Kind), "name": c.Name, "uid": string(c.UID)}, nil
}

// describeSeq formats a call with its number: "3 (volume.create web-0)".
func (t *Step) describeSeq(seq int) string { return fmt.Sprintf("%d (%s)", seq, describe(t.call(seq))) }

// unclaim reverts the claim and placement of a call that was never sent.
func (t *Step) unclaim(c *journal.Call) {
	c.Node, c.NodeName, c.UID, c.Need = "", "", "", writ.Capacity{}
	c.Claimed, c.Ready, c.RetryAt = false, false, t.now
	t.touch(c)
}

// lastOn returns the last open call before seq that makes, changes or removes a resource, nil if none.
func (t *Step) lastOn(id writ.ResourceID, seq int) *journal.Call {
	for _, c := range slices.Backward(t.before(id, seq)) {
		if c.State.Ended() {
			continue
		}
		if op, _ := catalog.Lookup(c.Operation); op.Effect == catalog.Make || op.Effect == catalog.Remove ||
			op.Effect == catalog.Alter {
			return c
		}
	}
	return nil
}

// pin binds a call to the node of its resource. It does nothing if node is "".
func (t *Step) pin(c *journal.Call, node writ.NodeID) {
	if node != "" {
		c.Node, c.NodeName = node, t.Nodes.Name(node)
	}
}

// before returns the calls on a resource before seq, in order. The index is built once for all claims of a step.
func (t *Step) before(id writ.ResourceID, seq int) []*journal.Call {
	if t.on == nil {
		t.on = make(map[writ.ResourceID][]*journal.Call)
	}
	for ; t.indexed < len(t.calls); t.indexed++ {
		c := t.calls[t.indexed]
		t.on[c.Resource()] = append(t.on[c.Resource()], c)
	}
	all := t.on[id]
	n, _ := slices.BinarySearchFunc(all, seq, func(c *journal.Call, seq int) int { return cmp.Compare(c.Seq, seq) })
	return all[:n]
}
