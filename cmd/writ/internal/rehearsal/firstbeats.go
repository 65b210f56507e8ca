package rehearsal

import (
	"context"
	"sync"

	"writ"
	"writ/identity/envelope"
	"writ/runner/queue"
)

// firstBeats wraps the supervisor's queue. It signals when the supervisor has processed a heartbeat of each node. A
// node is a candidate for calls only after that. The supervisor acknowledges a message after it has processed it.
type firstBeats struct {
	queue.Queue
	rang chan struct{} // closed when the supervisor has processed a heartbeat of every node

	mu     sync.Mutex
	silent int
	heard  map[writ.NodeID]bool
}

func newFirstBeats(q queue.Queue, nodes int) *firstBeats {
	return &firstBeats{Queue: q, rang: make(chan struct{}), silent: nodes, heard: make(map[writ.NodeID]bool)}
}

// Acknowledge acknowledges messages and records their nodes.
func (d *firstBeats) Acknowledge(ctx context.Context, messages ...queue.Message) error {
	err := d.Queue.Acknowledge(ctx, messages...)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range messages {
		if d.heard[m.Stream.Node] || envelope.KindOf(m.Body) != envelope.Beat {
			continue
		}
		d.heard[m.Stream.Node] = true
		if d.silent--; d.silent == 0 {
			close(d.rang)
		}
	}
	return err
}
