package supervisor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"writ"
	"writ/internal/failpoint"
	"writ/scripts"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
	"writ/supervisor/mailbox"
	"writ/supervisor/outbox"
	"writ/supervisor/placement"
)

// step is one step of one run, in memory. It is made from the journal, changed by mail and by a pass, and written in one transaction.
type step struct {
	s       *Supervisor
	now     time.Time
	run     *journal.Run
	calls   []*journal.Call                     // by seq: calls[i].Seq == i+1
	on      map[writ.ResourceID][]*journal.Call // the first calls, so many, by what they are about: see before
	indexed int
	blocked writ.RunID        // an earlier run of the same deployment
	genuine map[int]bool      // indexes of mail.results that answer a job which was sent
	left    map[int]*leftover // by index of mail.results: what stood in the way

	touched  map[int]bool    // seqs of calls to be written
	claimed  map[int]wait    // calls by seq whose need is known since this step, and reserved nowhere yet: as they waited before
	opened   int             // calls of the run that are open since, less those that have ended
	runDirty bool            // the run is to be written
	resumed  bool            // just now: a pass has a step of its own, that may fail by itself
	lacking  bool            // a call that was to be sent lacks a secret
	runMoved bool            // and told of: its state, or what is shown of it, changed
	applied  []appliedResult // results that ended a call or attempt
	events   []writ.Event

	outgoing map[writ.NodeID][]outbox.Job // jobs to send after the commit
	stops    outbox.Stops                 // work to take back after the commit; Run and Until are unset
	freed    map[writ.NodeID]bool         // nodes where room appeared
	others   []writ.RunID                 // runs that may go on now

	verdicts map[int]placement.Decision // on the groups of calls, by seq; nil where nobody wants to know
}

// appliedResult is a result that the run took, and the call as it was answered.
type appliedResult struct {
	mail.Arrival
	call *journal.Call
	late bool // the call had ended without it: only what it did to its resource counts
}

// step advances a run by what came in for it. It is called for one run at a time. A run that needs a record which somebody else has changed
// stays where it is until that is put right.
func (s *Supervisor) step(ctx context.Context, id writ.RunID, m mail.Mail) error {
	err := s.advance(ctx, id, m)
	if writ.CodeOf(err) == writ.CodeRecordForged {
		s.noteForged(ctx, id, err)
	}
	return err
}

// noteForged tells people that a run stays where it is, and why. A run whose own record was changed is not written.
func (s *Supervisor) noteForged(ctx context.Context, id writ.RunID, why error) {
	held := writ.Reason{Code: writ.ReasonForged, Error: withoutHint(writ.AsError(why))}
	err := s.Journal.Write(failpoint.At(ctx, new(mail.Mail).Change()), func(tx *journal.Tx) error {
		run, err := tx.Run(id)
		if err != nil || run == nil || run.State.Ended() || run.Why.Equal(held) {
			return err
		}
		run.Why = held
		shown := run.Run
		shown.Output = nil
		tx.AddEvents(writ.Event{Run: &shown})
		return tx.PutRun(run)
	})
	if err != nil && writ.CodeOf(err) != writ.CodeRecordForged && ctx.Err() == nil {
		s.Log.Warn("report a held run", "run", id, "err", err)
	}
}

// advance takes a step.
func (s *Supervisor) advance(ctx context.Context, id writ.RunID, m mail.Mail) error {
	t, err := s.load(ctx, id, m)
	if err != nil {
		return err
	}
	if t == nil {
		s.dropResults(m.Results)
		return nil
	}
	why, err := s.mayAct(ctx, t.run)
	if err != nil {
		return err
	}
	if err := t.receive(m, why); err != nil {
		return err
	}
	pass, err := t.evaluate(ctx)
	if err != nil {
		return err
	}
	written := t
	fresh := true
	err = s.Journal.Write(failpoint.At(ctx, m.Change()), func(tx *journal.Tx) error {
		if !fresh { // the commit failed with its group and is tried alone: begin with what the journal holds
			again, err := s.reload(ctx, tx, id, m)
			if err != nil {
				return err
			}
			if err := again.receive(m, why); err != nil {
				return err
			}
			written = again
		}
		fresh = false
		if err := written.apply(tx, m, pass); err != nil {
			return err
		}
		step := written
		tx.Then(func() { s.outbox.Put(step.outgoing, m.Results, step.stopsWork()) }) // at once with all that shares the commit
		return nil
	})
	if err != nil {
		return err
	}
	written.remember()
	written.afterCommit()
	return nil
}

// remember keeps the run for its next step if a result will bring that soon. The step is on disk.
func (t *step) remember() {
	if !t.isOut() {
		return
	}
	t.run.Committed()
	for seq := range t.touched {
		t.call(seq).Committed()
	}
	t.s.recent.put(&recentRun{t.run, t.calls})
}

// isOut reports whether a node has a call of the run, so that a result will bring its next step.
func (t *step) isOut() bool {
	return slices.ContainsFunc(t.calls, func(c *journal.Call) bool { return c.State.Sent() })
}

// load returns a run as the journal has it, nil if it is unknown.
func (s *Supervisor) load(ctx context.Context, id writ.RunID, m mail.Mail) (t *step, err error) {
	if t := s.again(id, m); t != nil {
		return t, nil
	}
	err = s.Journal.Read(ctx, func(tx *journal.Tx) error {
		t, err = s.reload(ctx, tx, id, m)
		return err
	})
	return t, err
}

// again returns a run that had a step just now, nil if something must be read that only the journal knows.
func (s *Supervisor) again(id writ.RunID, m mail.Mail) *step {
	r := s.recent.take(id)
	if r == nil || r.run.State == writ.RunAccepted && r.run.Deployment != "" {
		return nil
	}
	t := s.newStep(r.run, s.Now().UTC().Truncate(time.Microsecond)) // the journal keeps no more of a time
	t.calls = r.calls
	t.rebase()
	for i, a := range m.Results {
		c := t.call(a.Result.Seq)
		if c == nil || !c.LastSent(a.Result.Attempt, a.Node, a.Result.Job) || a.Result.Found != "" {
			return nil
		}
		t.genuine[i] = true
	}
	return t
}

func (s *Supervisor) reload(_ context.Context, tx *journal.Tx, id writ.RunID, m mail.Mail) (*step, error) {
	run, err := tx.Run(id)
	if err != nil || run == nil {
		return nil, err
	}
	t := s.newStep(run, tx.Now)
	if t.calls, err = tx.Calls(id); err != nil {
		return nil, err
	}
	t.weigh()
	t.rebase()
	if run.State == writ.RunAccepted {
		if t.blocked, err = tx.EarlierRun(run); err != nil {
			return nil, err
		}
	}
	for i, a := range m.Results {
		c := t.call(a.Result.Seq)
		if c == nil {
			continue
		}
		if t.genuine[i], err = tx.WasSent(c, a.Result.Attempt, a.Node, a.Result.Job); err != nil {
			return nil, err
		}
		if t.left[i], err = t.leftoverOf(tx, a); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// dropResults acknowledges results of runs that there are not: they were of a journal before this one, restored from a backup, and nobody waits
// for them any more.
func (s *Supervisor) dropResults(results []mail.Arrival) {
	byNode := make(map[writ.NodeID]int)
	for _, a := range results {
		byNode[a.Node]++
	}
	for node, n := range byNode {
		s.accounts.countUseless(node, unasked, n)
	}
	s.outbox.Put(nil, results, outbox.Stops{})
	s.outbox.Flush()
}

// ownersOf returns whose runs are, without those that there are not.
func (s *Supervisor) ownersOf(runs []writ.RunID) (map[writ.RunID]writ.ProjectID, error) {
	owners := make(map[writ.RunID]writ.ProjectID)
	var rest []writ.RunID
	for _, id := range runs {
		if project := s.recent.projectOf(id); project != "" {
			owners[id] = project
		} else {
			rest = append(rest, id)
		}
	}
	if len(rest) == 0 {
		return owners, nil
	}
	err := s.Journal.Read(context.Background(), func(tx *journal.Tx) error {
		for _, id := range rest {
			run, err := tx.Run(id)
			if err != nil && writ.CodeOf(err) != writ.CodeRecordForged {
				return err
			}
			switch {
			case err != nil:
				owners[id] = mailbox.Forged
			case run != nil:
				owners[id] = run.Project
			}
		}
		return nil
	})
	return owners, err
}

func (s *Supervisor) newStep(run *journal.Run, now time.Time) *step {
	return &step{
		s: s, now: now, run: run,
		genuine: make(map[int]bool), left: make(map[int]*leftover), touched: make(map[int]bool), claimed: make(map[int]wait),
		outgoing: make(map[writ.NodeID][]outbox.Job),
		stops: outbox.Stops{
			Cancels: make(map[writ.NodeID]int), GivenUp: make(map[writ.NodeID][]writ.JobKey), Withdraw: make(map[writ.NodeID][]mail.Delivery),
			Reclaim: make(map[writ.NodeID][]mail.Delivery), Stale: make(map[writ.NodeID][]mail.Delivery),
		},
		freed: make(map[writ.NodeID]bool),
	}
}

// rebase lets no call wait longer than one ever does, and no end of a run take longer: the clock was set back since it began. A run whose
// script failed has until its deadline.
func (t *step) rebase() {
	if run := t.run; run.Stop != nil && !run.State.Ended() && !run.StopBy.Equal(run.Deadline) && run.StopBy.After(t.now.Add(stopWithin)) {
		run.StopBy, t.runDirty = t.now.Add(stopWithin), true
	}
	for _, c := range t.calls {
		if c.State == writ.CallPlanned && c.RetryAt.After(t.now.Add(backoffMost)) {
			c.RetryAt = t.now
			t.touch(c)
		}
	}
}

// weigh counts what the calls have of the run's bytes: a run is not written because they have become more.
func (t *step) weigh() {
	t.run.Bytes = 0
	for _, c := range t.calls {
		t.run.Bytes += sizeOf(c.Args) + sizeOf(c.Values)
	}
}

// stopsWork returns the work to take back.
func (t *step) stopsWork() outbox.Stops {
	stops := t.stops
	stops.Run, stops.Until = t.run.ID, t.run.Deadline.Add(time.Hour).UnixMilli()
	return stops
}

// call returns a call by its seq, nil if the run has none.
func (t *step) call(seq int) *journal.Call {
	if seq < 1 || seq > len(t.calls) {
		return nil
	}
	return t.calls[seq-1]
}

// open returns a call that is out at a node under exactly this key, nil if it is not.
func (t *step) open(key writ.JobKey) *journal.Call {
	if c := t.call(key.Seq); c != nil && c.Attempt == key.Attempt && c.State.Sent() {
		return c
	}
	return nil
}

// touch marks a call to be written.
func (t *step) touch(c *journal.Call) { t.touched[c.Seq] = true }

// move changes the state of a call.
func (t *step) move(c *journal.Call, to writ.CallState) error {
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
func (t *step) isClaimed(c *journal.Call) bool {
	_, is := t.claimed[c.Seq]
	return is
}

func (t *step) waits(c *journal.Call) wait { return wait{c.Why, c.RetryAt, !t.touched[c.Seq]} }

// waitOn lets a call wait as it did before it was claimed; it is told of only if the reason is another one.
func (t *step) waitOn(c *journal.Call, before wait, why writ.Reason) {
	c.Claimed, c.Need = false, writ.Capacity{}
	c.Why, c.RetryAt = before.why, before.since
	if before.kept {
		delete(t.touched, c.Seq)
	}
	t.delay(c, why)
}

// delay makes a planned call wait. The step checks it again every second.
func (t *step) delay(c *journal.Call, why writ.Reason) {
	if !c.Why.Equal(why) {
		c.Why, c.RetryAt = why, t.now
		t.touch(c)
	}
}

// fail ends a call for good.
func (t *step) fail(c *journal.Call, state writ.CallState, err *writ.Error) error {
	c.Error, c.Ended, c.Why, c.Ready = err, t.now, writ.Reason{}, false
	return t.move(c, state)
}

// wantsPass reports whether evaluating the script can bring anything new now.
func (t *step) wantsPass() bool { return t.blocked == "" && t.unevaluated() && t.notBegun() == nil }

// unevaluated reports whether evaluating the script can bring anything new, once it is the run's turn in its deployment and it is not on hold.
func (t *step) unevaluated() bool {
	if t.run.State.Ended() || t.run.Stop != nil || t.run.Completed {
		return false
	}
	return len(t.run.Waiting) == 0 || slices.ContainsFunc(t.run.Waiting, func(seq int) bool {
		c := t.call(seq)
		return c != nil && c.State.Ended()
	})
}

// maxCrashes is how often the evaluator may die in a row over one run before the run is failed.
const maxCrashes = 3

// pass is what a pass of the script found.
type pass struct {
	scripts.Outcome
	kept int // of the lines that it adds to the log, from the first: see admitLog
}

// evaluate runs a pass of the script if there is reason to, nil if there is none. An evaluator that died is an outcome, too: after
// maxCrashes deaths in a row it is the script's failure.
func (t *step) evaluate(ctx context.Context) (*pass, error) {
	if t.resumed || !t.wantsPass() {
		return nil, nil
	}
	p, err := t.s.program(ctx, t.run)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	outcome, err := t.s.pass(ctx, p, t.entries(), t.run.Logs)
	t.s.counts.notePass(ctx, time.Since(began), err)
	switch {
	case err == nil:
		kept, err := t.s.admitLog(ctx, t.run.Project, outcome.Logs)
		return &pass{outcome, kept}, err
	case writ.CodeOf(err) == writ.CodeEvaluatorCrashed && ctx.Err() == nil:
		t.run.Crashes++
		if t.run.Crashes >= maxCrashes {
			return &pass{Outcome: scripts.Outcome{Status: scripts.Failed, Failure: &writ.Failure{Error: *writ.AsError(err), Position: t.lastPosition()}}}, nil
		}
		return nil, t.keepCrashes(ctx)
	default:
		return nil, fmt.Errorf("evaluate: %w", err)
	}
}

// keepCrashes records the death of the evaluator at once, so that a script which also kills the supervisor's host cannot do so for
// ever, and asks for another step.
func (t *step) keepCrashes(ctx context.Context) error {
	t.s.warnings.Warn("", "evaluator ended", "run", t.run.ID, "signer", t.run.Signer, "crashes", t.run.Crashes)
	crashes := t.run.Crashes
	err := t.s.Journal.Write(failpoint.At(ctx, failpoint.EvaluatorDied), func(tx *journal.Tx) error {
		run, err := tx.Run(t.run.ID)
		if err != nil {
			return err
		}
		run.Crashes = crashes
		return tx.PutRun(run)
	})
	if err != nil {
		return err
	}
	return writ.Errorf(writ.CodeEvaluatorCrashed, "evaluating the script killed its process %d times", crashes)
}

// lastPosition is where the script made its last call.
func (t *step) lastPosition() string {
	if len(t.calls) == 0 {
		return ""
	}
	return t.calls[len(t.calls)-1].Position
}

// entries are the calls as a pass sees them.
func (t *step) entries() []scripts.Entry {
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
