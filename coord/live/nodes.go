package live

import (
	"cmp"
	"context"
	"slices"
	"time"

	"writ"
	"writ/ledger"
	"writ/supervisor/link"
)

// nodesWithin limits the wait of a list of nodes for the live state from datacenters.
const nodesWithin = 2 * time.Second

// Nodes lists nodes with the live state from their datacenters, which events do not carry: the last heartbeat, and the
// nodes that wait for admission. Waiting nodes come with the first page, beyond its limit. A page omits nodes that the
// filter no longer selects, for example nodes that were just removed. If a datacenter does not answer, its nodes have
// their last reported state.
func (v *View) Nodes(ctx context.Context, filter ledger.NodeFilter, page ledger.Page) (ledger.List[writ.Node], error) {
	list, err := v.Ledger.Nodes(ctx, filter, page)
	if err != nil {
		return list, err
	}
	answers, err := EachWithin[[]link.NodeNow](ctx, v, nodesWithin, filter.Datacenter, link.VerbNodes, link.Nodes{})
	if err != nil {
		return list, err
	}
	type key struct {
		datacenter writ.DatacenterID // a datacenter reports only its own nodes
		node       writ.NodeID
	}
	live := make(map[key]link.NodeNow)
	var waiting []writ.Node
	for _, a := range answers {
		for _, n := range a.Answer {
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
			listed = append(listed, v.stored(n))
			continue
		}
		now.Update(&n)
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

// stored converts a node of the ledger. While its datacenter is disconnected, the liveness of an approved node is unknown.
func (v *View) stored(n writ.Node) writ.Node {
	_, connected := v.Links.Session(n.Datacenter)
	if !connected && (n.Admission == writ.AdmissionApproved || n.Liveness == writ.LivenessReady) {
		n.Liveness = writ.LivenessUnknown
	}
	return n
}
