package outbox

import (
	"context"
	"slices"
	"time"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/sleep"
	"writ/runner/queue"
	"writ/supervisor/mail"
)

const (
	// acksWait delays acknowledgements to send several in one message. A node resends a result after two seconds
	// without an acknowledgement.
	acksWait = 50 * time.Millisecond
	// maxAcks limits the acknowledgements of one message.
	maxAcks = 1000
)

// RunAcks sends acknowledgements until ctx ends.
func (o *Outbox) RunAcks(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-o.ring:
		}
		_ = sleep.For(ctx, acksWait)
		o.mu.Lock()
		acks := o.acks
		o.acks = nil
		o.mu.Unlock()
		o.acknowledge(ctx, acks)
	}
}

// acknowledge sends acknowledgements for results that are on disk, then removes their messages from the queue.
func (o *Outbox) acknowledge(ctx context.Context, results []mail.Arrival) {
	keys := make(map[writ.NodeID][]writ.JobKey)
	messages := make([]queue.Message, 0, len(results))
	for _, a := range results {
		keys[a.Node] = append(keys[a.Node], a.Result.JobKey)
		if a.Message.ID != "" {
			messages = append(messages, a.Message)
		}
	}
	for node, all := range keys {
		for acks := range slices.Chunk(all, maxAcks) {
			o.Control(failpoint.At(ctx, failpoint.AcksSent), writ.Control{Node: node, Acks: acks})
		}
	}
	if err := o.Queue.Acknowledge(failpoint.At(ctx, failpoint.ResultsDone), messages...); err != nil && ctx.Err() == nil {
		o.Warnings.Warn("", "remove results from the queue; trying again", "err", err)
	}
}
