package outbox

import (
	"context"
	"slices"
	"time"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/sleep"
	"writ/runner/queue"
)

const (
	// ackTogether delays all acknowledgements, so that the results of several steps share a message.
	ackTogether = 50 * time.Millisecond
	// ackWithin limits the delay of an acknowledgement. On sites with many nodes, a node has few results at a time. A node
	// resends a result after two seconds without an acknowledgement.
	ackWithin = 500 * time.Millisecond
	// acksAtOnce is the number of results of a node that are acknowledged before ackWithin has passed.
	acksAtOnce = 100
	// maxAcks limits the acknowledgements of one message.
	maxAcks = 1000
)

// ack is a result to acknowledge.
type ack struct {
	key     writ.JobKey
	message queue.Message // to remove from the queue, without its body; without an ID if it is removed already
}

// nodeAcks collects the acknowledgements of a node.
type nodeAcks struct {
	all   []ack
	until time.Time // end of the delay
}

// RunAcks sends acknowledgements until ctx ends.
func (o *Outbox) RunAcks(ctx context.Context) error {
	waiting := make(map[writ.NodeID]*nodeAcks)
	timer := time.NewTimer(ackWithin)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-o.ring:
			_ = sleep.For(ctx, ackTogether)
		}
		now := time.Now()
		o.collect(waiting, now)
		due, next := takeDue(waiting, now)
		o.acknowledge(ctx, due)
		if len(waiting) > 0 {
			timer.Reset(next)
		}
	}
}

// collect moves the results of committed steps to the acknowledgements that wait.
func (o *Outbox) collect(waiting map[writ.NodeID]*nodeAcks, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range o.acks {
		to := waiting[a.Node]
		if to == nil {
			to = &nodeAcks{until: now.Add(ackWithin)}
			waiting[a.Node] = to
		}
		to.all = append(to.all, ack{a.Result.JobKey, queue.Message{Stream: a.Message.Stream, ID: a.Message.ID}})
	}
	o.acks = nil
}

// takeDue removes and returns the acknowledgements of nodes whose delay has ended or that have many. `next` is the time
// until the next delay ends.
func takeDue(waiting map[writ.NodeID]*nodeAcks, now time.Time) (due map[writ.NodeID][]ack, next time.Duration) {
	due, next = make(map[writ.NodeID][]ack), ackWithin
	for node, to := range waiting {
		if left := to.until.Sub(now); left > 0 && len(to.all) < acksAtOnce {
			next = min(next, left)
			continue
		}
		due[node] = to.all
		delete(waiting, node)
	}
	return due, next
}

// acknowledge sends acknowledgements for results that are on disk, then removes their messages from the queue.
func (o *Outbox) acknowledge(ctx context.Context, due map[writ.NodeID][]ack) {
	var messages []queue.Message
	for node, all := range due {
		for some := range slices.Chunk(all, maxAcks) {
			keys := make([]writ.JobKey, len(some))
			for i, a := range some {
				keys[i] = a.key
				if a.message.ID != "" {
					messages = append(messages, a.message)
				}
			}
			o.Control(failpoint.At(ctx, failpoint.AcksSent), writ.Control{Node: node, Acks: keys})
		}
	}
	if err := o.Queue.Acknowledge(failpoint.At(ctx, failpoint.ResultsDone), messages...); err != nil && ctx.Err() == nil {
		o.Warnings.Warn("", "remove results from the queue; trying again", "err", err)
	}
}
