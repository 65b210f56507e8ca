package workflow

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"writ"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/supervisor/bound"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
)

// handOvers limits how many runs are woken when a resource becomes free. Several runs are woken, because the first run
// may have another reason to wait. Package watch wakes the other runs.
const handOvers = 4

// writer writes a step into its transaction.
type writer struct {
	*Step
	tx     *journal.Tx
	events []writ.Event
	early  bool // the step has stored a result of a call that its list lacks
}

// apply writes the step in a fixed order: effects of results, outcome of the pass, resends, claims and placements,
// deliveries, end of the run. The changed run and calls follow last, with their events.
func (t *writer) apply(m mail.Mail, pass *pass) error {
	for i := range t.applied {
		if err := t.recordResult(&t.applied[i]); err != nil {
			return err
		}
	}
	if pass != nil {
		if err := t.adopt(pass); err != nil {
			return err
		}
	}
	if err := t.send(m.Resend); err != nil {
		return err
	}
	if err := t.conclude(); err != nil {
		return err
	}
	if err := t.persist(); err != nil {
		return err
	}
	if m.Also != nil {
		return m.Also(t.tx)
	}
	return nil
}

// send sends lost deliveries again, and arranges and sends the planned calls.
func (t *writer) send(lost []mail.Delivery) error {
	sends := sender{Step: t.Step, tx: t.tx}
	for _, d := range lost {
		if err := sends.deliverAgain(d); err != nil {
			return err
		}
	}
	// after a resume, calls are sent only once a pass shows that the script continues
	if t.run.Reopened && t.run.Stop == nil {
		return nil
	}
	if err := arrange(t.Step, newTxReader(t.tx)); err != nil {
		return err
	}
	return sends.sendCalls()
}

// adopt applies the outcome of a pass.
func (t *writer) adopt(pass *pass) error {
	run := t.run
	t.runDirty = t.runDirty || run.Crashes > 0 || run.Reopened
	run.Crashes, run.Reopened = 0, false
	if !run.Why.IsZero() { // the run waited to start, or was just resumed
		run.Why, t.runDirty, t.runMoved = writ.Reason{}, true, true
	}
	if run.State == writ.RunAccepted {
		run.Started = t.now
		if err := t.moveRun(writ.RunRunning); err != nil {
			return err
		}
	}
	if err := t.writeLog(pass); err != nil {
		return err
	}
	handled := t.handledCalls(pass.Handled)
	completed := pass.Status == scripts.Completed
	t.runDirty = t.runDirty || len(pass.Logs) > 0 || len(handled) > len(run.Handled) || completed != run.Completed
	run.Logs += len(pass.Logs)
	run.Waiting = pass.Waiting
	run.Handled = handled
	run.Completed = completed
	if run.Completed {
		run.Output = pass.Output
	}
	if err := fetchNamed(&t.calls, t.tx, run, pass); err != nil { // only if the step is repeated
		return err
	}
	for _, n := range pass.Calls {
		if err := t.addCall(n); err != nil {
			return err
		}
	}
	if pass.Status == scripts.Failed {
		run.Failure = t.calls.withRootCause(run.Handled, *pass.Failure)
		// only planned calls end; see journal.Run.StopsCalls
		t.halt(mail.Stop{State: writ.RunFailed, Err: &run.Failure.Error, By: run.Deadline})
	}
	return nil
}

// handledCalls returns the failed calls whose error the script has read, in this or an earlier pass, ascending. Reads
// of calls that succeeded are omitted, because they would cause a write of the run in each step.
func (t *writer) handledCalls(read []int) []int {
	all := slices.Clip(t.run.Handled)
	for _, seq := range read {
		if isHandled(t.run.Handled, seq) {
			continue
		}
		if c := t.calls.at(seq); c == nil || c.State != writ.CallSucceeded {
			all = append(all, seq)
		}
	}
	if len(all) > len(t.run.Handled) {
		slices.Sort(all)
	}
	return all
}

// persist writes the run and the changed calls, with their events. A run in memory whose only change is that it waits
// for other calls is not written. A step that reads the older record repeats the pass, with the same outcome.
func (t *writer) persist() error {
	for _, seq := range slices.Sorted(maps.Keys(t.touched)) {
		c := t.calls.at(seq)
		if err := t.tx.PutCall(c); err != nil {
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
		if err := t.handOver(c); err != nil {
			return err
		}
	}
	if idle := !unevaluated(t.Step) && !t.continues; idle != t.run.Idle {
		t.run.Idle, t.runDirty = idle, true
	}
	setWaitReason(t.Step)
	t.recordEnded()
	if t.runDirty || t.run.WaitsAnew() && !t.calls.anySent() {
		if err := t.tx.PutRun(t.run); err != nil {
			return err
		}
	}
	if t.runMoved {
		shown := t.run.Run
		shown.Output = nil // the output leaves the datacenter only in the signed summary or on request
		t.events = append(t.events, writ.Event{Run: &shown})
	}
	t.tx.AddEvents(t.events...)
	t.count()
	return nil
}

// The end of the first calls of a run is recorded in parts of endedPart calls, because each part writes the run. The
// last lastKept calls stay in memory.
const endedPart, lastKept = 1000, 100

// recordEnded records the first calls that have ended, so that the next steps do not read them.
func (t *writer) recordEnded() {
	run := t.run
	last := firstEnded(&t.calls) - lastKept
	if last < run.FirstEnded+endedPart {
		return
	}
	for ; run.FirstEnded < last; run.FirstEnded++ {
		c := t.calls.at(run.FirstEnded + 1)
		run.FirstEndedBytes += bound.Size(c.Args) + bound.Size(c.Values)
	}
	run.FirstPart = 0
	t.calls.parts.update(&t.calls)
	for _, seq := range t.calls.parts.seqs {
		if seq <= run.FirstEnded && t.calls.at(seq).Node != "" {
			run.FirstPart = seq
		}
	}
	t.runDirty = true
}

// count records the change of the project's open work, and completes the stop messages.
func (t *writer) count() {
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
func (t *writer) handOver(c *journal.Call) error {
	if c.Kind == "" || !c.StoodInTheWay() || c.Claimed && !c.State.Ended() {
		return nil
	}
	next, err := t.tx.RunsWaitingFor(c.Resource(), t.run.ID, handOvers)
	t.out.Runs = append(t.out.Runs, next...)
	return err
}

// writeLog stores the log lines of a pass. An additional line reports the number of dropped lines.
func (t *writer) writeLog(p *pass) error {
	lines := p.Logs[:p.kept:p.kept]
	if dropped := len(p.Logs) - p.kept; dropped > 0 {
		lines = append(lines,
			fmt.Sprintf("%d lines are dropped here: scripts of the project %s log more than %d MiB a second", dropped,
				t.run.ProjectName, logBytes>>20))
	}
	for i, text := range lines {
		line := writ.LogLine{Run: t.run.ID, Ordinal: t.run.Logs + i + 1, Text: text, Time: t.now}
		if err := t.tx.AddLog(line); err != nil {
			return err
		}
		t.events = append(t.events, writ.Event{Log: &line})
	}
	return nil
}

// recordResult stores a result and its effect on the resource. A repeated result has no effect.
func (t *writer) recordResult(s *appliedResult) error {
	c := s.call
	first, err := t.tx.AddResult(c, s.Result.Attempt, s.Frame)
	if err != nil || !first {
		return err // a repeated result, whose first acknowledgement was lost
	}
	t.early = t.early || c.Seq <= t.calls.first
	op, ok := catalog.Lookup(c.Operation)
	if !ok || !op.Named() || s.Result.Error != nil || op.Effect == catalog.Look && op.Uses == nil {
		return nil
	}
	have, err := t.tx.Resource(c.Resource())
	if err != nil {
		return err
	}
	if op.Effect == catalog.Look {
		return chargeLook(t.tx, op, c, have, s.Result)
	}
	after, told := resourceAfter(t.Step, op, c, have, s.Result)
	switch {
	case !told:
		return nil
	case after == nil:
		gone := have.Resource
		gone.Deleted, gone.Run, gone.Updated = true, t.run.ID, t.now
		t.events = append(t.events, writ.Event{Resource: EventResource(gone)})
		return t.tx.RemoveResource(c.Resource())
	}
	t.events = append(t.events, writ.Event{Resource: EventResource(after.Resource)})
	return t.tx.PutResource(after)
}
