package fleet

import (
	"slices"
	"strings"
	"sync"
	"time"

	"writ"
	"writ/supervisor/bound"
	"writ/supervisor/placement"
)

// maxAsked limits the runs in one request to a node.
const maxAsked = 64

// Inventories holds the reports of nodes about runs that are reconciled after a restore. It is in memory only: the next
// supervisor asks again.
//
// A journal that was restored from a backup lacks the jobs that were sent after the backup. If the call of such a job
// were placed on a different node, it would take effect twice. Nodes are therefore asked which calls of the restored
// runs they have. No call of such a run is placed until every node has reported. A call that a node reported goes to
// that node, which answers it from its record.
type Inventories struct {
	members *Members
	until   func() time.Time

	mu   sync.Mutex
	runs map[writ.RunID]map[writ.NodeID][]int // calls per run and node, sorted; no entry until the node has reported
}

// NewInventories returns the inventories of a journal. The function `until` returns the end of its restored period.
func NewInventories(members *Members, until func() time.Time) *Inventories {
	return &Inventories{members: members, until: until, runs: make(map[writ.RunID]map[writ.NodeID][]int)}
}

// unreported starts the reconciliation of a run and returns the nodes that have not reported yet. Each beat of such a
// node causes another request.
func (v *Inventories) unreported(run writ.RunID) (missing []writ.NodeID) {
	serving := v.members.Serving()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.runs[run] == nil {
		v.runs[run] = make(map[writ.NodeID][]int)
	}
	for _, node := range serving {
		if _, reported := v.runs[run][node]; !reported {
			missing = append(missing, node)
		}
	}
	return missing
}

// Unanswered returns the runs that a node has not reported yet, at most maxAsked.
func (v *Inventories) Unanswered(node writ.NodeID) (runs []writ.RunID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for run, reports := range v.runs {
		if _, answered := reports[node]; !answered {
			runs = append(runs, run)
		}
	}
	slices.Sort(runs)
	return runs[:min(len(runs), maxAsked)]
}

// Add records a node's calls of a run. It reports whether that was the last missing report of the run. A report that
// was not requested is ignored. Only the first report of a node counts: this supervisor itself has sent all later
// calls.
func (v *Inventories) Add(node writ.NodeID, run writ.RunID, calls []int) (complete bool) {
	return v.record(node, run, calls) && len(v.unreported(run)) == 0
}

func (v *Inventories) record(node writ.NodeID, run writ.RunID, calls []int) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	reports, asked := v.runs[run]
	if _, again := reports[node]; !asked || again {
		return false
	}
	reports[node] = bound.Calls(calls)
	return true
}

// Having returns the serving nodes that reported a call.
func (v *Inventories) Having(run writ.RunID, seq int) (having []writ.NodeID) {
	serving := v.members.Serving()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, node := range serving {
		if _, found := slices.BinarySearch(v.runs[run][node], seq); found {
			having = append(having, node)
		}
	}
	return having
}

// RestoredUntil returns the end of the restored period.
func (v *Inventories) RestoredUntil() time.Time { return v.until() }

// Forget drops the reports about a run.
func (v *Inventories) Forget(run writ.RunID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.runs, run)
}

// Missing returns the reason why a run waits for reports, with the state of nodes that cannot report; zero if all nodes
// have reported. It requests the missing reports.
func (v *Inventories) Missing(run writ.RunID) writ.Reason {
	missing := v.unreported(run)
	if len(missing) == 0 {
		return writ.Reason{}
	}
	nodes := make([]writ.NodesReason, len(missing))
	for i, node := range missing {
		nodes[i].Names = []string{v.members.Name(node)}
		if _, why := v.members.Away(node); !why.IsZero() {
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
