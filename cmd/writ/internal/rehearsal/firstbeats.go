package rehearsal

import (
	"context"
	"sync"

	"writ"
	"writ/runner/queue"
)

// firstBeats is the supervisor's end of the queue. It rings when the supervisor has heard each of so many nodes for the first time: it takes a
// node's word off the queue once it has understood it, and a node's first word is that it lives.
type firstBeats struct {
	queue.Queue
	rang chan struct{} // closed when all were heard

	mu     sync.Mutex
	silent int
	heard  map[writ.NodeID]bool
}

func newFirstBeats(q queue.Queue, nodes int) *firstBeats {
	return &firstBeats{Queue: q, rang: make(chan struct{}), silent: nodes, heard: make(map[writ.NodeID]bool)}
}

// Acknowledge takes messages off.
func (d *firstBeats) Acknowledge(ctx context.Context, messages ...queue.Message) error {
	err := d.Queue.Acknowledge(ctx, messages...)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range messages {
		if d.heard[m.Stream.Node] {
			continue
		}
		d.heard[m.Stream.Node] = true
		if d.silent--; d.silent == 0 {
			close(d.rang)
		}
	}
	return err
}
