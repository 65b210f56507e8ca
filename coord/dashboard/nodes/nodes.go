// Package nodes has the pages of datacenters, nodes, their logs and queues, and of booting machines.
package nodes

import (
	"context"
	"net/http"

	"writ"
	"writ/coord/api"
	"writ/coord/dashboard/page"
	"writ/coord/dashboard/snapshot"
	"writ/ledger"
)

// maxNodes limits the nodes on a page.
const maxNodes = 50

// Pages serves the pages of datacenters, nodes, queues and booting machines.
type Pages struct{ *snapshot.Source }

// Routes lists the pages about nodes, queues and boots.
func (d *Pages) Routes() []page.Route {
	return []page.Route{
		{Pattern: "/queues", View: d.queuesPage, Live: true},
		{Pattern: "/nodes", View: d.nodes, Live: true},
		{Pattern: "/boot", View: d.boot, Live: true},
		{Pattern: "/nodes/{datacenter}/{node}", View: d.node, Live: true},
		{Pattern: "/datacenters", View: d.datacenters, Live: true},
		{Pattern: "/nodes/{datacenter}/{node}/log", View: d.nodeLog},
	}
}

// nodes is the page of the nodes: the state of each, whether it gets work, and its load.
func (d *Pages) nodes(ctx context.Context, r *http.Request, _ bool) (*page.Page, error) {
	q := r.URL.Query()
	now, err := d.Now(ctx)
	if err != nil {
		return nil, err
	}
	filter := ledger.NodeFilter{Datacenter: writ.DatacenterID(q.Get("datacenter"))}
	list, err := d.Ledger.Nodes(ctx, filter, ledger.Page{Limit: maxNodes, Cursor: q.Get(page.CursorParam)})
	if err != nil {
		return nil, err
	}
	p := &page.Page{Title: "Nodes", Nav: "nodes", Body: nodesPage{nodeFilter{filter.Datacenter, now.Datacenters}}}
	rows := make([]nodeRow, len(list.Items))
	for i, n := range list.Items {
		rows[i] = nodeRowOf(n, now)
	}
	page.Add(p, page.Part{ID: "nodes"}, rows...)
	page.Add(p, page.Part{ID: "pager"}, page.PagerOf(r.URL, list.Next, "More nodes"))
	return p, nil
}

// nodeFilter is the filter of the lists of nodes, queues and booting machines.
type nodeFilter struct {
	Datacenter  writ.DatacenterID // "" for all
	Datacenters []api.Datacenter
}

type nodesPage struct{ nodeFilter }

// nodeRow is a row of the list of nodes.
type nodeRow struct {
	writ.Node
	DatacenterName string
	Depth          writ.QueueDepth
	Health         string // one word: ready, faulty, silent, lost, unknown, pending, rejected, removed
	Why            string // why it gets no work, "" if it does
	Unheard        *snapshot.Unheard
}

// Page returns the address of the node's page. Word returns the name of the node in commands.

func (n nodeRow) Page() string { return page.NodePage(n.Datacenter, n.ID) }
func (n nodeRow) Word() string { return nodeWord(n.Node) }

func (n nodeRow) Key() string { return string(n.ID) }

// nodeRowOf describes the state of a node. While its datacenter is disconnected, its liveness is unknown.
func nodeRowOf(n writ.Node, now *snapshot.Snapshot) nodeRow {
	dc := now.Datacenter(n.Datacenter)
	row := nodeRow{Node: n, DatacenterName: dc.Name, Health: string(n.Liveness)}
	for _, queues := range now.Queues {
		for _, q := range queues.Queues {
			if queues.Datacenter == n.Datacenter && q.Node == n.ID {
				row.Depth = q
			}
		}
	}
	if u, is := now.UnheardNode(n.Datacenter, n.ID); is || n.Liveness == writ.LivenessSilent ||
		n.Liveness == writ.LivenessLost {
		if !is { // the list of nodes is newer than the snapshot
			u = snapshot.Unheard{Name: n.Name, State: string(n.Liveness), Since: n.LastBeat}
		}
		row.Unheard = &u
	}
	switch {
	case n.Admission != writ.AdmissionApproved:
		row.Health, row.Why = string(n.Admission), "it is "+string(n.Admission)
	// The list of nodes may be newer than the list of datacenters, which then still shows the datacenter as connected.
	case !dc.IsConnected(), n.Liveness == writ.LivenessUnknown:
		row.Health, row.Why = snapshot.StateUnknown, "its datacenter is "+string(api.DatacenterHealthAway)
	case n.Liveness == writ.LivenessForgotten:
		row.Health, row.Why = snapshot.StateUnknown, "its datacenter does not know it"
	case n.Liveness != writ.LivenessReady:
		row.Why = "it sends no heartbeats"
	case n.Fault != "":
		row.Health, row.Why = "faulty", n.Fault
	case n.Scheduling != writ.SchedulingOpen:
		row.Why = "it is " + string(n.Scheduling)
	}
	return row
}

// datacenters is the page of the datacenters and their health.
func (d *Pages) datacenters(ctx context.Context, _ *http.Request, _ bool) (*page.Page, error) {
	now, err := d.Now(ctx)
	if err != nil {
		return nil, err
	}
	p := &page.Page{Title: "Datacenters", Nav: "datacenters", Body: datacentersPage{}}
	snapshot.AddHolds(p, d.Reader(ctx), now)
	if !d.Reader(ctx).All {
		names := make([]datacenterName, len(now.Datacenters))
		for i, dc := range now.Datacenters {
			names[i] = datacenterName{dc.ID, dc.Name, dc.Health}
		}
		page.Add(p, page.Part{ID: "datacenters"}, names...)
		return p, nil
	}
	rows := make([]datacenterRow, len(now.Datacenters))
	for i, dc := range now.Datacenters {
		rows[i] = datacenterRow{Datacenter: dc}
		for _, queues := range now.Queues {
			if queues.Datacenter != dc.ID {
				continue
			}
			rows[i].Known = queues.Error == nil
			for _, q := range queues.Queues {
				if q.Node != "" { // calls that were not placed yet have no node
					rows[i].Nodes++
				}
				rows[i].Depth.Add(now, dc.ID, q)
			}
		}
	}
	page.Add(p, page.Part{ID: "datacenters"}, rows...)
	return p, nil
}

// datacenterName is a row of the list of datacenters for readers of some projects. It has only the facts that
// SECURITY.md permits every reader to see.
type datacenterName struct {
	ID     writ.DatacenterID
	Name   string
	Health api.DatacenterHealth
}

func (d datacenterName) Key() string { return string(d.ID) }

// datacenterRow is a row of the list of datacenters.
type datacenterRow struct {
	api.Datacenter
	Known bool // the datacenter reported its queues
	Nodes int  // number of nodes with a queue
	Depth snapshot.Depth
}

// Key returns the datacenter's id. SupervisorKey returns the field Key of the datacenter, which the method Key hides.

func (d datacenterRow) Key() string           { return string(d.ID) }
func (d datacenterRow) SupervisorKey() string { return d.Datacenter.Key }
