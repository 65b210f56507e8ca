package workflow

import (
	"slices"

	"writ"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
)

// lostNow returns the lost nodes of the mail and all removed nodes that still have calls of the run. The supervisor may
// have ended after the removal and before it posted the mail about the removal.
func (t *receiver) lostNow(told []writ.NodeID) []writ.NodeID {
	nodes := slices.Clone(told)
	for _, c := range t.calls.live {
		if c.Node == "" || c.State.Ended() || slices.Contains(nodes, c.Node) {
			continue
		}
		if n, _ := t.Nodes.Get(c.Node); n.Admission == writ.AdmissionRemoved {
			nodes = append(nodes, c.Node)
		}
	}
	return nodes
}

// receiveWithdrawn applies the queue's answers about the deliveries to withdraw: withdrawn, or possibly started.
func (t *receiver) receiveWithdrawn() error {
	for _, taken := range t.mail.Withdrawn {
		c := t.calls.sent(taken.Key)
		if c == nil {
			continue
		}
		if taken.Number == c.Withdrawn+1 {
			c.Withdrawn++
			t.touch(c)
		}
		var err error
		switch lost := newLoss(t.Step, c.Node); {
		case t.run.Stop != nil && taken.Number < c.Delivery: // the answer about the newest delivery decides
		case t.run.Stop != nil:
			err = t.fail(c, stoppedState(t.run), t.run.Stop)
		case IsAway(lost.node) && neverBegan(c):
			err = lost.moveNeverBegun(c)
		case IsAway(lost.node) && mayBeWaiting(c) && taken.Number < c.Delivery: // another delivery was sent meanwhile
			t.out.Stops.Reclaim[c.Node] = append(t.out.Stops.Reclaim[c.Node], mail.DeliveriesOf(c)...)
		}
		if err != nil {
			return err
		}
	}
	for _, key := range t.mail.MaybeStarted {
		c := t.calls.sent(key)
		if c == nil || t.run.Stop != nil {
			continue
		}
		lost := newLoss(t.Step, c.Node)
		if !IsAway(lost.node) {
			continue // the node is back and reports its own jobs
		}
		var err error
		switch {
		case neverBegan(c): // an earlier answer reported the withdrawal, while the node was back
			err = lost.moveNeverBegun(c)
		case waitsForLost(c, lost.node):
			lost.waitForLost(c)
		default:
			err = lost.failBegun(c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stopOrder is an order to a node about a job that it works on.
type stopOrder int

const (
	stopNothing stopOrder = iota // the supervisor waits for the job
	stopRun                      // stop all jobs of the run with at most a number of resumes
	stopJob                      // stop only this job
)

// stopOf returns the order about an active job of the call c, which is nil for an unknown call. A job must be stopped
// if its run is being stopped, has ended or was resumed since the attempt. It must also be stopped if the call has a
// later attempt or has ended without success.
func stopOf(run *journal.Run, c *journal.Call, attempt int) (order stopOrder, resumes int) {
	switch {
	case run.State.Ended() || run.StopsCalls():
		return stopRun, run.Resumes
	case c == nil || attempt > c.Attempt:
		return stopNothing, 0
	case attempt <= c.Before && run.Resumes > 0:
		return stopRun, run.Resumes - 1
	case attempt < c.Attempt || c.State.Ended() && c.State != writ.CallSucceeded:
		return stopJob, 0
	}
	return stopNothing, 0
}
