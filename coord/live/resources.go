package live

import (
	"context"
	"time"

	"writ"
	"writ/coord/api"
	"writ/ledger"
	"writ/supervisor/link"
)

// Listed adds to each resource why its state is not current: its datacenter is disconnected or does not answer, or its
// node is silent, lost, removed or forgotten. It also adds the load of each resource, with the samples of a day if
// `samples` is set.
func Listed(
	ctx context.Context, v *View, resources []writ.Resource, samples bool,
) ([]api.ListedResource, error) {
	listed := api.Views(resources, func(r writ.Resource) api.ListedResource { return api.ListedResource{Resource: r} })
	if len(listed) == 0 {
		return listed, nil
	}
	loaded := make(chan map[loadKey]*api.Load, 1)
	go func() { loaded <- loadsOf(ctx, v, resources, samples) }()
	nodes, err := nodesOf(ctx, v, resources)
	loads := <-loaded
	if err != nil {
		return nil, err
	}
	datacenters, err := v.Datacenters(ctx)
	if err != nil {
		return nil, err
	}
	heard := make(map[writ.DatacenterID]time.Time)
	for _, d := range datacenters {
		heard[d.ID] = d.Heard
	}
	for i, r := range listed {
		listed[i].Load = loads[keyOf(r.Resource)]
		n, known := nodes.byID[nodeKey{r.Datacenter, r.Node}]
		switch {
		case !nodes.answered[r.Datacenter]:
			listed[i].Unheard = &api.Unheard{State: api.UnheardStateAway, Since: heard[r.Datacenter]}
		case known && n.Admission == writ.AdmissionRemoved:
			listed[i].Unheard = &api.Unheard{State: api.UnheardStateLost, Since: n.LastBeat}
		case known && (n.Liveness == writ.LivenessSilent || n.Liveness == writ.LivenessLost ||
			n.Liveness == writ.LivenessForgotten):
			listed[i].Unheard = &api.Unheard{State: api.UnheardState(n.Liveness), Since: n.LastBeat}
		}
	}
	return listed, nil
}

// nodesNow holds the nodes of datacenters in their current state.
type nodesNow struct {
	byID     map[nodeKey]writ.Node
	answered map[writ.DatacenterID]bool // datacenters that answered, or whose version does not support the request
	listed   map[writ.DatacenterID]bool // datacenters that answered
}

// nodesOf asks the datacenters of resources for their nodes. Nodes that no answer contains, such as removed nodes, are
// read from the ledger.
func nodesOf(ctx context.Context, v *View, resources []writ.Resource) (nodesNow, error) {
	now := nodesNow{
		make(map[nodeKey]writ.Node), make(map[writ.DatacenterID]bool), make(map[writ.DatacenterID]bool),
	}
	missing := make(map[nodeKey]bool)
	only := resources[0].Datacenter
	for _, r := range resources {
		if r.Node != "" {
			missing[nodeKey{r.Datacenter, r.Node}] = true
		}
		if r.Datacenter != only {
			only = ""
		}
	}
	answers, err := EachWithin[[]link.NodeNow](ctx, v, nodesWithin, only, link.VerbNodes, link.Nodes{})
	if err != nil {
		return now, err
	}
	for _, a := range answers {
		now.listed[a.ID] = a.Err == nil
		now.answered[a.ID] = a.Err == nil || writ.CodeOf(a.Err) == writ.CodeVerbUnsupported
		for _, n := range a.Answer {
			if n.Waiting != nil { // a waiting node has no resources, and anyone may have chosen its id
				continue
			}
			now.byID[nodeKey{a.ID, n.ID}] = writ.Node{Admission: n.Admission, Liveness: n.Liveness, LastBeat: n.LastBeat}
			delete(missing, nodeKey{a.ID, n.ID})
		}
	}
	for _, admission := range []writ.Admission{"", writ.AdmissionRemoved} { // "" selects all nodes except removed nodes
		if len(missing) == 0 { // an empty filter selects all nodes
			break
		}
		filter := ledger.NodeFilter{Admission: admission}
		for key := range missing {
			filter.Nodes = append(filter.Nodes, key.node)
		}
		for n, err := range ledger.All(ctx, v.Ledger.Nodes, filter) {
			if err != nil {
				return now, err
			}
			if key := (nodeKey{n.Datacenter, n.ID}); missing[key] {
				if now.listed[n.Datacenter] && n.Admission == writ.AdmissionApproved {
					n.Liveness = writ.LivenessForgotten
				}
				now.byID[key] = n
				delete(missing, key)
			}
		}
	}
	return now, nil
}
