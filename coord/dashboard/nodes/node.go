package nodes

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"writ"
	"writ/coord/api"
	"writ/coord/dashboard/page"
	"writ/identity"
	"writ/internal/hidden"
	"writ/ledger"
)

// node is the page of one node: its health, its resources, its waiting calls, and the commands for operators.
func (d *Pages) node(ctx context.Context, r *http.Request, _ bool) (*page.Page, error) {
	datacenter, id := page.PathPart(r, "datacenter"), page.PathPart(r, "node")
	n, err := d.nodeOf(ctx, writ.DatacenterID(datacenter), writ.NodeID(id))
	if err != nil {
		return nil, err
	}
	now, err := d.Now(ctx)
	if err != nil {
		return nil, err
	}
	counts, err := d.Ledger.CountResources(ctx, ledger.ResourceFilter{Datacenter: n.Datacenter, Node: n.ID})
	if err != nil {
		return nil, err
	}
	row := nodeRowOf(n, now)
	head := nodeHead{nodeRow: row, Commands: nodeCommands(row, now.Datacenter(n.Datacenter), d.Reader(ctx))}
	if d.Reader(ctx).Allows(identity.ActionScheduleNodes, "") {
		head.LogPage = page.NodePage(n.Datacenter, n.ID) + "/log"
	}
	for _, o := range n.Orphans {
		head.OrphanLines = append(head.OrphanLines,
			hidden.Escape(fmt.Sprintf("%s %s of the driver %s", o.Kind, o.Name, o.Module)))
	}
	p := &page.Page{Title: n.Name, Nav: "nodes", Body: nodePlace{}}
	page.Add(p, page.Part{ID: "head"}, head)
	made := &url.URL{
		Path: "/resources", RawQuery: url.Values{"datacenter": {string(n.Datacenter)}, "node": {string(n.ID)}}.Encode(),
	}
	page.Add(p, page.Part{ID: "counts"}, page.Counts(made, "kind", writ.ResourceKinds, counts)...)
	drivers := make([]driverRow, len(n.Drivers))
	for i, driver := range n.Drivers {
		drivers[i] = driverRow{driver}
	}
	page.Add(p, page.Part{ID: "drivers"}, drivers...)
	return p, nil
}

// nodeOf returns a node, which may be removed.
func (d *Pages) nodeOf(ctx context.Context, datacenter writ.DatacenterID, node writ.NodeID) (writ.Node, error) {
	filter := ledger.NodeFilter{Datacenter: datacenter, Nodes: []writ.NodeID{node}}
	for _, filter.Admission = range []writ.Admission{"", writ.AdmissionRemoved} {
		if datacenter == "" || node == "" {
			break
		}
		list, err := d.Ledger.Nodes(ctx, filter, ledger.Page{Limit: 1})
		if err != nil {
			return writ.Node{}, err
		}
		if len(list.Items) > 0 {
			return list.Items[0], nil
		}
	}
	return writ.Node{}, ledger.NotThere("node", node)
}

// nodeHead is the upper part of the page of a node.
type nodeHead struct {
	nodeRow
	Commands    []page.Command
	OrphanLines []string
	LogPage     string // "" if the reader may not open it
}

// Key is constant, because its part of the page has no other element.
func (nodeHead) Key() string { return "head" }

// Decisions lists the stored decisions, the last one first.
func (h nodeHead) Decisions() (all []string) {
	for _, d := range slices.Backward(h.Decided) {
		all = append(all, page.Decided([]writ.Decision{d}))
	}
	return all
}

// StuckJobs lists the jobs whose drivers ignore their deadline.
func (h nodeHead) StuckJobs() []stuckJob {
	all := make([]stuckJob, len(h.Stuck))
	for i, s := range h.Stuck {
		all[i] = stuckJob{Text: hidden.Escape(s.Operation + " " + s.Name), Run: s.Run, Seq: s.Seq, Since: s.Since}
	}
	return all
}

type stuckJob struct {
	Text  string
	Run   writ.RunID
	Seq   int
	Since time.Time
}

// driverRow is a row of the list of drivers.
type driverRow struct{ writ.NodeDriver }

func (r driverRow) Key() string { return r.Module }

// nodeWord returns the name of a node for a command, or its id if the name is unsafe in a shell, or "" if both are.
func nodeWord(n writ.Node) string {
	switch {
	case writ.ValidName(n.Name):
		return n.Name
	case writ.ValidUUID(string(n.ID)):
		return string(n.ID)
	}
	return ""
}

// nodeCommands returns the commands that the state of a node and the reader's role permit. All but the first must be
// signed.
func nodeCommands(row nodeRow, dc api.Datacenter, reader page.Reader) []page.Command {
	word := nodeWord(row.Node)
	if word == "" || !writ.ValidName(dc.Name) {
		return nil
	}
	line := func(verb, more string) string {
		return "writ node " + verb + " " + word + more + " --dc " + dc.Name
	}
	all := []page.Command{{Does: "Everything about it", Line: line("show", "")}}
	offer := func(allowed bool, does, verb, more string) {
		if allowed {
			all = append(all, page.Command{Does: does, Line: line(verb, more)})
		}
	}
	schedules, admits := reader.Allows(identity.ActionScheduleNodes, ""), reader.Allows(identity.ActionAdmitNodes, "")
	moves := func(to writ.Scheduling) bool {
		return row.Admission == writ.AdmissionApproved && writ.CanMove(writ.SchedulingMoves, row.Scheduling, to)
	}
	becomes := func(to writ.Admission) bool { return writ.CanMove(writ.AdmissionMoves, row.Admission, to) }
	offer(schedules && moves(writ.SchedulingCordoned), "No new work", "cordon", "")
	offer(schedules && moves(writ.SchedulingDraining), "No new work, and wait for the rest", "drain", " --wait")
	offer(schedules && moves(writ.SchedulingOpen), "Work again", "uncordon", "")
	offer(admits && becomes(writ.AdmissionApproved), "Admit it. The machine shows its fingerprint", "approve",
		" FINGERPRINT")
	offer(admits && becomes(writ.AdmissionRejected),
		"Do not admit it. Compare its fingerprint with the fingerprints of your machines", "reject", " FINGERPRINT")
	lost := row.Admission == writ.AdmissionApproved && row.Liveness == writ.LivenessLost
	offer(admits && lost, "It never comes back. Turn its machine off first", "lost", "")
	print := ""
	if row.Admission != writ.AdmissionApproved { // other nodes may have the same name
		print = " --fingerprint FINGERPRINT"
	}
	offer(admits && !lost && becomes(writ.AdmissionRemoved), "Remove it from the datacenter", "remove", print)
	return all
}
