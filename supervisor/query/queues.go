package query

import (
	"context"
	"time"

	"writ"
	"writ/supervisor/journal"
	"writ/supervisor/link"
)

// Queues reports the depth of the queue of each node. All fields are required.
type Queues struct {
	Journal *journal.Journal
	Nodes   func() []writ.Node
	// Ages returns the ages of the oldest planned and the oldest queued call of a node, as of the last scan of package
	// watch. The age of a missing call is 0. The node "" stands for calls without a node.
	Ages func(node writ.NodeID) (planned, queued time.Duration)
}

// List returns the depth of every node's queue, including approved nodes without work.
func (q *Queues) List(ctx context.Context) ([]link.QueueDepth, error) {
	loads, err := journal.Query(ctx, q.Journal, (*journal.Tx).Loads)
	if err != nil {
		return nil, err
	}
	all := []link.QueueDepth{}
	if l := loads[""]; l.Open() > 0 {
		all = append(all, q.depthOf("", "(no node yet)", l))
	}
	for _, n := range q.Nodes() {
		if l := loads[n.ID]; l.Open() > 0 || n.Admission == writ.AdmissionApproved {
			all = append(all, q.depthOf(n.ID, n.Name, l))
		}
	}
	return all, nil
}

func (q *Queues) depthOf(node writ.NodeID, name string, l journal.Load) link.QueueDepth {
	d := link.QueueDepth{
		QueueDepth: writ.QueueDepth{Node: node, NodeName: name, Planned: l.Planned, Queued: l.Queued, Running: l.Running},
	}
	d.OldestPlanned, d.OldestQueued = q.Ages(node)
	return d
}
