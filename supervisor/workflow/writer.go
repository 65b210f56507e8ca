package workflow

import (
	"fmt"
	"slices"
	"time"

	"writ"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/supervisor/bound"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
)

// handOvers limits how many runs are woken when a resource becomes free. More than one is woken, because the first may
// wait for something else. The watch wakes the others.
const handOvers = 4

// maxCause limits the error text that a call copies from a failed need, in bytes: a thousand calls may share one need.
const maxCause = 512

// writer writes a step into its transaction.
type writer struct{ *Step }

// apply writes the step in a fixed order: the effects of results, the outcome of the pass, resends, claims and
// placements, deliveries, the end of the run, and last the changed run and calls with their events.
func (t writer) apply(tx *journal.Tx, m mail.Mail, pass *pass) error {
	for _, s := range t.applied {
		if err := t.book(tx, s); err != nil {
			return err
		}
	}
	if pass != nil {
		if err := t.adopt(tx, pass); err != nil {
			return err
		}
	}
	for _, lost := range m.Resend {
		if err := (sender(t)).deliverAgain(tx, lost); err != nil {
			return err
		}
	}
	// right after a resume, before its pass: nothing is sent until the script is known to continue
	if !t.run.Reopened || t.run.Stop != nil {
		if err := (claimer(t)).arrange(tx); err != nil {
			return err
		}
		if err := (sender(t)).sendCalls(tx); err != nil {
			return err
		}
	}
	for _, step := range []func(tx *journal.Tx) error{(ender(t)).conclude, t.keep} {
		if err := step(tx); err != nil {
			return err
		}
	}
	if m.Also != nil {
		return m.Also(tx)
	}
	return nil
}

// adopt applies the outcome of a pass.
func (t writer) adopt(tx *journal.Tx, pass *pass) error {
	run := t.run
	t.runDirty = t.runDirty || run.Crashes > 0 || run.Reopened
	run.Crashes, run.Reopened = 0, false
	if !run.Why.IsZero() { // it waited for its step, or was just resumed
		run.Why, t.runDirty, t.runMoved = writ.Reason{}, true, true
	}
	if run.State == writ.RunAccepted {
		run.Started = t.now
		if err := (ender(t)).moveRun(writ.RunRunning); err != nil {
			return err
		}
	}
	if err := t.keepLog(tx, pass); err != nil {
		return err
	}
	handled := t.forgiven(pass.Handled)
	completed := pass.Status == scripts.Completed
	t.runDirty = t.runDirty || len(pass.Logs) > 0 || len(handled) > len(run.Handled) || completed != run.Completed
	run.Logs += len(pass.Logs)
	run.Waiting = pass.Waiting
	run.Handled = handled
	run.Completed = completed
	if run.Completed {
		run.Output = pass.Output
	}
	for _, n := range pass.Calls {
		if err := (claimer(t)).enlist(n); err != nil {
			return err
		}
	}
	if pass.Status == scripts.Failed {
		run.Failure = ender(t).blame(*pass.Failure)
		ender(t).halt(mail.Stop{State: writ.RunFailed, Err: &run.Failure.Error, By: run.Deadline})
		clear(t.out.Stops.Cancels) // started and queued calls may end normally; only planned calls end
		clear(t.out.Stops.Withdraw)
	}
	return nil
}

// forgiven returns the failed calls whose error the script has read, in this or an earlier pass, ascending. Reads of
// calls that succeeded are omitted, because they would cause a write of the run in each step.
func (t writer) forgiven(read []int) []int {
	all := slices.Clone(t.run.Handled)
	for _, seq := range read {
		if t.call(seq).State != writ.CallSucceeded {
			all = append(all, seq)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// describe formats a call: "volume.create web-0".
func describe(c *journal.Call) string {
	if c.Name == "" {
		return c.Operation
	}
	return c.Operation + " " + c.Name
}

// keep writes the run and the changed calls, with their events. A run in memory whose only change is that it waits for
// other calls is not written: a step that reads the older record repeats the pass, with the same outcome.
func (t writer) keep(tx *journal.Tx) error {
	for _, c := range t.calls {
		if !t.touched[c.Seq] {
			continue
		}
		if err := tx.PutCall(c); err != nil {
			return err
		}
		switch {
		case c.WasOpen() && c.State.Ended():
			t.out.OpenCalls--
		case !c.WasOpen() && !c.State.Ended():
			t.out.OpenCalls++
		}
		shown := c.Call
		t.events = append(t.events, writ.Event{Call: &shown})
		if err := t.handOver(tx, c); err != nil {
			return err
		}
	}
	if idle := !(evaluation(t)).unevaluated(); idle != t.run.Idle {
		t.run.Idle, t.runDirty = idle, true
	}
	waiter(t).sayBlocked()
	if t.runDirty || t.run.WaitsAnew() && !t.isOut() {
		if err := tx.PutRun(t.run); err != nil {
			return err
		}
	}
	if t.runMoved {
		shown := t.run.Run
		shown.Output = nil // the output leaves the datacenter only in the signed summary or on request
		t.events = append(t.events, writ.Event{Run: &shown})
	}
	tx.AddEvents(t.events...)
	t.count()
	return nil
}

// count records the change of the project's open work, and completes the stop messages.
func (t writer) count() {
	if t.resumed {
		t.out.OpenRuns++
	}
	if t.run.State.Ended() && t.runMoved {
		t.out.OpenRuns--
	}
	t.out.Stops.Run, t.out.Stops.Until = t.run.ID, t.run.Deadline.Add(time.Hour).UnixMilli()
}

// handOver wakes the runs that have waited longest for the resource of a call, once the call no longer blocks them. A
// call that never blocked them wakes no run; otherwise two waiting runs would wake each other forever.
func (t writer) handOver(tx *journal.Tx, c *journal.Call) error {
	if c.Kind == "" || !c.StoodInTheWay() || c.Claimed && !c.State.Ended() {
		return nil
	}
	next, err := tx.RunsWaitingFor(c.Resource(), t.run.ID, handOvers)
	t.out.Runs = append(t.out.Runs, next...)
	return err
}

// keepLog stores the log lines of a pass. An additional line reports the number of dropped lines.
func (t writer) keepLog(tx *journal.Tx, p *pass) error {
	lines := p.Logs[:p.kept:p.kept]
	if dropped := len(p.Logs) - p.kept; dropped > 0 {
		lines = append(lines,
			fmt.Sprintf("%d lines are dropped here: scripts of the project %s log more than %d MiB a second", dropped,
				t.run.ProjectName, logBytes>>20))
	}
	for i, text := range lines {
		line := writ.LogLine{Run: t.run.ID, Ordinal: t.run.Logs + i + 1, Text: text, Time: t.now}
		if err := tx.AddLog(line); err != nil {
			return err
		}
		t.events = append(t.events, writ.Event{Log: &line})
	}
	return nil
}

// book records a result and its effect on the resource. A repeated result has no effect.
func (t writer) book(tx *journal.Tx, s appliedResult) error {
	c := s.call
	first, err := tx.AddResult(c, s.Result.Attempt, s.Frame)
	if err != nil || !first {
		return err // a repeated result, whose first acknowledgement was lost
	}
	op, ok := catalog.Lookup(c.Operation)
	if !ok || !op.Named() || s.Result.Error != nil || op.Effect == catalog.Look && op.Uses == nil {
		return nil
	}
	have, err := tx.Resource(c.Resource())
	if err != nil {
		return err
	}
	if op.Effect == catalog.Look {
		return chargeLook(tx, op, c, have, s.Result)
	}
	after, told := t.effect(op, c, have, s.Result)
	switch {
	case !told:
		return nil
	case after == nil:
		gone := have.Resource
		gone.Deleted, gone.Run, gone.Updated = true, t.run.ID, t.now
		t.events = append(t.events, writ.Event{Resource: EventResource(gone)})
		return tx.RemoveResource(c.Resource())
	}
	t.events = append(t.events, writ.Event{Resource: EventResource(after.Resource)})
	return tx.PutResource(after)
}

// effect returns the resource after a successful call, or nil if the call removed it. have is the resource before the
// call and stays unchanged. If told is false, the result does not affect the resource.
func (t writer) effect(
	op *catalog.Operation, c *journal.Call, have *journal.Resource, result writ.Result,
) (after *journal.Resource, told bool) {
	switch {
	case have != nil && have.UID != c.UID:
		return nil, false // late result: another call has made the resource again
	case have != nil && op.Effect == catalog.Remove:
		return nil, true
	case have != nil:
		copied := *have
		after = &copied
	case op.Effect != catalog.Make:
		return nil, false // late result for a resource that was removed meanwhile
	default:
		after = &journal.Resource{Resource: writ.Resource{
			ResourceID: c.Resource(), UID: c.UID, Datacenter: t.Datacenter, Created: t.now, Deployment: t.run.Deployment,
		}}
	}
	if op.Effect == catalog.Make && result.Change != writ.ChangeUnchanged {
		after.Drift = nil // until the next report of the node
	}
	if c.Options.Adopt {
		after.Deployment = t.run.Deployment
	}
	after.Node, after.Driver, after.Simulated = c.Node, result.Driver, result.Simulated
	after.Values, after.Run, after.Updated = receiver(t).completeValues(c, result.Values), t.run.ID, t.now
	after.Standing = bound.Standing(catalog.StandingOf(result.Values))
	after.Need = uses(op, c.Args, result.Values, after.Need)
	args := t.handlesNamed(op, c)
	if op.Effect == catalog.Make {
		after.Operation, after.Args = op.Name(), args
	}
	switch act := actOf(op, args); {
	case result.Change == writ.ChangeUnchanged && op.Repeat == catalog.Safe && op.Effect == catalog.Alter:
		after.Holds = journal.AddHeld(after.Holds, act)
	case result.Change == writ.ChangeUpdated && op.Repeat == catalog.Safe && op.Effect == catalog.Alter:
		after.Holds = []writ.Digest{act}
	case result.Change != writ.ChangeUnchanged:
		after.Holds = nil
	}
	return after, true
}

// handlesNamed returns the arguments of a call with resources in place of handles. Handles of unknown resources stay.
func (t writer) handlesNamed(op *catalog.Operation, c *journal.Call) map[string]any {
	args, _ := op.Args.ReplaceHandles(c.Args, func(handle any) (any, error) { // cannot fail: the callback never does
		if ref, err := t.ref(handle); err == nil {
			return ref, nil
		}
		return handle, nil
	})
	return args
}
