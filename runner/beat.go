package runner

import (
	"context"
	"fmt"
	"slices"
	"sync"
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
		n.store.probe(ctx)
		// Failures are logged by send.
		if n.link.send(failpoint.At(ctx, failpoint.BeatSent), envelope.Beat, n.state(ctx, sequence)) == nil {
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
		Epoch: n.epochs.highest(), Active: n.desk.keys(), Progress: n.desk.progress(), Inventories: n.inventory(ctx),
	}
}

// health returns the node's own report in each beat.
func (n *incarnation) health(now time.Time) writ.Health {
	h := writ.Health{
		Slots: n.slots, Capacity: n.keeper.remnants.offered(n.capacity), Drivers: n.about, Version: n.version,
		Fault: n.faultText(now),
		Stuck: n.desk.stuck(),
	}
	if n.transfers != nil {
		h.Transfers = n.transfers.Address
	}
	return h
}

// faultText returns why the node refuses work at the moment, or "".
func (n *incarnation) faultText(now time.Time) string {
	if n.stopping.Load() {
		return errShutdown.Error()
	}
	if _, err := n.member.Trusted(now); err != nil {
		return err.Error()
	}
	if err := n.store.get(); err != nil {
		return "the node's journal cannot be written: " + err.Error()
	}
	if stuck := n.desk.stuck(); len(stuck) >= n.slots {
		return fmt.Sprintf("the drivers of %d jobs ignore their deadlines, for example the driver of job %s", len(stuck),
			stuck[0].JobKey)
	}
	return ""
}

// maxAsked limits the runs in one answer. The supervisor asks again for the others.
const maxAsked = 64

// questions holds the runs whose inventory the supervisor has asked for.
type questions struct {
	mu   sync.Mutex
	runs []writ.RunID
}

func (q *questions) add(runs []writ.RunID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, run := range runs {
		if len(q.runs) < maxAsked && !slices.Contains(q.runs, run) {
			q.runs = append(q.runs, run)
		}
	}
}

func (q *questions) take() []writ.RunID {
	q.mu.Lock()
	defer q.mu.Unlock()
	runs := q.runs
	q.runs = nil
	return runs
}

// inventory returns the calls of the requested runs that the node has. If the calls of a run cannot be read, the run is
// omitted and the supervisor asks again. The desk is read before the journal: a job that has left the desk has its
// result in the journal, and no job of an earlier epoch starts afterwards.
func (n *incarnation) inventory(ctx context.Context) (all []writ.Inventory) {
	runs := n.questions.take()
	if len(runs) == 0 {
		return nil
	}
	epoch, working := n.epochs.highest(), n.desk.keys()
	for _, run := range runs {
		calls, err := n.journal.CallsOf(ctx, run)
		if n.store.note(ctx, err) != nil {
			continue
		}
		for _, key := range working {
			if key.Run == run {
				calls = append(calls, key.Seq)
			}
		}
		slices.Sort(calls)
		all = append(all, writ.Inventory{Run: run, Epoch: epoch, Calls: slices.Compact(calls)})
	}
	return all
}
