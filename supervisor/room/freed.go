package room

import (
	"sync"

	"writ/internal/wake"

	"writ"
)

// freed collects the nodes where ended calls made room for waiting calls. Many steps end with one commit, so the
// waiting runs are looked up once for all of them.
type freed struct {
	wake wake.Signal

	mu    sync.Mutex
	nodes map[writ.NodeID]writ.RunID // run whose step made the room, "" for several
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
