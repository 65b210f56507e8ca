package room

import (
	"sync"

	"writ/internal/wake"

	"writ"
)

// freed collects the nodes on which ended calls made room for waiting calls. One commit may store many steps, so Offers
// looks up the waiting runs of a node once for all of them.
type freed struct {
	wake wake.Signal

	mu    sync.Mutex
	nodes map[writ.NodeID]writ.RunID // run whose step made the room, "" for several runs
}

func newFreed() *freed {
	return &freed{wake: wake.New(), nodes: make(map[writ.NodeID]writ.RunID)}
}

// add records that a step of a run has made room on a node.
func (f *freed) add(node writ.NodeID, run writ.RunID) {
	f.mu.Lock()
	if _, known := f.nodes[node]; known {
		run = ""
	}
	f.nodes[node] = run
	f.mu.Unlock()
	f.wake.Raise()
}

// take removes and returns the recorded nodes.
func (f *freed) take() map[writ.NodeID]writ.RunID {
	f.mu.Lock()
	defer f.mu.Unlock()
	nodes := f.nodes
	f.nodes = make(map[writ.NodeID]writ.RunID)
	return nodes
}
