package watch

import (
	"context"
	"time"

	"writ"
	"writ/supervisor/journal"
	"writ/supervisor/workflow"
)

// maxDue limits the runs that get a step in one scan because a time has passed.
const maxDue = 1000

// facts holds the facts that one scan reads from the journal.
type facts struct {
	sent    []*journal.Call
	due     []journal.Due
	overdue []writ.RunID
	ending  []writ.RunID // runs that must end within workflow.StopWithin, most of them because they are being stopped
	ahead   []writ.RunID // runs whose wait became too long because the clock was set back
	loads   map[writ.NodeID]journal.Load
	empty   []writ.NodeID // draining nodes without open calls
	waits   *waits        // nil if not read in this scan
}

// read reads the facts of a scan. If the clock was set back, all cursors restart.
func (w *Watch) read(ctx context.Context, now time.Time) (found facts, err error) {
	err = w.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
		if found.sent, err = tx.SentCalls(); err != nil {
			return err
		}
		if found.due, err = w.due.next(tx, now); err != nil {
			return err
		}
		if found.overdue, err = tx.DueRuns(now, maxDue); err != nil {
			return err
		}
		if found.ending, err = tx.DueRuns(now.Add(workflow.StopWithin), maxDue); err != nil {
			return err
		}
		if found.loads, err = tx.Loads(); err != nil {
			return err
		}
		if found.waits, err = w.figures.readWaits(tx, found.loads, w.clock.last); err != nil {
			return err
		}
		if w.clock.setBack {
			w.due = dueCalls{}
			found.ahead, err = aheadOf(tx, now, found.sent)
		}
		return err
	})
	for _, n := range w.Fleet.Members.List() {
		if n.Scheduling == writ.SchedulingDraining && found.loads[n.ID].Open() == 0 {
			found.empty = append(found.empty, n.ID)
		}
	}
	return found, err
}

// aheadOf returns the runs with times that are far ahead of a clock that was set back. The runs with sent calls are
// included: such a run may be stopping, with a StopBy that is now too late.
func aheadOf(tx *journal.Tx, now time.Time, sent []*journal.Call) ([]writ.RunID, error) {
	ahead, err := tx.RunsStampedAfter(now.Add(workflow.BackoffMost))
	for _, c := range sent {
		ahead = append(ahead, c.Run)
	}
	return ahead, err
}
