package supervisor

import (
	"slices"
	"strings"
	"sync"
	"time"

	"writ"
	"writ/supervisor/bound"
	"writ/supervisor/mail"
	"writ/supervisor/placement"
)

// A journal that was restored from a backup lacks the jobs that were sent after the backup. If such a call were placed
// on a different node, it would take effect twice. Nodes are therefore asked for their calls of the earlier runs. No
// call of such a run is placed until every node has reported. A call that a node reported goes to that node, which
// answers it from its record.

// maxAsked limits the runs in one request to a node.
const maxAsked = 64

// inventories holds the reports of nodes about runs that are reconciled. It is in memory only: the next supervisor asks
// again.
type inventories struct {
	fleet *fleet
	until func() time.Time

	mu   sync.Mutex
	runs map[writ.RunID]map[writ.NodeID][]int // calls per run and node, sorted; no entry until the node has reported
}

func newInventories(fleet *fleet, until func() time.Time) *inventories {
	return &inventories{fleet: fleet, until: until, runs: make(map[writ.RunID]map[writ.NodeID][]int)}
}

// ask starts the reconciliation of a run and returns the nodes that have not reported yet. They are asked again with
// each beat.
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

// unanswered returns the runs that a node has not reported yet, at most maxAsked.
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

// hear records a node's calls of a run. It returns false if the report was not requested. The first report stands: this
// supervisor has sent all later calls.
func (d *inventories) hear(node writ.NodeID, run writ.RunID, calls []int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	said, asked := d.runs[run]
	if _, again := said[node]; !asked || again {
		return false
	}
	said[node] = bound.Calls(calls)
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

// hearInventories handles the inventories of a node. An inventory for an earlier epoch is ignored, because the earlier
// supervisor may have sent more calls since.
func (s *Supervisor) hearInventories(node writ.NodeID, all []writ.Inventory) {
	for _, r := range all {
		if r.Epoch == s.epoch && s.inventories.hear(node, r.Run, r.Calls) &&
			len(s.inventories.ask(r.Run, s.fleet.serving())) == 0 {
			s.steps.Post(r.Run, mail.Mail{})
		}
	}
}

// Missing implements Inventories. The reason includes the state of nodes that cannot report.
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
