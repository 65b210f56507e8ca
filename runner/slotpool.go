package runner

import (
	"context"
	"sync"

	"writ"
	"writ/internal/fair"
)

const (
	// inHandPerSlot limits the jobs that the node takes from its queue, per slot. The limit is high enough for all jobs
	// that the supervisor sends at a time. Therefore the node chooses the next job, not the queue, and a job that waits
	// for something other than a slot blocks no other job.
	inHandPerSlot = 3
	// slotsPerTransfer is the number of job slots per transfer slot, and leastTransfers the minimal number of transfer
	// slots.
	slotsPerTransfer = 2
	leastTransfers   = 4
)

// slotPool holds the slots of the node: job slots, and transfer slots for jobs that fetch from another system. Projects
// share both fairly by the time that they have used.
type slotPool struct {
	jobs, transfers fair.Slots

	mu      sync.Mutex
	weights map[writ.ProjectID]int // weights above 1, from the last job of each project
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

// fetches reports whether a job mostly waits for another system: a server or another node.
func (w *work) fetches() bool { return w.operation.Fetches || w.origin != nil }

// enter waits for a slot.
func (j *jobs) enter(ctx context.Context, w *work) (err error) {
	j.slotPool.weigh(w.job.Project, w.job.Weight)
	slots := &j.slotPool.jobs
	if w.fetches() {
		slots = &j.slotPool.transfers
	}
	w.release, err = slots.Enter(ctx, string(w.job.Project))
	return err
}
