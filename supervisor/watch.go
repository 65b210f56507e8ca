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
	"writ/supervisor/journal"
	"writ/supervisor/mail"
	"writ/supervisor/workflow"
)

const (
	// watchEvery is how often the supervisor looks for what does not happen.
	watchEvery = time.Second
	// clockStep is how far the wall clock must go back at once for the watch to look for times that are far away now.
	clockStep = 5 * time.Second
	// endGrace is how long after its end-by a call is given up: the node reports by then if it lives.
	endGrace = 5 * time.Second
	// missedLooks is how many looks in a row must find that nobody has a job before it is delivered again: its result may be on
	// the way.
	missedLooks = 2
	// maxListened is how much time one look takes for listened to at most. One that comes later was kept from looking, and so may the collector.
	maxListened = 2 * watchEvery
	// maxDue is how many runs get a step in one look because a time is over.
	maxDue = 1000
	// maxHeld is how many calls that wait for a node, and how many that wait for their resource, are looked at again in one look, in turn:
	// what they wait for lets them know when it comes, except where it is one of several things.
	maxHeld = 100
)

// watcher remembers, between two looks, which jobs nobody seemed to have.
type watcher struct {
	s        *Supervisor
	last     time.Time     // of the last look, by the monotonic clock
	wall     time.Time     // and by the wall clock
	rounds   int64         // of the collector, when it was last seen to have heard everybody
	heard    time.Time     // that was then, by the monotonic clock
	setBack  bool          // the wall clock was, and nobody has looked for what that made far away
	flushed  bool          // the queue was, and not everything is delivered again
	lost     []writ.NodeID // whose runs were not told yet
	missing  map[mail.Delivery]int
	begun    map[mail.Delivery]bool          // that their nodes work on, and whose runs have not heard of it
	left     map[mail.Delivery]time.Duration // until the end-by of what is out
	fleet    map[writ.NodeID]writ.Node       // as it was then
	restated int64                           // how often the journal had told again what stands
	due      journal.Due                     // how far the calls have been looked at that wait for a time or a node
	again    journal.Due                     // and once more
	held     journal.Due                     // how far those that wait for their resource
	holds    int                             // how often what is on hold had changed, when telling began
	told     journal.Looked                  // how far the open runs were told of the last change
	telling  bool                            // not all of them were
	looked   journal.Looked                  // how far the open runs have been looked at for what would wake them
	asleep   []writ.RunID                    // those that nothing seemed to wake
	aged     time.Time                       // when the ages of what waits were read last, by the monotonic clock
}

// watch looks every second for what does not happen by itself: nodes that fell silent, jobs that are nowhere, times that are over.
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
	listened := w.listened(at, queueErr == nil)
	w.applySilence()
	w.lost = append(w.lost, s.fleet.tick(at, now, listened)...)
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
		err = w.findMissing(ctx, seen.sent) // which keeps nobody from the rest: it may be the fault of one node
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

// applySilence has nodes count as silent and as lost as the roster in force says.
func (w *watcher) applySilence() {
	silence := w.s.roster.Load().Datacenter(w.s.Datacenter).NodeSilence()
	if w.s.fleet.setSilence(silence) {
		w.s.Log.Info("nodes that are not heard count as silent, then as lost", "silent_after", silence.Silent, "lost_after", silence.Lost)
	}
}

// sight is what a look finds in the journal.
type sight struct {
	sent    []*journal.Call
	due     []journal.Due
	overdue []writ.RunID
	ahead   []writ.RunID // that wait for a time which was near before the clock was set back
	loads   map[writ.NodeID]journal.Load
	planned map[writ.NodeID]time.Time // since when the oldest call waits; nil if that was not read
	behind  map[string]int64          // events that coordinators have not confirmed, likewise
	empty   []writ.NodeID             // that are being drained
}

// read looks into the journal. A clock that was set back makes the watch begin anew with what it has looked at before.
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
		for _, c := range seen.sent { // what is being ended waits for them
			seen.ahead = append(seen.ahead, c.Run)
		}
	}
	for _, node := range w.s.fleet.draining() {
		if seen.loads[node].Open() == 0 {
			seen.empty = append(seen.empty, node)
		}
	}
	return seen, nil
}

// offerRoom wakes the calls that wait for room on their node, or only to say what they wait for now.
func (w *watcher) offerRoom(ctx context.Context, loads map[writ.NodeID]journal.Load, changed map[writ.NodeID]bool) {
	s := w.s
	for _, node := range s.fleet.serving() {
		_, why := s.fleet.Away(node)
		switch {
		case loads[node].Planned == 0:
			s.fleet.SetBacklog(node, false)
		case changed[node] && !why.IsZero():
			s.wakeSendable(ctx, node, "", func(journal.Load) (room, slots int) { return maxDue, 0 })
		default:
			s.offer(ctx, node, "")
		}
	}
}

// dueCalls returns the calls to be looked at: those whose time has come since the last look, all that wait for a node if one has changed, and
// some of those that wait all the same.
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

// nextFew returns the next few of a list after at, and goes on there; after the last ones it begins anew.
func nextFew(list func(after journal.Due, now time.Time, max int) ([]journal.Due, error), at *journal.Due, now time.Time) ([]journal.Due, error) {
	some, err := list(*at, now, maxHeld)
	*at = journal.Due{}
	if len(some) == maxHeld {
		*at = some[maxHeld-1]
	}
	return some, err
}

// changedNodes returns the nodes that say something else of themselves than at the last look, or about which something was decided. Every
// call that waits for a node may wait for that.
func (w *watcher) changedNodes() map[writ.NodeID]bool {
	changed := make(map[writ.NodeID]bool)
	before := w.fleet
	w.fleet = make(map[writ.NodeID]writ.Node)
	for _, n := range w.s.fleet.List() {
		n.Used, n.LastBeat = writ.Capacity{}, time.Time{}
		w.fleet[n.ID] = n
		if !reflect.DeepEqual(n, before[n.ID]) {
			changed[n.ID] = true
			w.due = journal.Due{}
		}
	}
	return changed
}

// finishDrain lets nodes be drained on which nothing runs any more. That is no decision: what somebody signs meanwhile still counts.
func (w *watcher) finishDrain(ctx context.Context, empty []writ.NodeID) error {
	for _, node := range empty {
		err := w.s.changeNode(ctx, node, func(tx *journal.Tx, n *journal.Node) error {
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

// generation reports whether the queue has lost everything since the last look. The mark makes the round trip through the very
// transport that beats come by: while it fails, silence proves nothing.
func (w *watcher) generation(ctx context.Context) (flushed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, watchEvery)
	defer cancel()
	mark := fmt.Sprint(w.s.epoch)
	have, err := w.s.Queue.Generation(ctx)
	if err == nil {
		err = w.s.Queue.SetGeneration(failpoint.At(ctx, failpoint.GenerationSet), mark) // each time: a Redis whose disk is full can be read, and takes no beats
	}
	return err == nil && have != mark, err
}

// listened is how much of the time since the last look nodes can be blamed for: the queue works, and the collector has heard what came by it.
// While the queue is away, the journal keeps the collector waiting, or the whole supervisor stands still, nobody knows what they said.
func (w *watcher) listened(at time.Time, queueWorks bool) time.Duration {
	rounds := w.s.rounds.Load()
	passed := min(at.Sub(w.heard), maxListened)
	switch {
	case !queueWorks:
		passed = 0
	case rounds == w.rounds:
		return 0 // it is counted once the collector is through
	}
	w.rounds, w.heard = rounds, at
	return passed
}

// endOverdue ends runs past their deadline and calls past their end-by. A deadline is a time of day; how long a call may still be out is
// measured, because its node does so too: a clock that is set meanwhile ends nothing early. It is measured only while nodes are listened to:
// they end a call in time by themselves, and what could not even be sent has not begun.
func (w *watcher) endOverdue(runs []writ.RunID, sent []*journal.Call, now time.Time, listened time.Duration) {
	for _, id := range runs {
		err := writ.Errorf(writ.CodeRunExpired, "the run did not end before its deadline").WithHint("give it more time with --deadline")
		w.s.steps.Post(id, mail.Mail{Stop: &mail.Stop{State: writ.RunExpired, Err: err, By: now.Add(workflow.StopWithin)}})
	}
	left := make(map[mail.Delivery]time.Duration, len(sent))
	for _, c := range sent {
		job := mail.DeliveryOf(c)
		rest, known := w.left[job]
		if rest -= listened; !known {
			rest = max(c.EndBy.Sub(now), 0) // what came while nobody listened is heard first
		}
		if c.Why.LostNode() || c.KeptBack { // a stopped node measures no time, and has all of it when it is back
			rest = c.EndBy.Sub(c.Queued)
		}
		if left[job] = rest; rest < -endGrace {
			w.s.steps.Post(c.Run, mail.Mail{Overdue: []writ.JobKey{c.Key()}})
		}
	}
	w.left = left
}

// giveUp tells every run with open calls on a lost node.
func (w *watcher) giveUp(ctx context.Context) error {
	for len(w.lost) > 0 {
		node := w.lost[0]
		w.s.Log.Error("node is lost", "node", w.s.fleet.Name(node))
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

// askAgain has the runs on lost nodes whose jobs could not be taken back try that again, now that the queue answers. A node that is back says
// itself what it has.
func (w *watcher) askAgain() {
	for _, q := range w.s.outbox.TakeUnanswered() {
		if n, _ := w.s.fleet.Get(q.Node); workflow.IsAway(n) {
			w.s.steps.Post(q.Run, mail.Mail{LostNodes: []writ.NodeID{q.Node}})
		}
	}
}

// hearAgain lets the run of a call know that it began, if what its node said of it got lost on the way to the run: a beat is news once. The first
// look that finds such a call only notes it, because its run may be about to hear.
func (w *watcher) hearAgain(begun map[mail.Delivery]bool, c *journal.Call) {
	job := mail.DeliveryOf(c)
	if begun[job] = true; w.begun[job] {
		w.s.steps.Post(c.Run, mail.Mail{Started: []mail.Active{{Key: c.Key(), Node: c.Node}}})
	}
}

// findMissing compares what is out with what nodes said last: what is neither worked on nor in the queue is delivered again. Of a node whose part of the queue cannot be looked at it leaves
// that, and returns why.
func (w *watcher) findMissing(ctx context.Context, sent []*journal.Call) (failed error) {
	s := w.s
	missing := make(map[mail.Delivery]int)
	begun := make(map[mail.Delivery]bool)
	unseen := make(map[writ.NodeID]map[string]*journal.Call) // by task, that their node does not work on
	for _, c := range sent {
		active, ready, _ := s.fleet.Works(c.Node, c.Key())
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
				w.miss(missing, c) // it began and is not worked on any more, or waited too long to be begun
			} else {
				gone = append(gone, id)
			}
		}
		if !w.flushed && len(gone) > 0 {
			var err error
			if gone, err = s.Queue.Missing(ctx, node, gone...); err != nil {
				failed = errors.Join(failed, fmt.Errorf("look for the jobs of %s: %w", s.fleet.Name(node), err))
			}
		}
		for _, id := range gone {
			w.miss(missing, calls[id])
		}
	}
	w.missing, w.begun = missing, begun
	if w.flushed { // with what was told to nodes, too
		s.fleet.repeatGivenUp()
	}
	w.flushed = false
	return failed
}

// tellHolds gives the open runs a step when something was put on hold or released: then they wait for something else, or for nothing.
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
		return fmt.Errorf("look for runs that were on hold: %w", err)
	}
	for _, id := range runs {
		w.s.steps.Post(id, mail.Mail{})
	}
	if w.told, w.telling = next, next != (journal.Looked{}); !w.telling {
		w.s.heldTold.Store(int64(w.holds))
	}
	return nil
}

// miss counts that nobody has a job, and has it delivered again when that was so often enough, or the queue is known to be empty.
func (w *watcher) miss(missing map[mail.Delivery]int, c *journal.Call) {
	job := mail.DeliveryOf(c)
	looks := w.missing[job] + 1
	if w.flushed || looks >= missedLooks {
		w.s.steps.Post(c.Run, mail.Mail{Resend: []mail.Delivery{job}})
		return
	}
	missing[job] = looks
}

// announce journals an event for each node that looks different now.
func (w *watcher) announce(ctx context.Context, loads map[writ.NodeID]journal.Load) error {
	if n := w.s.Journal.Restated(); n != w.restated { // it told again what it has of nodes, which is how they joined
		w.restated = n
		w.s.fleet.announceAll()
	}
	changed := w.s.fleet.changes(loads)
	lives := w.s.fleet.newLives()
	if len(changed)+len(lives) == 0 {
		return nil
	}
	events := make([]writ.Event, len(changed))
	for i := range changed {
		events[i].Node = &changed[i]
		if journal.Shorten(&events[i]) {
			w.s.warnings.Refused(changed[i].ID, "node says more of itself than a link carries; coordinators are told less",
				writ.Errorf(writ.CodeTooLarge, "its drivers, disks, networks, orphans and stuck jobs are too much to tell"))
		}
	}
	err := w.s.Journal.Write(failpoint.At(ctx, failpoint.NodesAnnounced), func(tx *journal.Tx) error {
		tx.AddEvents(events...)
		return putLives(tx, lives)
	})
	if err == nil {
		w.s.fleet.announced(changed)
		w.s.fleet.keptLives(lives)
	}
	return err
}
