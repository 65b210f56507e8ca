package supervisor

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"writ"
	"writ/internal/failpoint"
	"writ/supervisor/fleet"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
	"writ/supervisor/workflow"
)

const (
	// watchEvery is the scan interval of the watch.
	watchEvery = time.Second
	// clockStep is the minimum backward step of the wall clock after which the watch looks for times that are now far
	// in the future.
	clockStep = 5 * time.Second
	// endGrace is added to the end-by of a call before the call is given up. A live node reports by then.
	endGrace = 5 * time.Second
	// missedLooks is the number of consecutive scans that must miss a job before it is delivered again. Its result may
	// be on the way.
	missedLooks = 2
	// maxListened limits the listening time that one scan counts. After a longer pause the watch was blocked, and
	// possibly the collector too.
	maxListened = 2 * watchEvery
	// maxDue limits the runs that get a step in one scan because a time has passed.
	maxDue = 1000
	// maxHeld limits the calls that wait for a node, and the calls that wait for their resource, of which one scan
	// rechecks each kind in rotation. Normally an event wakes them, but not if they wait for one of several things.
	maxHeld = 100
)

// watcher holds the state of the watch between two scans.
type watcher struct {
	s        *Supervisor
	last     time.Time     // last scan, by the monotonic clock
	wall     time.Time     // last scan, by the wall clock
	rounds   int64         // rounds of the collector at the last progress
	heard    time.Time     // last progress of the collector, by the monotonic clock
	setBack  bool          // the wall clock was set back and the affected times are not handled yet
	flushed  bool          // the queue lost its contents, and jobs must be delivered again
	lost     []writ.NodeID // lost nodes whose runs do not know about the loss yet
	missing  map[mail.Delivery]int
	begun    map[mail.Delivery]bool          // jobs that nodes work on and whose runs do not have them as started
	left     map[mail.Delivery]time.Duration // remaining time of sent calls until their end-by
	fleet    map[writ.NodeID]writ.Node       // nodes at the last scan
	changes  fleet.Changes                   // nodes whose last event is outdated
	restated int64                           // last seen Journal.Restated
	due      journal.Due                     // cursor of due calls
	again    journal.Due                     // cursor of the repeated check of the same calls
	held     journal.Due                     // cursor of calls that wait for their resource
	holds    int                             // number of hold changes when the last notification round began
	told     journal.Looked                  // cursor of the notification round of the last hold change
	telling  bool                            // a notification round is in progress
	looked   journal.Looked                  // cursor of the scan for runs without a wake-up
	asleep   []writ.RunID                    // runs without a wake-up in the last scan
	aged     time.Time                       // last read of the ages, by the monotonic clock
}

// watch scans every second for missing events: silent nodes, lost jobs and passed times.
func (s *Supervisor) watch(ctx context.Context) error {
	now := time.Now()
	w := &watcher{s: s, restated: -1, last: now, wall: s.Now(), heard: now, missing: make(map[mail.Delivery]int)}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := w.look(ctx); err != nil && ctx.Err() == nil && s.Journal.Fault() == nil {
				s.warnings.Refused("", "watch the datacenter; trying again", err)
			}
		}
	}
}

func (w *watcher) look(ctx context.Context) error {
	s := w.s
	at, now := time.Now(), s.Now()
	passed := at.Sub(w.last)
	w.setBack = w.setBack || now.Round(0).Sub(w.wall.Round(0)) < passed-clockStep
	w.last, w.wall = at, now

	flushed, queueErr := w.generation(ctx)
	w.flushed = w.flushed || flushed
	s.faults.look(ctx, s.Journal, queueErr, at)
	s.steps.Retry()
	s.warnings.Repeat(at)
	listened := w.listened(at, s.collector.Rounds(), queueErr == nil)
	w.applySilence()
	w.lost = append(w.lost, s.fleet.Tick(at, now, listened)...)
	changed := w.changedNodes()
	var seen sight
	err := s.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
		seen, err = w.read(tx, now)
		return err
	})
	if err != nil {
		return err
	}
	w.note(seen, now)
	if err := w.finishDrain(ctx, seen.empty); err != nil {
		return err
	}
	w.endOverdue(seen.overdue, seen.sent, now, listened)
	if err := w.giveUp(ctx); err != nil {
		return err
	}
	if queueErr == nil {
		err = w.findMissing(ctx, seen.sent) // does not stop the scan: it may be the fault of one node
	}
	for _, call := range seen.due {
		s.steps.Post(call.Run, mail.Mail{})
	}
	for _, id := range seen.ahead {
		s.steps.Post(id, mail.Mail{})
	}
	w.setBack = false
	w.offerRoom(ctx, seen.loads, changed)
	err = errors.Join(err, w.tellHolds(ctx), w.wakeSleepers(ctx), w.announce(ctx, seen.loads))
	if queueErr == nil {
		w.askAgain()
	}
	return err
}

// applySilence applies the silent and lost timeouts of the roster in force.
func (w *watcher) applySilence() {
	silence := w.s.rosters.Current().Datacenter(w.s.Datacenter).NodeSilence()
	if w.s.fleet.Presence.SetSilence(silence) {
		w.s.Log.Info("nodes that are not heard count as silent, then as lost", "silent_after", silence.Silent,
			"lost_after", silence.Lost)
	}
}

// sight holds the facts that one scan reads from the journal.
type sight struct {
	sent    []*journal.Call
	due     []journal.Due
	overdue []writ.RunID
	ahead   []writ.RunID // runs whose wait became too long because the clock was set back
	loads   map[writ.NodeID]journal.Load
	planned map[writ.NodeID]time.Time // start of the oldest wait; nil if not read in this scan
	behind  map[string]int64          // events that each coordinator has not confirmed; nil if not read in this scan
	empty   []writ.NodeID             // draining nodes without open calls
}

// read reads the facts of a scan. If the clock was set back, all cursors restart.
func (w *watcher) read(tx *journal.Tx, now time.Time) (seen sight, err error) {
	if seen.sent, err = tx.SentCalls(); err != nil {
		return seen, err
	}
	if seen.due, err = w.dueCalls(tx, now); err != nil {
		return seen, err
	}
	if seen.overdue, err = tx.DueRuns(now, maxDue); err != nil {
		return seen, err
	}
	if seen.loads, err = tx.Loads(); err != nil {
		return seen, err
	}
	if err = w.readAges(tx, &seen); err != nil {
		return seen, err
	}
	if w.setBack {
		w.due, w.again, w.held = journal.Due{}, journal.Due{}, journal.Due{}
		if seen.ahead, err = tx.RunsStampedAfter(now.Add(workflow.BackoffMost)); err != nil {
			return seen, err
		}
		for _, c := range seen.sent { // runs that are ending wait for sent calls
			seen.ahead = append(seen.ahead, c.Run)
		}
	}
	for _, n := range w.s.fleet.Members.List() {
		if n.Scheduling == writ.SchedulingDraining && seen.loads[n.ID].Open() == 0 {
			seen.empty = append(seen.empty, n.ID)
		}
	}
	return seen, nil
}

// offerRoom wakes the calls that wait for room on their node. If the node has changed and cannot receive jobs, they get
// a step to update their wait reason.
func (w *watcher) offerRoom(ctx context.Context, loads map[writ.NodeID]journal.Load, changed map[writ.NodeID]bool) {
	s := w.s
	for _, node := range s.fleet.Members.Serving() {
		_, why := s.fleet.Members.Away(node)
		switch {
		case loads[node].Planned == 0:
			s.fleet.Backlog.SetBacklog(node, false)
		case changed[node] && !why.IsZero():
			s.wakeSendable(ctx, node, "", func(journal.Load) (room, slots int) { return maxDue, 0 })
		default:
			s.offer(ctx, node, "")
		}
	}
}

// dueCalls returns the calls to check: calls whose time has come since the last scan, all calls that wait for a node if
// a node has changed, and a rotating part of all waiting calls.
func (w *watcher) dueCalls(tx *journal.Tx, now time.Time) ([]journal.Due, error) {
	due, err := tx.DueCalls(w.due, now, maxDue)
	if err != nil {
		return nil, err
	}
	if len(due) > 0 {
		w.due = due[len(due)-1]
	}
	again, err := nextFew(tx.DueCalls, &w.again, now)
	if err != nil {
		return nil, err
	}
	held, err := nextFew(tx.HeldCalls, &w.held, now)
	return slices.Concat(due, again, held), err
}

// nextFew returns the next maxHeld entries of a list after at, and advances at. After the end it restarts.
func nextFew(
	list func(after journal.Due, now time.Time, max int) ([]journal.Due, error), at *journal.Due, now time.Time,
) ([]journal.Due, error) {
	some, err := list(*at, now, maxHeld)
	*at = journal.Due{}
	if len(some) == maxHeld {
		*at = some[maxHeld-1]
	}
	return some, err
}

// changedNodes returns the nodes whose reported or decided state has changed since the last scan. Any call that waits
// for a node may wait for such a change, so the cursor of due calls restarts.
func (w *watcher) changedNodes() map[writ.NodeID]bool {
	changed := make(map[writ.NodeID]bool)
	before := w.fleet
	w.fleet = make(map[writ.NodeID]writ.Node)
	for _, n := range w.s.fleet.Members.List() {
		n.Used, n.LastBeat = writ.Capacity{}, time.Time{}
		w.fleet[n.ID] = n
		if !reflect.DeepEqual(n, before[n.ID]) {
			changed[n.ID] = true
			w.due = journal.Due{}
		}
	}
	return changed
}

// finishDrain marks draining nodes without open calls as drained. This does not count as a decision, so decisions that
// were signed meanwhile stay valid.
func (w *watcher) finishDrain(ctx context.Context, empty []writ.NodeID) error {
	for _, node := range empty {
		err := w.s.nodeDecisions.Change(ctx, node, func(tx *journal.Tx, n *journal.Node) error {
			load, err := tx.Load(node)
			if err == nil && load.Open() == 0 && n.Scheduling == writ.SchedulingDraining {
				n.Scheduling = writ.SchedulingDrained
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// generation reports whether the queue has lost its contents since the last scan. The mark uses the same transport as
// beats, so an error means that the silence of nodes does not count.
func (w *watcher) generation(ctx context.Context) (flushed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, watchEvery)
	defer cancel()
	mark := fmt.Sprint(w.s.epoch)
	have, err := w.s.Queue.Generation(ctx)
	if err == nil {
		// written each time: a Redis with a full disk can be read but accepts no beats
		err = w.s.Queue.SetGeneration(failpoint.At(ctx, failpoint.GenerationSet), mark)
	}
	return err == nil && have != mark, err
}

// listened returns the part of the time since the last scan that counts as silence of nodes. The queue must have
// worked, and the collector must have handled the messages that arrived. The time does not count while the queue is
// away, the journal blocks the collector, or the supervisor is suspended.
func (w *watcher) listened(at time.Time, rounds int64, queueWorks bool) time.Duration {
	passed := min(at.Sub(w.heard), maxListened)
	switch {
	case !queueWorks:
		passed = 0
	case rounds == w.rounds:
		return 0 // counted after the next round of the collector
	}
	w.rounds, w.heard = rounds, at
	return passed
}

// endOverdue ends runs past their deadline and calls past their end-by. A deadline is a wall clock time. The remaining
// time of a call is measured with the monotonic clock, as on its node, so a changed clock ends no call early. It runs
// only while nodes are listened to: nodes end calls in time by themselves, and an unsent call has not started.
func (w *watcher) endOverdue(runs []writ.RunID, sent []*journal.Call, now time.Time, listened time.Duration) {
	for _, id := range runs {
		err := writ.Errorf(writ.CodeRunExpired, "the run did not end before its deadline").
			WithHint("give it more time with --deadline")
		w.s.steps.Post(id, mail.Mail{Stop: &mail.Stop{State: writ.RunExpired, Err: err, By: now.Add(workflow.StopWithin)}})
	}
	left := make(map[mail.Delivery]time.Duration, len(sent))
	for _, c := range sent {
		job := mail.DeliveryOf(c)
		rest, known := w.left[job]
		if rest -= listened; !known {
			rest = max(c.EndBy.Sub(now), 0) // messages that arrived in a pause are handled first
		}
		// a stopped node measures no time, so the call has its full time after the node's return
		if c.Why.LostNode() || c.KeptBack {
			rest = c.EndBy.Sub(c.Queued)
		}
		if left[job] = rest; rest < -endGrace {
			w.s.steps.Post(c.Run, mail.Mail{Overdue: []writ.JobKey{c.Key()}})
		}
	}
	w.left = left
}

// giveUp informs every run with open calls on a lost node.
func (w *watcher) giveUp(ctx context.Context) error {
	for len(w.lost) > 0 {
		node := w.lost[0]
		w.s.Log.Error("node is lost", "node", w.s.fleet.Members.Name(node))
		var runs []writ.RunID
		err := w.s.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
			runs, err = tx.RunsOn(node)
			return err
		})
		if err != nil {
			return err
		}
		for _, id := range runs {
			w.s.steps.Post(id, mail.Mail{LostNodes: []writ.NodeID{node}})
		}
		w.lost = w.lost[1:]
	}
	return nil
}

// askAgain repeats the withdrawal of jobs on lost nodes that failed while the queue was away. A node that is back
// reports its own jobs.
func (w *watcher) askAgain() {
	for _, q := range w.s.outbox.TakeUnanswered() {
		if n, _ := w.s.fleet.Members.Get(q.Node); workflow.IsAway(n) {
			w.s.steps.Post(q.Run, mail.Mail{LostNodes: []writ.NodeID{q.Node}})
		}
	}
}

// hearAgain repeats the start message of a call whose first one did not reach its run; a beat reports a start only
// once. The first scan that finds such a call only remembers it, because the message may be on its way.
func (w *watcher) hearAgain(begun map[mail.Delivery]bool, c *journal.Call) {
	job := mail.DeliveryOf(c)
	if begun[job] = true; w.begun[job] {
		w.s.steps.Post(c.Run, mail.Mail{Started: []mail.Active{{Key: c.Key(), Node: c.Node}}})
	}
}

// findMissing compares the sent calls with the last beats of their nodes. A call that is neither on its node nor in the
// queue is delivered again. If a node's part of the queue cannot be read, its queued calls are skipped and the error is
// returned.
func (w *watcher) findMissing(ctx context.Context, sent []*journal.Call) (failed error) {
	s := w.s
	missing := make(map[mail.Delivery]int)
	begun := make(map[mail.Delivery]bool)
	unseen := make(map[writ.NodeID]map[string]*journal.Call) // by task ID: calls that their node does not work on
	for _, c := range sent {
		active, ready, _ := s.fleet.Presence.Works(c.Node, c.Key())
		if active && c.State == writ.CallQueued {
			w.hearAgain(begun, c)
		}
		if !ready || active {
			continue
		}
		if unseen[c.Node] == nil {
			unseen[c.Node] = make(map[string]*journal.Call)
		}
		unseen[c.Node][mail.DeliveryOf(c).TaskID()] = c
	}
	for node, calls := range unseen {
		gone := make([]string, 0, len(calls))
		for id, c := range calls {
			if c.State == writ.CallRunning || c.StartBy.Before(w.wall) {
				w.miss(missing, c) // it has started but is not active, or waited too long to start
			} else {
				gone = append(gone, id)
			}
		}
		if !w.flushed && len(gone) > 0 {
			var err error
			if gone, err = s.Queue.Missing(ctx, node, gone...); err != nil {
				failed = errors.Join(failed, fmt.Errorf("find the jobs of %s: %w", s.fleet.Members.Name(node), err))
			}
		}
		for _, id := range gone {
			w.miss(missing, calls[id])
		}
	}
	w.missing, w.begun = missing, begun
	if w.flushed { // the queue lost the messages to nodes as well
		s.fleet.Presence.RepeatGivenUp()
	}
	w.flushed = false
	return failed
}

// tellHolds gives all open runs a step after a hold was set or released, because their wait reasons may have changed.
func (w *watcher) tellHolds(ctx context.Context) error {
	if n := w.s.holds.Changes(); n != w.holds {
		w.holds, w.told, w.telling = n, journal.Looked{}, true
	}
	if !w.telling {
		return nil
	}
	var runs []writ.RunID
	next := w.told
	err := w.s.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
		runs, next, err = tx.OpenRunsAfter(w.told, maxDue)
		return err
	})
	if err != nil {
		return fmt.Errorf("find runs that were on hold: %w", err)
	}
	for _, id := range runs {
		w.s.steps.Post(id, mail.Mail{})
	}
	if w.told, w.telling = next, next != (journal.Looked{}); !w.telling {
		w.s.heldTold.Store(int64(w.holds))
	}
	return nil
}

// miss counts a scan in which a job was missing. It delivers the job again after missedLooks scans, or at once if the
// queue lost its contents.
func (w *watcher) miss(missing map[mail.Delivery]int, c *journal.Call) {
	job := mail.DeliveryOf(c)
	looks := w.missing[job] + 1
	if w.flushed || looks >= missedLooks {
		w.s.steps.Post(c.Run, mail.Mail{Resend: []mail.Delivery{job}})
		return
	}
	missing[job] = looks
}

// announce writes an event for each node whose public state has changed, and the new facts about machines.
func (w *watcher) announce(ctx context.Context, loads map[writ.NodeID]journal.Load) error {
	// the journal repeated its events about nodes, with their state at joining
	if n := w.s.Journal.Restated(); n != w.restated {
		w.restated = n
		w.changes.Forget()
	}
	w.s.fleet.Members.SetReserved(loads)
	changed := w.changes.Find(w.s.fleet.Members.List())
	lives := w.s.fleet.Machines.Unstored()
	if len(changed)+len(lives) == 0 {
		return nil
	}
	events := make([]writ.Event, len(changed))
	for i := range changed {
		events[i].Node = &changed[i]
		if journal.Shorten(&events[i]) {
			w.s.warnings.Refused(changed[i].ID, "node report exceeds the size of an event; coordinators receive a shortened report",
				writ.Errorf(writ.CodeTooLarge, "its drivers, disks, networks, orphans and stuck jobs do not fit into one event"))
		}
	}
	err := w.s.Journal.Write(failpoint.At(ctx, failpoint.NodesAnnounced), func(tx *journal.Tx) error {
		tx.AddEvents(events...)
		return fleet.PutLives(tx, lives)
	})
	if err == nil {
		w.changes.Written(changed)
		w.s.fleet.Machines.Stored(lives)
	}
	return err
}
