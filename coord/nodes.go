package coord

import (
	"cmp"
	"context"
	"slices"
	"time"

	"writ"
	"writ/ledger"
	"writ/supervisor/link"
)

// nodesWithin is how long a list of nodes waits for what datacenters know of theirs now.
const nodesWithin = 2 * time.Second

// Nodes lists nodes as their datacenters know them at this moment, which events do not tell: when each beat last, and which ones wait to be
// admitted. Those come with the first page, beyond its limit. A page lacks nodes that the filter no longer selects, as those that were removed a
// moment ago. Of a datacenter that does not answer it lists what was told last.
func (c *Coordinator) Nodes(ctx context.Context, filter ledger.NodeFilter, page ledger.Page) (ledger.List[writ.Node], error) {
	list, err := c.Ledger.Nodes(ctx, filter, page)
	if err != nil {
		return list, err
	}
	asking, cancel := context.WithTimeout(ctx, nodesWithin)
	defer cancel()
	answers, err := askAll[link.NodeNow](asking, c, filter.Datacenter, link.VerbNodes, link.Nodes{})
	if err != nil {
		return list, err
	}
	type key struct {
		datacenter writ.DatacenterID // each speaks for its own nodes only
		node       writ.NodeID
	}
	live := make(map[key]link.NodeNow)
	var waiting []writ.Node
	for _, a := range answers {
		for _, n := range a.answer {
			switch {
			case n.Waiting == nil:
				live[key{a.ID, n.ID}] = n
			case n.Waiting.ID == n.ID && n.Waiting.Admission == writ.AdmissionPending:
				if n.Waiting.Datacenter = a.ID; filter.Selects(*n.Waiting) {
					waiting = append(waiting, *n.Waiting)
				}
			}
		}
	}
	listed := list.Items[:0]
	for _, n := range list.Items {
		now, ok := live[key{n.Datacenter, n.ID}]
		if !ok {
			listed = append(listed, c.nodeView(n))
			continue
		}
		n.Admission, n.Scheduling, n.Liveness, n.LastBeat, n.Fault = now.Admission, now.Scheduling, now.Liveness, now.LastBeat, now.Fault
		if now.Slots > 0 { // what a node has is told by an event, too, which comes after its first beat
			n.Slots, n.Capacity = now.Slots, now.Capacity
		}
		if now.Revision >= n.Revision && now.Revision > 0 { // the event of a decision comes after its answer
			n.Revision, n.Labels, n.Decided = now.Revision, now.Labels, now.Decided
		}
		if filter.Selects(n) {
			listed = append(listed, n)
		}
	}
	list.Items = listed
	if page.Cursor == "" && (filter.Admission == "" || filter.Admission == writ.AdmissionPending) {
		list.Items = append(list.Items, waiting...)
		slices.SortStableFunc(list.Items, func(a, b writ.Node) int {
			return cmp.Or(cmp.Compare(a.Datacenter, b.Datacenter), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
		})
	}
	return list, nil
}

// nodesNow is a ledger whose nodes are as their datacenters know them now.
type nodesNow struct {
	ledger.Ledger
	c *Coordinator
}

func (l nodesNow) Nodes(ctx context.Context, filter ledger.NodeFilter, page ledger.Page) (ledger.List[writ.Node], error) {
	return l.c.Nodes(ctx, filter, page)
}
