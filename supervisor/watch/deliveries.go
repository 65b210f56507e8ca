package watch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"writ"
	"writ/internal/failpoint"
	"writ/runner/queue"
	"writ/supervisor/fleet"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
)

// missedScans is the number of consecutive scans that must miss a job before it is delivered again. After only one such
// scan, its result may still be on the way.
const missedScans = 2

// deliveries finds the jobs that neither the queue nor their node has.
type deliveries struct {
	queue   queue.Queue
	fleet   *fleet.Fleet
	post    func(run writ.RunID, m mail.Mail)
	mark    string                 // stored in the queue; without it, the queue has lost its contents
	flushed bool                   // the queue lost its contents, and jobs must be delivered again
	missing map[mail.Delivery]int  // scans that missed a job
	begun   map[mail.Delivery]bool // jobs that nodes work on and whose calls are not recorded as started
}

// checkQueue finds out whether the queue has lost its contents since the last scan. The mark uses the same transport as
// beats, so an error means that the silence of nodes does not count.
func (d *deliveries) checkQueue(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, every)
	defer cancel()
	have, err := d.queue.Generation(ctx)
	if err == nil {
		// the mark is written in each scan: a Redis with a full disk can be read but accepts no beats
		err = d.queue.SetGeneration(failpoint.At(ctx, failpoint.GenerationSet), d.mark)
	}
	d.flushed = d.flushed || err == nil && have != d.mark
	return err
}

// findMissing compares the sent calls with the last beats of their nodes. A call that is neither on its node nor in the
// queue is delivered again. If a node's part of the queue cannot be read, its queued calls are skipped and the error is
// returned.
func (d *deliveries) findMissing(ctx context.Context, sent []*journal.Call, now time.Time) (failed error) {
	missing := make(map[mail.Delivery]int)
	for node, calls := range d.notActive(sent) {
		gone := make([]string, 0, len(calls))
		for id, c := range calls {
			if c.State == writ.CallRunning || c.StartBy.Before(now) {
				d.miss(missing, c) // the call has started but is not active, or its StartBy has passed
			} else {
				gone = append(gone, id)
			}
		}
		if !d.flushed && len(gone) > 0 {
			var err error
			if gone, err = d.queue.Missing(ctx, node, gone...); err != nil {
				failed = errors.Join(failed, fmt.Errorf("find the jobs of %s: %w", d.fleet.Members.Name(node), err))
			}
		}
		for _, id := range gone {
			d.miss(missing, calls[id])
		}
	}
	d.missing = missing
	if d.flushed { // the queue lost the messages to nodes as well
		d.fleet.Presence.RepeatGivenUp()
	}
	d.flushed = false
	return failed
}

// notActive returns the sent calls that their nodes do not work on, by node and by the ID of their task. Nodes that are
// silent or obey another supervisor are left out.
func (d *deliveries) notActive(sent []*journal.Call) map[writ.NodeID]map[string]*journal.Call {
	begun := make(map[mail.Delivery]bool)
	all := make(map[writ.NodeID]map[string]*journal.Call)
	for _, c := range sent {
		active, ready, _ := d.fleet.Presence.Works(c.Node, c.Key())
		if active && c.State == writ.CallQueued {
			d.repeatStart(begun, c)
		}
		if !ready || active {
			continue
		}
		if all[c.Node] == nil {
			all[c.Node] = make(map[string]*journal.Call)
		}
		all[c.Node][mail.DeliveryOf(c).TaskID()] = c
	}
	d.begun = begun
	return all
}

// repeatStart posts the start of an active call to its run again if the first message did not reach the run. The first
// scan that finds such a call only records it, because the first message may be on its way.
func (d *deliveries) repeatStart(begun map[mail.Delivery]bool, c *journal.Call) {
	job := mail.DeliveryOf(c)
	if begun[job] = true; d.begun[job] {
		d.post(c.Run, mail.Mail{Started: []mail.Active{{Key: c.Key(), Node: c.Node}}})
	}
}

// miss counts a scan in which a job was missing. It delivers the job again after missedScans scans, or immediately
// if the queue lost its contents.
func (d *deliveries) miss(missing map[mail.Delivery]int, c *journal.Call) {
	job := mail.DeliveryOf(c)
	scans := d.missing[job] + 1
	if d.flushed || scans >= missedScans {
		d.post(c.Run, mail.Mail{Resend: []mail.Delivery{job}})
		return
	}
	missing[job] = scans
}
