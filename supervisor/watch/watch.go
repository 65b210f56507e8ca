// Package watch scans a datacenter every second for conditions that no message reports: missing beats, lost jobs,
// passed times and runs without a wake-up. It changes no run itself: it posts mail, and the step of the run decides.
package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"writ"
	"writ/identity"
	"writ/runner/queue"
	"writ/supervisor/decision"
	"writ/supervisor/fleet"
	"writ/supervisor/hold"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
	"writ/supervisor/mailbox"
	"writ/supervisor/outbox"
	"writ/supervisor/ratelog"
	"writ/supervisor/room"
)

// every is the scan interval.
const every = time.Second

// Config holds the dependencies of a Watch. All fields are required.
type Config struct {
	Epoch    int64
	Journal  *journal.Journal
	Queue    queue.Queue
	Fleet    *fleet.Fleet
	Mailbox  *mailbox.Scheduler
	Outbox   *outbox.Outbox
	Offers   *room.Offers
	Holds    *hold.Decisions
	Nodes    *decision.Nodes
	Silence  func() identity.Silence // limits of the roster in force
	Rounds   func() int64            // finished rounds of the collector
	Warnings *ratelog.Log
	Now      func() time.Time // wall clock
	Log      *slog.Logger
}

// Watch scans a datacenter. Create it with New. Its parts have their own state between two scans.
type Watch struct {
	Config
	Faults *Faults

	clock      clock
	listening  listening
	due        dueCalls
	deadlines  deadlines
	deliveries deliveries
	unheeded   unheeded
	lost       lostNodes
	states     nodeStates
	events     nodeEvents
	notices    holdNotices
	sleepers   sleepers
	figures    figures
}

// New returns a watch that has not scanned yet.
func New(c Config) *Watch {
	post, members := c.Mailbox.Post, c.Fleet.Members
	return &Watch{
		Config: c, Faults: &Faults{log: c.Log},
		deadlines:  deadlines{post: post},
		deliveries: deliveries{queue: c.Queue, fleet: c.Fleet, post: post, mark: fmt.Sprint(c.Epoch)},
		unheeded:   unheeded{presence: c.Fleet.Presence, post: post, postFrom: c.Mailbox.PostFrom},
		lost:       lostNodes{journal: c.Journal, members: members, outbox: c.Outbox, post: post, log: c.Log},
		events:     nodeEvents{journal: c.Journal, fleet: c.Fleet, warnings: c.Warnings, restated: -1},
		notices:    holdNotices{journal: c.Journal, inForce: c.Holds, post: post},
		sleepers: sleepers{
			epoch: c.Epoch, journal: c.Journal, members: members, mailbox: c.Mailbox, outbox: c.Outbox, warnings: c.Warnings,
		},
	}
}

// Run scans until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	now := time.Now()
	w.clock.last, w.clock.wall, w.listening.heard = now, w.Now(), now
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := w.scan(ctx); err != nil && ctx.Err() == nil && w.Journal.Fault() == nil {
				w.Warnings.Refused("", "watch the datacenter; trying again", err)
			}
		}
	}
}

// scan looks for missing events once. Without the queue it skips the parts that need an answer of the queue.
func (w *Watch) scan(ctx context.Context) error {
	at, now := time.Now(), w.Now()
	w.clock.pass(at, now)
	queueErr := w.deliveries.checkQueue(ctx)
	w.Faults.check(ctx, w.Journal, queueErr, at)
	w.Mailbox.Retry()
	w.Warnings.Repeat(at)
	listened := w.listening.count(at, w.Rounds(), queueErr == nil)
	w.applySilence()
	w.lost.add(w.Fleet.Tick(at, now, listened))
	changed := w.states.changed(w.Fleet.Members.List())
	if len(changed) > 0 {
		w.due.restart()
	}
	found, err := w.read(ctx, now)
	if err != nil {
		return err
	}
	w.figures.set(found, now)
	if err := w.finishDrain(ctx, found.empty); err != nil {
		return err
	}
	w.deadlines.endRuns(found.overdue, now)
	w.deadlines.endCalls(found.sent, now, listened)
	if err := w.lost.inform(ctx); err != nil {
		return err
	}
	if queueErr == nil {
		err = w.deliveries.findMissing(ctx, found.sent, now) // an error does not stop the scan: one node may be the cause
		w.unheeded.repeat(found.sent, found.ending)
	}
	for _, call := range found.due {
		w.Mailbox.Post(call.Run, mail.Mail{})
	}
	for _, id := range found.ahead {
		w.Mailbox.Post(id, mail.Mail{})
	}
	w.clock.setBack = false
	w.offerRoom(ctx, found.loads, changed)
	err = errors.Join(err, w.notices.send(ctx), w.sleepers.wake(ctx), w.events.write(ctx, found.loads))
	if queueErr == nil {
		w.lost.askAgain()
	}
	return err
}

// applySilence applies the silent and lost timeouts of the roster in force.
func (w *Watch) applySilence() {
	silence := w.Silence()
	if w.Fleet.Presence.SetSilence(silence) {
		w.Log.Info("nodes without heartbeats become silent, then lost", "silent_after", silence.Silent,
			"lost_after", silence.Lost)
	}
}

// offerRoom wakes the calls that wait for room on their node. If the node has changed and cannot receive jobs, the runs
// of these calls get a step to update the wait reason.
func (w *Watch) offerRoom(ctx context.Context, loads map[writ.NodeID]journal.Load, changed map[writ.NodeID]bool) {
	for _, node := range w.Fleet.Members.Serving() {
		_, why := w.Fleet.Members.Away(node)
		switch {
		case loads[node].Planned == 0:
			w.Fleet.Backlog.SetBacklog(node, false)
		case changed[node] && !why.IsZero():
			w.Offers.Recheck(ctx, node, maxDue)
		default:
			w.Offers.Offer(ctx, node, "")
		}
	}
}

// finishDrain marks draining nodes without open calls as drained. This does not count as a decision, so decisions that
// were signed meanwhile stay valid.
func (w *Watch) finishDrain(ctx context.Context, empty []writ.NodeID) error {
	for _, node := range empty {
		err := w.Nodes.Change(ctx, node, func(tx *journal.Tx, n *journal.Node) error {
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

// Figures returns the figures of the last scan, or the zero value before the first scan.
func (w *Watch) Figures() *Figures { return w.figures.get() }

// Ages returns the ages of the oldest planned and the oldest queued call of a node at the last scan.
func (w *Watch) Ages(node writ.NodeID) (planned, queued time.Duration) {
	return w.figures.get().ages(node, w.Now())
}

// HoldsSeen returns the number of hold changes that all open runs have received.
func (w *Watch) HoldsSeen() int { return int(w.notices.received.Load()) }
