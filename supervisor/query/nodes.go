package query

import (
	"context"

	"writ"
	"writ/supervisor/link"
)

// Nodes lists the nodes of a datacenter. All fields are required.
type Nodes struct {
	Members func() []writ.Node
	Pending func() []writ.Node
}

// List returns the present state of every node, including nodes that wait for admission.
func (q *Nodes) List(context.Context) ([]link.NodeNow, error) {
	all := []link.NodeNow{}
	for _, n := range q.Members() {
		all = append(all, link.NodeNowOf(n))
	}
	for _, n := range q.Pending() {
		all = append(all, link.NodeNow{ID: n.ID, Waiting: &n})
	}
	return all, nil
}
