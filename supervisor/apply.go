package supervisor

import (
	"cmp"
	"fmt"
	"slices"

	"writ"
	"writ/identity/envelope"
	"writ/internal/cbor"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/supervisor/journal"
)

// handOvers is how many of those that wait for a resource are told at once that it may be theirs: the first of them may wait for something
// else, too. The watch comes to all of them.
const handOvers = 4

// maxCause bounds what a call keeps of the error of the call that it needs, in bytes: a thousand calls may need one.
const maxCause = 512

// apply writes the step: what came in, what the pass asked for, and all that follows from both.
func (t *step) apply(tx *journal.Tx, m mail, pass *pass) error {
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
	for _, lost := range m.again {
		if err := t.deliverAgain(tx, lost); err != nil {
			return err
		}
	}
	if !t.run.Reopened || t.run.Stop != nil { // a script that fails again, without anything new, has nothing more done
		if err := t.arrange(tx); err != nil {
			return err
		}
		if err := t.sendCalls(tx); err != nil {
			return err
		}
	}
	for _, step := range []func(tx *journal.Tx) error{t.conclude, t.keep} {
		if err := step(tx); err != nil {
			return err
		}
	}
	if m.also != nil {
		return m.also(tx)
	}
	return nil
}

// book keeps a result and what it did to its resource.
func (t *step) book(tx *journal.Tx, s appliedResult) error {
	c := s.call
	first, err := tx.AddResult(c, s.result.Attempt, s.frame)
	if err != nil || !first {
		return err // it was booked when it came first; its acknowledgement got lost
	}
	op, ok := catalog.Lookup(c.Operation)
	if !ok || !op.Named() || s.result.Error != nil || op.Effect == catalog.Look && op.Uses == nil {
		return nil
	}
	have, err := tx.Resource(c.Resource())
	if err != nil {
		return err
	}
	if op.Effect == catalog.Look {
		return chargeLook(tx, op, c, have, s.result)
	}
	after, told := t.effect(op, c, have, s.result)
	switch {
	case !told:
		return nil
	case after == nil:
		gone := have.Resource
		gone.Deleted, gone.Run, gone.Updated = true, t.run.ID, t.now
		t.events = append(t.events, writ.Event{Resource: eventResource(gone)})
		return tx.RemoveResource(c.Resource())
	}
	t.events = append(t.events, writ.Event{Resource: eventResource(after.Resource)})
	return tx.PutResource(after)
}

// chargeLook records the disk space of a resource after an operation that only reads it, but stores data beside it, such
// as an archive.
func chargeLook(tx *journal.Tx, op *catalog.Operation, c *journal.Call, have *journal.Resource, result writ.Result) error {
	if have == nil || have.UID != c.UID {
		return nil
	}
	after := *have
	after.Need = uses(op, c.Args, result.Values, have.Need)
	if after.Need == have.Need {
		return nil
	}
	return tx.PutResource(&after)
}

// effect returns what a resource is after a call on it succeeded, nil if it is gone; told is false if the result says nothing about what
// there is now. have, what it was before, is left as it is.
func (t *step) effect(op *catalog.Operation, c *journal.Call, have *journal.Resource, result writ.Result) (after *journal.Resource, told bool) {
	switch {
	case have != nil && have.UID != c.UID:
		return nil, false // a late word on a resource that was made anew meanwhile
	case have != nil && op.Effect == catalog.Remove:
		return nil, true
	case have != nil:
		copied := *have
		after = &copied
	case op.Effect != catalog.Make:
		return nil, false // a late word on a resource that was removed meanwhile
	default:
		after = &journal.Resource{Resource: writ.Resource{
			ResourceID: c.Resource(), UID: c.UID, Datacenter: t.s.Datacenter, Created: t.now, Deployment: t.run.Deployment,
		}}
	}
	if op.Effect == catalog.Make && result.Change != writ.ChangeUnchanged {
		after.Drift = nil // until the node says otherwise
	}
	if c.Options.Adopt {
		after.Deployment = t.run.Deployment
	}
	after.Node, after.Driver, after.Simulated = c.Node, result.Driver, result.Simulated
	after.Values, after.Run, after.Updated = t.completeValues(c, result.Values), t.run.ID, t.now
	after.Standing = moderateStanding(catalog.StandingOf(result.Values))
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

// handlesNamed returns the arguments of a call with the resources that its handles stand for; what is not known yet stays as it is.
func (t *step) handlesNamed(op *catalog.Operation, c *journal.Call) map[string]any {
	args, _ := op.Args.ReplaceHandles(c.Args, func(handle any) (any, error) { // cannot fail: this does not
		if ref, err := t.ref(handle); err == nil {
			return ref, nil
		}
		return handle, nil
	})
	return args
}

// actOf names an operation with its arguments.
func actOf(op *catalog.Operation, args map[string]any) writ.Digest {
	text, err := cbor.Marshal([]any{op.Name(), op.Args.Fill(args)})
	if err != nil {
		return writ.Digest{} // values always have an encoding
	}
	return writ.DigestOf(text)
}

// eventResource is a resource as it leaves the datacenter: without values.
func eventResource(r writ.Resource) *writ.Resource {
	r.Values = nil
	return &r
}

// uses returns the capacity that a resource occupies after op. Amounts that op does not change stay as before. The result
// of op may add to its arguments, such as the size of archives.
func uses(op *catalog.Operation, args, result map[string]any, before writ.Capacity) writ.Capacity {
	after := writ.Capacity{}
	if op.Needs != nil {
		after = op.Needs(args)
	}
	if op.Uses != nil {
		after.DiskGiB = max(after.DiskGiB, amountOf(op.Uses(result).DiskGiB))
	}
	if after.CPUs == 0 {
		after.CPUs = before.CPUs
	}
	if after.MemoryMiB == 0 {
		after.MemoryMiB = before.MemoryMiB
	}
	if after.DiskGiB == 0 {
		after.DiskGiB = before.DiskGiB
	}
	return after
}

// adopt takes over what a pass found.
func (t *step) adopt(tx *journal.Tx, pass *pass) error {
	run := t.run
	t.runDirty = t.runDirty || run.Crashes > 0 || run.Reopened
	run.Crashes, run.Reopened = 0, false
	if run.Reason != "" { // it waited for its step, or was resumed just now
		run.Reason, t.runDirty, t.runMoved = "", true, true
	}
	if run.State == writ.RunAccepted {
		run.Started = t.now
		if err := t.moveRun(writ.RunRunning); err != nil {
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
		if err := t.enlist(n); err != nil {
			return err
		}
	}
	if pass.Status == scripts.Failed {
		run.Failure = t.blame(*pass.Failure)
		t.halt(stop{state: writ.RunFailed, err: &run.Failure.Error, by: run.Deadline})
		clear(t.cancels) // what has started may end by itself; only what was not sent is given up
		clear(t.withdraw)
	}
	return nil
}

// forgiven returns the failed calls whose .err the script has read, now or in an earlier pass. That it has read the one of a call that
// succeeded means nothing, and to note it would write the run in each step.
func (t *step) forgiven(read []int) []int {
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
func (t *step) enlist(n scripts.NewCall) error {
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
	t.run.Bytes += sizeOf(c.Args)
	t.touch(c)
	return nil
}

// cascade fails the calls that need a failed one, and ends what an ending run has not sent.
func (t *step) cascade() error {
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
func (t *step) unmet(need *journal.Call) *writ.Error {
	cause := firstCause(t.calls, need)
	if cause.Error == nil {
		return writ.Errorf(writ.CodeDependencyFailed, "call %s did not succeed", describeSeq(t, cause.Seq)).WithHint("see why with `writ run show %s`", t.run.ID)
	}
	return writ.Errorf(writ.CodeDependencyFailed, "call %s did not succeed: %s: %s", describeSeq(t, cause.Seq), cause.Error.Code, clip(cause.Error.Message, maxCause)).
		WithHint("%s", cmp.Or(cause.Error.Hint, fmt.Sprintf("see why with `writ run show %s`", t.run.ID)))
}

// blame returns the failure of a run with the code and the number of the call that failed by itself, if it is that of one which needed it: by these,
// failures are counted and people look for what to do. The position stays where the script could not go on.
func (t *step) blame(f writ.Failure) *writ.Failure {
	needs := t.call(f.Seq)
	if needs == nil || f.Code != writ.CodeDependencyFailed {
		return &f
	}
	if cause := firstCause(t.calls, needs); cause != needs && cause.Error != nil {
		f.Code, f.Hint, f.Seq = cause.Error.Code, cause.Error.Hint, cause.Seq
		f.Message = fmt.Sprintf("%s needs %s, which did not succeed: %s", describe(needs), describe(cause), clip(cause.Error.Message, maxCause))
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
func describeSeq(t *step, seq int) string { return fmt.Sprintf("%d (%s)", seq, describe(t.call(seq))) }

// conclude ends the run if nothing more can happen.
func (t *step) conclude(tx *journal.Tx) error {
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

// unhandled returns the call that fails the run: the first that failed and whose error the script never read; a call that failed by
// itself comes before those that only needed it.
func (t *step) unhandled() *journal.Call {
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

// end moves the run to its last state and signs what became of it.
func (t *step) end(tx *journal.Tx, state writ.RunState) error {
	run := t.run
	for _, c := range t.calls { // only those of a stopped run whose nodes did not report in time
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
	run.Ended, run.Reason, run.Waiting = t.now, "", nil
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
			t.others = append(t.others, next)
		}
	}
	results, err := tx.ResultsDigest(run.ID, t.calls)
	if err != nil {
		return err
	}
	run.Summary, err = envelope.Sign(envelope.Summary, t.s.Key, writ.Summary{
		Run: run.ID, Datacenter: t.s.Datacenter, Payload: run.Payload, State: state, Failure: run.Failure, Output: run.Output,
		Calls: len(t.calls), Results: results, Ended: t.now.UnixMilli(),
	})
	return err
}

// sayBlocked says what a run waits for that must not begin: while it is on hold, or before another one of its deployment has ended.
func (t *step) sayBlocked() {
	h := t.notBegun()
	if t.blocked == "" && h == nil || t.run.State.Ended() || t.run.Stop != nil {
		return
	}
	why := fmt.Sprintf("waits for run %s, an earlier one of the deployment %s", t.blocked, t.run.Deployment)
	if h != nil {
		why = t.s.whyOnHold(h)
	}
	if t.run.Reason != why {
		t.run.Reason, t.runDirty, t.runMoved = why, true, true
	}
}

func (t *step) moveRun(to writ.RunState) error {
	t.runDirty, t.runMoved = true, true
	return t.run.Move(to)
}

// keep writes the run and the calls that changed, with their events. That a run waits for other calls is not worth a write as long as it is
// remembered until its next step: a step that reads it meanwhile, with calls to wait for that have ended, takes another pass, which says the same.
func (t *step) keep(tx *journal.Tx) error {
	for _, c := range t.calls {
		if !t.touched[c.Seq] {
			continue
		}
		if err := tx.PutCall(c); err != nil {
			return err
		}
		switch {
		case c.WasOpen() && c.State.Ended():
			t.opened--
		case !c.WasOpen() && !c.State.Ended():
			t.opened++
		}
		shown := c.Call
		t.events = append(t.events, writ.Event{Call: &shown})
		if err := t.handOver(tx, c); err != nil {
			return err
		}
	}
	if idle := !t.unevaluated(); idle != t.run.Idle {
		t.run.Idle, t.runDirty = idle, true
	}
	t.sayBlocked()
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
	tx.Then(t.count)
	return nil
}

// count keeps the numbers of what is open, so that who is told that something ended finds room for something new.
func (t *step) count() {
	if t.opened != 0 {
		t.s.opened.addCalls(t.run.Project, t.opened)
	}
	if t.resumed {
		t.s.opened.addRuns(t.run.Project, 1)
	}
	if t.run.State.Ended() && t.runMoved {
		t.s.opened.addRuns(t.run.Project, -1)
	}
}

// handOver lets the runs that wait longest for the resource of a call look at it again, if the call stood in their way and does no more. One
// that never did wakes nobody: two runs that both go on waiting would wake each other for ever.
func (t *step) handOver(tx *journal.Tx, c *journal.Call) error {
	if c.Kind == "" || !c.StoodInTheWay() || c.Claimed && !c.State.Ended() {
		return nil
	}
	next, err := tx.RunsWaitingFor(c.Resource(), t.run.ID, handOvers)
	t.others = append(t.others, next...)
	return err
}

// afterCommit does what may be done only once the step is on disk: sending, acknowledging, waking others.
func (t *step) afterCommit() {
	s := t.s
	s.dispatch.flush()
	for node := range t.freed {
		if s.fleet.hasBacklog(node) {
			s.freed.add(node, t.run.ID)
		}
	}
	for _, run := range t.others {
		s.steps.post(run, mail{})
	}
	switch {
	case t.run.State.Ended() && t.runMoved:
		s.Log.Info("run ended", "run", t.run.ID, "state", t.run.State, "calls", len(t.calls))
		s.programs.forget(t.run.ID)
		s.reverified.forget(t.run.ID)
		s.inventories.forget(t.run.ID)
	case t.wantsPass():
		s.steps.post(t.run.ID, mail{})
	}
}
