package nodes

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"writ"
	"writ/coord/api"
	"writ/coord/dashboard/page"
	"writ/coord/dashboard/snapshot"
	"writ/identity"
	"writ/ledger"
)

// maxQueues limits the queues on a page. Queues with problems come first, then queues with the most calls.
const maxQueues = 40

// queuesPage is the page of all queues: the current and earlier depth of each, and the remedy if its node takes no
// calls.
func (d *Pages) queuesPage(ctx context.Context, r *http.Request, _ bool) (*page.Page, error) {
	only := writ.DatacenterID(r.URL.Query().Get("datacenter"))
	now, err := d.Now(ctx)
	if err != nil {
		return nil, err
	}
	nodes := map[snapshot.NodeKey]writ.Node{}
	for n, err := range ledger.All(ctx, d.Ledger.Nodes, ledger.NodeFilter{Datacenter: only}) {
		if err != nil {
			return nil, err
		}
		nodes[snapshot.NodeKey{Datacenter: n.Datacenter, Node: n.ID}] = n
	}
	rows, left := d.queueRows(now, only, nodes, d.Reader(ctx))
	p := &page.Page{
		Title: "Queues", Nav: "queues",
		Body: queueList{nodeFilter{only, now.Datacenters}},
	}
	page.Add(p, page.Part{ID: "total"}, queuesLeft{left})
	page.Add(p, page.Part{ID: "queues"}, rows...)
	return p, nil
}

// queuesLeft counts the queues that the page omits.
type queuesLeft struct{ N int }

// Key is constant, because its part of the page has no other element.
func (queuesLeft) Key() string { return "total" }

// queueRow is a row of the page of queues.
type queueRow struct {
	snapshot.Queue
	Health string // health of the node, "" if unknown
	Slots  int
	Page   string // page of the node, or ""
	Chart  snapshot.Chart
	Help   string // advice if something is wrong, or ""
	Lines  []string
}

// trouble reports whether the row has advice, because the calls of the queue make no progress.
func (r queueRow) trouble() bool { return r.Help != "" }

func (d *Pages) queueRows(
	now *snapshot.Snapshot, only writ.DatacenterID, nodes map[snapshot.NodeKey]writ.Node, reader page.Reader,
) (rows []queueRow, left int) {
	for _, dc := range now.Queues {
		if only != "" && dc.Datacenter != only {
			continue
		}
		if dc.Error != nil {
			row := queueRow{
				Queue: snapshot.Queue{Datacenter: dc.Datacenter, Name: dc.Name, Error: dc.Error}, Health: "away",
				Help:  "The datacenter does not answer: its supervisor must run, and reach the coordinator.",
				Lines: []string{"writ dc list"},
			}
			rows = append(rows, row)
		}
		for _, q := range dc.Queues {
			key := snapshot.NodeKey{Datacenter: dc.Datacenter, Node: q.Node}
			row := queueRow{Queue: snapshot.QueueOf(now, dc, q), Chart: d.History.Chart(key, now.At)}
			if q.Node == "" {
				row.unplaced()
			} else if n, ok := nodes[key]; ok {
				row.of(nodeRowOf(n, now), now.Datacenter(dc.Datacenter), reader)
			}
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(a, b queueRow) int {
		switch {
		case a.trouble() == b.trouble():
			return cmp.Compare(b.Open(), a.Open())
		case a.trouble():
			return -1
		}
		return 1
	})
	if left = len(rows) - maxQueues; left > 0 {
		return rows[:maxQueues], left
	}
	return rows, 0
}

// unplaced sets the advice for calls without a node.
func (r *queueRow) unplaced() {
	if r.Open() > 0 {
		r.Help = "These calls have no node yet: they wait for other calls, or no node fits."
		r.Lines = []string{"writ run list --state running --why"}
	}
}

// of sets the facts about the node of a queue, and the advice if the node takes no calls.
func (r *queueRow) of(n nodeRow, dc api.Datacenter, reader page.Reader) {
	r.Health, r.Slots, r.Page = n.Health, n.Slots, n.Page()
	word := n.Word()
	if r.Queued+r.Running == 0 || word == "" || !writ.ValidName(dc.Name) {
		return
	}
	show := "writ node show " + word + " --dc " + dc.Name
	switch {
	case n.Admission != writ.AdmissionApproved:
		r.Help = "The node is " + string(n.Admission) + ": no runner takes these calls."
	case !dc.IsConnected():
		r.Help, show = "Its datacenter is "+string(dc.Health)+
			": its supervisor must run, and reach the coordinator.", "writ dc list"
	case n.Liveness != writ.LivenessReady:
		r.Help = "No runner takes these calls: the node sends no heartbeats. Start its runner, or look at its machine and network."
		if n.Liveness == writ.LivenessLost && reader.Allows(identity.ActionAdmitNodes, "") {
			r.Help += " If it never comes back, turn the machine off and sign that it is lost: its calls end, or go to other nodes."
			r.Lines = append(r.Lines, "writ node lost "+word+" --dc "+dc.Name)
		}
	case n.Fault != "":
		r.Help = "The node takes no work: " + n.Fault
	case len(n.Stuck) > 0:
		r.Help = "A driver of the node ignores its deadline, and other work on the same resource waits."
	default:
		return
	}
	r.Lines = append([]string{show}, r.Lines...)
}
