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
)

// handOvers is how many of those that wait for a resource are told at once that it may be theirs: the first of them may wait for something
// else, too. The watch comes to all of them.
const handOvers = 4

// maxCause bounds what a call keeps of the error of the call that it needs, in bytes: a thousand calls may need one.
const maxCause = 512

// writer writes a step into its transaction.
type writer struct{ *Step }

// apply writes the step: what came in, what the pass asked for, and all that follows from both.
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
	if !t.run.Reopened || t.run.Stop != nil { // a script that fails again, without anything new, has nothing more done
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

// adopt takes over what a pass found.
func (t writer) adopt(tx *journal.Tx, pass *pass) error {
	run := t.run
	t.runDirty = t.runDirty || run.Crashes > 0 || run.Reopened
	run.Crashes, run.Reopened = 0, false
	if !run.Why.IsZero() { // it waited for its step, or was resumed just now
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
		clear(t.out.Stops.Cancels) // what has started may end by itself; only what was not sent is given up
		clear(t.out.Stops.Withdraw)
	}
	return nil
}

// forgiven returns the failed calls whose .err the script has read, now or in an earlier pass. That it has read the one of a call that
// succeeded means nothing, and to note it would write the run in each step.
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

// enlist makes a journaled call of a new one.
func (t claimer) enlist(n scripts.NewCall) error {
	if n.Seq != len(t.calls)+1 {
		return fmt.Errorf("run %s: call %d does not follow call %d", t.run.ID, n.Seq, len(t.calls))
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
	t.calls = append(t.calls, c)
	t.run.Bytes += bound.Size(c.Args)
	t.touch(c)
	return nil
}

// cascade fails the calls that need a failed one, and ends what an ending run has not sent.
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

// unmet is the error of a call that needs one which did not succeed. It names the call that failed by itself, and tells why and what to do as that does:
// what a run ends with is often all that a person sees.
func (t ender) unmet(need *journal.Call) *writ.Error {
	cause := firstCause(t.calls, need)
	if cause.Error == nil {
		return writ.Errorf(writ.CodeDependencyFailed, "call %s did not succeed", t.describeSeq(cause.Seq)).WithHint("see why with `writ run show %s`", t.run.ID)
	}
	return writ.Errorf(writ.CodeDependencyFailed, "call %s did not succeed: %s: %s", t.describeSeq(cause.Seq), cause.Error.Code, bound.Clip(cause.Error.Message, maxCause)).
		WithHint("%s", cmp.Or(cause.Error.Hint, fmt.Sprintf("see why with `writ run show %s`", t.run.ID)))
}

// blame returns the failure of a run with the code and the number of the call that failed by itself, if it is that of one which needed it: by these,
// failures are counted and people look for what to do. The position stays where the script could not go on.
func (t ender) blame(f writ.Failure) *writ.Failure {
	needs := t.call(f.Seq)
	f.Handled = needs != nil && t.handled(needs) != nil
	if needs == nil || f.Code != writ.CodeDependencyFailed {
		return &f
	}
	if cause := firstCause(t.calls, needs); cause != needs && cause.Error != nil {
		f.Code, f.Hint, f.Seq = cause.Error.Code, cause.Error.Hint, cause.Seq
		f.Message = fmt.Sprintf("%s needs %s, which did not succeed: %s", describe(needs), describe(cause), bound.Clip(cause.Error.Message, maxCause))
	}
	return &f
}

// describe names a call for people: "volume.create web-0".
func describe(c *journal.Call) string {
	if c.Name == "" {
		return c.Operation
	}
	return c.Operation + " " + c.Name
}

// describeSeq names a call of a step with its number: "3 (volume.create web-0)".
func (t *Step) describeSeq(seq int) string { return fmt.Sprintf("%d (%s)", seq, describe(t.call(seq))) }

// sayBlocked says what a run waits for that must not begin: while it is on hold, or before another one of its deployment has ended.
func (t waiter) sayBlocked() {
	h := t.notBegun()
	if t.blocked == "" && h == nil || t.run.State.Ended() || t.run.Stop != nil {
		return
	}
	why := writ.Reason{Code: writ.ReasonRun, Run: t.blocked, Deployment: t.run.Deployment}
	if h != nil {
		why = t.Holds.Reason(h)
	}
	if !t.run.Why.Equal(why) {
		t.run.Why, t.runDirty, t.runMoved = why, true, true
	}
}

func (t ender) moveRun(to writ.RunState) error {
	t.runDirty, t.runMoved = true, true
	return t.run.Move(to)
}

// keep writes the run and the calls that changed, with their events. That a run waits for other calls is not worth a write as long as it is
// remembered until its next step: a step that reads it meanwhile, with calls to wait for that have ended, takes another pass, which says the same.
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
		shown.Output = nil // only in the signed summary, and from the datacenter itself
		t.events = append(t.events, writ.Event{Run: &shown})
	}
	tx.AddEvents(t.events...)
	t.count()
	return nil
}

// count sums up the change of the open work of the project.
func (t writer) count() {
	if t.resumed {
		t.out.OpenRuns++
	}
	if t.run.State.Ended() && t.runMoved {
		t.out.OpenRuns--
	}
	t.out.Stops.Run, t.out.Stops.Until = t.run.ID, t.run.Deadline.Add(time.Hour).UnixMilli()
}

// handOver lets the runs that wait longest for the resource of a call look at it again, if the call stood in their way and does no more. One
// that never did wakes nobody: two runs that both go on waiting would wake each other for ever.
func (t writer) handOver(tx *journal.Tx, c *journal.Call) error {
	if c.Kind == "" || !c.StoodInTheWay() || c.Claimed && !c.State.Ended() {
		return nil
	}
	next, err := tx.RunsWaitingFor(c.Resource(), t.run.ID, handOvers)
	t.out.Runs = append(t.out.Runs, next...)
	return err
}

// keepLog keeps the lines that a pass adds to the log. If some are not kept, a line says so in their place.
func (t writer) keepLog(tx *journal.Tx, p *pass) error {
	lines := p.Logs[:p.kept:p.kept]
	if dropped := len(p.Logs) - p.kept; dropped > 0 {
		lines = append(lines, fmt.Sprintf("%d lines are dropped here: scripts of the project %s log more than %d MiB a second", dropped, t.run.ProjectName, logBytes>>20))
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
