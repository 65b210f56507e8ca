package runner

import (
	"context"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/internal/failpoint"
)

// beatEvery is how often a node says that it lives; the supervisor takes five missing beats for silence.
const beatEvery = time.Second

// beat sends a beat every second until ctx ends. A beat that cannot be sent is lost; the next one says more.
func (n *incarnation) beat(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for sequence := int64(1); ; sequence++ {
		n.probeStore(ctx)
		if n.send(failpoint.At(ctx, failpoint.BeatSent), envelope.Beat, n.state(ctx, sequence)) == nil { // else noted
			n.counts.sent.Note(n.now())
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// state is what the node says of itself.
func (n *incarnation) state(ctx context.Context, sequence int64) *writ.Beat {
	now, transfers := n.now(), ""
	if n.transfers != nil {
		transfers = n.transfers.Address
	}
	return &writ.Beat{
		Node: n.node, Boot: n.boot, Incarnation: n.number, Sequence: sequence, Clock: now.UnixMilli(), Epoch: n.epoch.Load(),
		Active: n.desk.keys(), Stuck: n.desk.stuck(), Progress: n.desk.progress(),
		Slots: n.slots, Capacity: n.remnants.offered(n.capacity), Drivers: n.about, Version: n.version, Transfers: transfers, Fault: n.faultText(now),
		Inventories: n.inventory(ctx),
	}
}
