package live

import (
	"cmp"
	"context"
	"slices"
	"time"

	"writ"
	"writ/coord/api"
	"writ/ledger"
	"writ/supervisor/link"
)

// nodesWithin limits how long a list waits for the live state from datacenters.
const nodesWithin = 2 * time.Second

// nodeKey identifies a node in the answers of datacenters. A datacenter reports only its own nodes.
type nodeKey struct {
	datacenter writ.DatacenterID
	node       writ.NodeID
}

// Nodes lists the nodes of the ledger with the live state from their datacenters, such as the last heartbeat, which no
// event reports. It adds the nodes that wait for admission, which only datacenters have, to the first page, beyond its
// limit. If the filter asks for removed nodes, it also adds the nodes that were just removed. A page omits nodes that
// the filter does not select in their live state. If a datacenter does not answer, its nodes have their last reported
// state. A node that its datacenter does not know is forgotten: the supervisor's journal came from a backup and has sent
// no event yet.
func (v *View) Nodes(ctx context.Context, filter ledger.NodeFilter, page ledger.Page) (ledger.List[writ.Node], error) {
	list, err := v.Ledger.Nodes(ctx, filter, page)
	if err != nil {
		return list, err
	}
	answers, err := EachWithin[[]link.NodeNow](ctx, v, nodesWithin, filter.Datacenter, link.VerbNodes, link.Nodes{})
	if err != nil {
		return list, err
	}
	live := make(map[nodeKey]link.NodeNow)
	answered := make(map[writ.DatacenterID]bool)
	var waiting []writ.Node
	for _, a := range answers {
		answered[a.ID] = a.Err == nil
		for _, n := range a.Answer {
			switch {
			case n.Waiting == nil:
				live[nodeKey{a.ID, n.ID}] = n
			case n.Waiting.ID == n.ID && n.Waiting.Admission == writ.AdmissionPending:
				if n.Waiting.Datacenter = a.ID; filter.Selects(*n.Waiting) {
					waiting = append(waiting, *n.Waiting)
				}
			}
		}
	}
	listed := list.Items[:0]
	for _, n := range list.Items {
		now, ok := live[nodeKey{n.Datacenter, n.ID}]
		if !ok {
			if n = v.stored(n); answered[n.Datacenter] && n.Admission == writ.AdmissionApproved {
				n.Liveness = writ.LivenessForgotten
			}
			listed = append(listed, n)
			continue
		}
		now.Update(&n)
		if filter.Selects(n) {
			listed = append(listed, n)
		}
	}
	list.Items = listed
	if page.Cursor == "" && filter.Admission == writ.AdmissionRemoved {
		late, err := v.justRemoved(ctx, filter, live)
		if err != nil {
			return list, err
		}
		list.Items = append(list.Items, late...)
	}
	if page.Cursor == "" && (filter.Admission == "" || filter.Admission == writ.AdmissionPending) {
		list.Items = append(list.Items, waiting...)
		slices.SortStableFunc(list.Items, func(a, b writ.Node) int {
			return cmp.Or(cmp.Compare(a.Datacenter, b.Datacenter), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
		})
	}
	return list, nil
}

// maxJustRemoved limits the nodes in a list whose removal is not stored in the ledger yet.
const maxJustRemoved = 100

// justRemoved returns nodes that are removed, but not yet marked as removed in the ledger: the event of the removal
// arrives after the answer to the signed order.
func (v *View) justRemoved(
	ctx context.Context, filter ledger.NodeFilter, live map[nodeKey]link.NodeNow,
) (late []writ.Node, err error) {
	var ids []writ.NodeID
	for id, n := range live {
		decided := len(n.Decided) > 0 && time.Since(n.Decided[len(n.Decided)-1].Time) < time.Hour
		if n.Admission == writ.AdmissionRemoved && decided && len(ids) < maxJustRemoved {
			ids = append(ids, id.node)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	inLedger := filter
	inLedger.Admission = "" // nodes that the ledger does not show as removed yet
	if len(filter.Nodes) == 0 {
		inLedger.Nodes = ids
	}
	list, err := v.Ledger.Nodes(ctx, inLedger, ledger.Page{Limit: maxJustRemoved})
	if err != nil {
		return nil, err
	}
	for _, n := range list.Items {
		if now, ok := live[nodeKey{n.Datacenter, n.ID}]; ok {
			if now.Update(&n); filter.Selects(n) {
				late = append(late, n)
			}
		}
	}
	return late, nil
}

// stored converts a node of the ledger. While its datacenter is disconnected, the liveness of an approved node is
// unknown.
func (v *View) stored(n writ.Node) writ.Node {
	_, connected := v.Links.Session(n.Datacenter)
	if !connected && (n.Admission == writ.AdmissionApproved || n.Liveness == writ.LivenessReady) {
		n.Liveness = writ.LivenessUnknown
	}
	return n
}

// NodeLog asks a node, through its datacenter, for lines of its log.
func (v *View) NodeLog(ctx context.Context, datacenter writ.DatacenterID, query link.LogOfNode) (api.NodeLog, error) {
	return Ask[api.NodeLog](ctx, v, datacenter, link.VerbNodeLog, query)
}
