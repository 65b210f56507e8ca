package supervisor

import (
	"slices"
	"strings"
	"sync"
	"time"

	"writ"
	"writ/supervisor/mail"
	"writ/supervisor/placement"
)

// A journal that came from a backup does not know what nodes were sent since the backup was made, and a call that is placed on another node
// than before would take effect twice. So nodes are asked for the runs from before: none of their calls is placed until every node has said
// which of them it has, and those go where they were, to be answered from the record of that node.

// maxAsked is how many runs a node is asked for at a time.
const maxAsked = 64

// inventories are what nodes have said of runs that are reconciled. It is not kept: the next supervisor asks again.
type inventories struct {
	fleet *fleet
	until func() time.Time

	mu   sync.Mutex
	runs map[writ.RunID]map[writ.NodeID][]int // the calls that each node has, sorted; no entry while it has not said
}

func newInventories(fleet *fleet, until func() time.Time) *inventories {
	return &inventories{fleet: fleet, until: until, runs: make(map[writ.RunID]map[writ.NodeID][]int)}
}

// ask returns those of some nodes that have not said yet what they have of a run. They are asked for it whenever they beat.
func (d *inventories) ask(run writ.RunID, nodes []writ.NodeID) (silent []writ.NodeID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.runs[run] == nil {
		d.runs[run] = make(map[writ.NodeID][]int)
	}
	for _, node := range nodes {
		if _, said := d.runs[run][node]; !said {
			silent = append(silent, node)
		}
	}
	return silent
}

// unanswered returns runs that a node has to be asked for, maxAsked at most.
func (d *inventories) unanswered(node writ.NodeID) (runs []writ.RunID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for run, said := range d.runs {
		if _, answered := said[node]; !answered {
			runs = append(runs, run)
		}
	}
	slices.Sort(runs)
	return runs[:min(len(runs), maxAsked)]
}

// hear takes which calls of a run a node has. It reports false if nobody asked. The first answer stands: what the node begins after it was
// sent by us.
func (d *inventories) hear(node writ.NodeID, run writ.RunID, calls []int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	said, asked := d.runs[run]
	if _, again := said[node]; !asked || again {
		return false
	}
	said[node] = validCalls(calls)
	return true
}

// Having implements Inventories.
func (d *inventories) Having(run writ.RunID, seq int) (having []writ.NodeID) {
	nodes := d.fleet.serving()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, node := range nodes {
		if _, found := slices.BinarySearch(d.runs[run][node], seq); found {
			having = append(having, node)
		}
	}
	return having
}

// RestoredUntil implements Inventories.
func (d *inventories) RestoredUntil() time.Time { return d.until() }

func (d *inventories) forget(run writ.RunID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.runs, run)
}

// hearInventories takes what a node has of runs that are reconciled. What it had when it knew only an earlier supervisor does not count: that one may have
// sent more since.
func (s *Supervisor) hearInventories(node writ.NodeID, all []writ.Inventory) {
	for _, r := range all {
		if r.Epoch == s.epoch && s.inventories.hear(node, r.Run, r.Calls) && len(s.inventories.ask(r.Run, s.fleet.serving())) == 0 {
			s.steps.Post(r.Run, mail.Mail{})
		}
	}
}

// Missing implements Inventories. The reason has the state of nodes that cannot report.
func (d *inventories) Missing(run writ.RunID) writ.Reason {
	silent := d.ask(run, d.fleet.serving())
	if len(silent) == 0 {
		return writ.Reason{}
	}
	nodes := make([]writ.NodesReason, len(silent))
	for i, node := range silent {
		nodes[i].Names = []string{d.fleet.Name(node)}
		if _, why := d.fleet.Away(node); !why.IsZero() {
			nodes[i].State, nodes[i].Text = why.State, why.Trouble()
		}
	}
	slices.SortFunc(nodes, func(a, b writ.NodesReason) int { return strings.Compare(a.Names[0], b.Names[0]) })
	more := 0
	if n := len(nodes) - placement.MaxNamed; n > 1 {
		nodes, more = nodes[:placement.MaxNamed], n
	}
	return writ.Reason{Code: writ.ReasonNodeReport, Nodes: nodes, More: more}
}
