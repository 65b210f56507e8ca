package runner

import (
	"context"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/internal/failpoint"
)

// beatEvery is the interval between beats. The supervisor treats a node as silent after five missing beats.
const beatEvery = time.Second

// beat sends a beat every second until ctx ends. Lost beats are not repeated; each beat is complete.
func (n *incarnation) beat(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for sequence := int64(1); ; sequence++ {
		n.probeStore(ctx)
		// Failures are logged by send.
		if n.send(failpoint.At(ctx, failpoint.BeatSent), envelope.Beat, n.state(ctx, sequence)) == nil {
			n.counts.sent.Note(n.now())
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// state builds a beat with the current state of the node.
func (n *incarnation) state(ctx context.Context, sequence int64) *writ.Beat {
	now := n.now()
	return &writ.Beat{
		Health: n.health(now),
		Node:   n.node, Boot: n.boot, Incarnation: n.number, Sequence: sequence, Clock: now.UnixMilli(),
		Epoch: n.epoch.Load(), Active: n.desk.keys(), Progress: n.desk.progress(), Inventories: n.inventory(ctx),
	}
}

// health returns what the node reports about itself in each beat.
func (n *incarnation) health(now time.Time) writ.Health {
	h := writ.Health{
		Slots: n.slots, Capacity: n.remnants.offered(n.capacity), Drivers: n.about, Version: n.version,
		Fault: n.faultText(now),
		Stuck: n.desk.stuck(),
	}
	if n.transfers != nil {
		h.Transfers = n.transfers.Address
	}
	return h
}
