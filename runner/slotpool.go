package runner

import (
	"context"
	"sync"

	"writ"
	"writ/internal/fair"
)

const (
	// inHandPerSlot is how many jobs the node has in hand at most for each slot: all that its supervisor sends. So it is the node who says
	// which one is next, and those that wait for something else than a slot do not keep others from one.
	inHandPerSlot = 3
	// slotsPerTransfer is how many slots a node has for each transfer at a time, and leastTransfers how many of these there are at least.
	slotsPerTransfer = 2
	leastTransfers   = 4
)

// slotPool has the slots of the node: those of jobs, and those of jobs that fetch from elsewhere. Projects share both by the time that they
// have spent there.
type slotPool struct {
	jobs, transfers fair.Slots

	mu      sync.Mutex
	weights map[writ.ProjectID]int // of projects that count for more than others, as their last jobs said
}

func newSlotPool(slots int) *slotPool {
	p := &slotPool{weights: map[writ.ProjectID]int{}}
	p.jobs = fair.Slots{Size: slots, Weight: p.weight}
	p.transfers = fair.Slots{Size: max(slots/slotsPerTransfer, leastTransfers), Weight: p.weight}
	return p
}

func (p *slotPool) weight(project string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.weights[writ.ProjectID(project)]
}

func (p *slotPool) weigh(project writ.ProjectID, weight int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if weight > 1 {
		p.weights[project] = weight
	} else {
		delete(p.weights, project)
	}
}

// fetches reports whether a job mostly waits for somebody else: a server, or another node.
func (w *work) fetches() bool { return w.operation.Fetches || w.origin != nil }

// enter waits until the job may act.
func (n *incarnation) enter(ctx context.Context, w *work) (err error) {
	n.slotPool.weigh(w.job.Project, w.job.Weight)
	slots := &n.slotPool.jobs
	if w.fetches() {
		slots = &n.slotPool.transfers
	}
	w.release, err = slots.Enter(ctx, string(w.job.Project))
	return err
}
