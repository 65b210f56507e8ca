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
	now, transfers := n.now(), ""
	if n.transfers != nil {
		transfers = n.transfers.Address
	}
	return &writ.Beat{
		Node: n.node, Boot: n.boot, Incarnation: n.number, Sequence: sequence, Clock: now.UnixMilli(),
		Epoch:  n.epoch.Load(),
		Active: n.desk.keys(), Stuck: n.desk.stuck(), Progress: n.desk.progress(),
		Slots: n.slots, Capacity: n.remnants.offered(n.capacity), Drivers: n.about, Version: n.version,
		Transfers: transfers, Fault: n.faultText(now),
		Inventories: n.inventory(ctx),
	}
}
