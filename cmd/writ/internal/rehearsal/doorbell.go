package rehearsal

import (
	"context"
	"sync"

	"writ/runner/queue"
)

// doorbell is the supervisor's end of the queue. It rings when the supervisor has heard its node for the first time: it takes a node's
// word off the queue once it has understood it, and a node's first word is that it lives.
type doorbell struct {
	queue.Queue
	once sync.Once
	rang chan struct{}
}

// Acknowledge takes messages off.
func (d *doorbell) Acknowledge(ctx context.Context, messages ...queue.Message) error {
	err := d.Queue.Acknowledge(ctx, messages...)
	if len(messages) > 0 {
		d.once.Do(func() { close(d.rang) })
	}
	return err
}
