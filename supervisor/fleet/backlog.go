package fleet

import (
	"sync"

	"writ"
	"writ/supervisor/journal"
)

// Backlog remembers which nodes have calls that wait for room, and the project of the last call that was sent to each
// node. It saves a search of the journal and may be outdated. If HasBacklog is wrongly false, calls wait until the next
// scan of package watch, at most a second later.
type Backlog struct {
	mu      sync.Mutex
	waiting map[writ.NodeID]bool
	served  map[writ.NodeID]writ.ProjectID
}

// newBacklog assumes that calls wait for all nodes of the journal.
func newBacklog(nodes []*journal.Node) *Backlog {
	b := &Backlog{waiting: make(map[writ.NodeID]bool), served: make(map[writ.NodeID]writ.ProjectID)}
	for _, n := range nodes {
		b.waiting[n.ID] = true
	}
	return b
}

// SetBacklog records whether calls wait for room on a node.
func (b *Backlog) SetBacklog(id writ.NodeID, waiting bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting[id] = waiting
}

// HasBacklog reports whether calls may wait for room on a node.
func (b *Backlog) HasBacklog(id writ.NodeID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting[id]
}

// Serve records the project of a call that is sent to a node.
func (b *Backlog) Serve(id writ.NodeID, project writ.ProjectID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.served[id] = project
}

// LastServed returns the project of the last call that was sent to a node, "" if none was sent.
func (b *Backlog) LastServed(id writ.NodeID) writ.ProjectID {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.served[id]
}
