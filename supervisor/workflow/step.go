// Package workflow advances runs. A step takes a run, its mail and a View of the supervisor; it evaluates the script,
// decides about the calls, and returns Effects. Its changes are written in one transaction, and the effects take place
// after that. The order of a step is fixed: load, receive, evaluate, decide, write, send. The package must not know who
// sends mail, how nodes are reached, or how people decide.
package workflow

import (
	"slices"
	"time"

	"writ"
	"writ/scripts"
	"writ/supervisor/bound"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
	"writ/supervisor/outbox"
	"writ/supervisor/placement"
)

// Step is one step of one run, in memory. It starts as the journal has the run, changes by mail and by a pass of the
// script, and is written in one transaction.
type Step struct {
	*View
	now     time.Time
	run     *journal.Run
	calls   []*journal.Call                     // by seq: calls[i].Seq == i+1
	on      map[writ.ResourceID][]*journal.Call // the first indexed calls by resource; see before
	indexed int
	blocked writ.RunID        // an earlier run of the same deployment
	genuine map[int]bool      // indexes of results in the mail that answer a sent job
	left    map[int]*leftover // by index of the result: the resource that was in its way

	touched  map[int]bool    // seqs of calls to write
	claimed  map[int]wait    // calls by seq that were claimed in this step and reserve nothing yet, as they waited before
	runDirty bool            // the run is to be written
	runMoved bool            // the state of the run, or something else that people see, has changed
	resumed  bool            // by this step; the next step has the pass, so that the resume cannot fail with it
	lacking  bool            // a call was not sent because of a missing secret
	applied  []appliedResult // results that ended a call or attempt
	events   []writ.Event

	out      Effects
	verdicts map[int]placement.Decision // about the groups of calls, by seq; nil unless the step is a preview
}

// Effects are the consequences of a step outside the journal. They take place once the step is on disk.
type Effects struct {
	Jobs      map[writ.NodeID][]outbox.Job
	Stops     outbox.Stops
	Freed     map[writ.NodeID]bool // nodes with room for other calls
	Runs      []writ.RunID         // runs that may continue
	Unasked   []mail.Arrival       // results that answer no sent job
	OpenCalls int                  // change of the open calls of the project
	OpenRuns  int                  // change of its open runs
}

// appliedResult is a result that the run accepted, with the call as it was then.
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

// isOut reports whether a node has a call of the run, so that a result will bring its next step.
func (t *Step) isOut() bool {
	return slices.ContainsFunc(t.calls, func(c *journal.Call) bool { return c.State.Sent() })
}

// rebase lets no call wait longer than one ever does, and no end of a run take longer: the clock was set back since it began. A run whose
// script failed has until its deadline.
func (t *Step) rebase() {
	if run := t.run; run.Stop != nil && !run.State.Ended() && !run.StopBy.Equal(run.Deadline) && run.StopBy.After(t.now.Add(StopWithin)) {
		run.StopBy, t.runDirty = t.now.Add(StopWithin), true
	}
	for _, c := range t.calls {
		if c.State == writ.CallPlanned && c.RetryAt.After(t.now.Add(BackoffMost)) {
			c.RetryAt = t.now
			t.touch(c)
		}
	}
}

// weigh counts what the calls have of the run's bytes: a run is not written because they have become more.
func (t *Step) weigh() {
	t.run.Bytes = 0
	for _, c := range t.calls {
		t.run.Bytes += bound.Size(c.Args) + bound.Size(c.Values)
	}
}

// call returns a call by its seq, nil if the run has none.
func (t *Step) call(seq int) *journal.Call {
	if seq < 1 || seq > len(t.calls) {
		return nil
	}
	return t.calls[seq-1]
}

// open returns a call that is out at a node under exactly this key, nil if it is not.
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

// wait is what is known of a call that waits.
type wait struct {
	why   writ.Reason
	since time.Time
	kept  bool // the journal has it so
}

// isClaimed reports whether a call was claimed in this step, and not placed yet.
func (t *Step) isClaimed(c *journal.Call) bool {
	_, is := t.claimed[c.Seq]
	return is
}

func (t *Step) waits(c *journal.Call) wait { return wait{c.Why, c.RetryAt, !t.touched[c.Seq]} }

// waitOn lets a call wait as it did before it was claimed; it is told of only if the reason is another one.
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

// fail ends a call for good.
func (t *Step) fail(c *journal.Call, state writ.CallState, err *writ.Error) error {
	c.Error, c.Ended, c.Why, c.Ready = err, t.now, writ.Reason{}, false
	return t.move(c, state)
}

// wantsPass reports whether evaluating the script can bring anything new now.
func (t evaluation) wantsPass() bool {
	return t.blocked == "" && t.unevaluated() && waiter(t).notBegun() == nil
}

// unevaluated reports whether evaluating the script can bring anything new, once it is the run's turn in its deployment and it is not on hold.
func (t evaluation) unevaluated() bool {
	if t.run.State.Ended() || t.run.Stop != nil || t.run.Completed {
		return false
	}
	return len(t.run.Waiting) == 0 || slices.ContainsFunc(t.run.Waiting, func(seq int) bool {
		c := t.call(seq)
		return c != nil && c.State.Ended()
	})
}

// lastPosition is where the script made its last call.
func (t evaluation) lastPosition() string {
	if len(t.calls) == 0 {
		return ""
	}
	return t.calls[len(t.calls)-1].Position
}

// entries are the calls as a pass sees them.
func (t evaluation) entries() []scripts.Entry {
	entries := make([]scripts.Entry, len(t.calls))
	for i, c := range t.calls {
		e := scripts.Entry{Seq: c.Seq, Hash: c.Hash, State: scripts.EntryOpen}
		switch {
		case c.State == writ.CallSucceeded:
			e.State, e.Values = scripts.EntrySucceeded, c.Values
		case c.State.Ended():
			e.State, e.Error = scripts.EntryFailed, c.Error
		}
		entries[i] = e
	}
	return entries
}

// Decided is the list of the last decisions with another one.
func Decided(list []writ.Decision, d writ.Decision) []writ.Decision {
	list = append(slices.Clone(list), d)
	return list[max(len(list)-writ.MaxDecisions, 0):]
}
