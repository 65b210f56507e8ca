package collect

import (
	"context"
	"slices"
	"sync"
	"time"

	"writ"
)

// epochs tracks the epochs that nodes have obeyed and that this journal did not begin. Such an epoch belongs to a
// supervisor whose journal is newer: this journal is an older copy of that journal. A single node may lie, so its
// report is only logged. If most nodes report such epochs, the journal is marked as restored.
type epochs struct {
	site Site

	mu     sync.Mutex
	nodes  map[writ.NodeID]int64
	marked bool // a reconciliation has started
}

// receive handles the epoch that a node has obeyed.
func (e *epochs) receive(ctx context.Context, node writ.NodeID, epoch int64) {
	if epoch == 0 || e.site.Journal.Gave(epoch) {
		return
	}
	if time.UnixMilli(epoch).Before(e.site.Journal.ReconcilesUntil()) {
		return // the epoch began before the known restore of this journal
	}
	first, most := e.add(node, epoch, e.site.Fleet.Members.Serving())
	if first {
		e.site.Log.Warn("a node has obeyed a supervisor that is unknown to the journal. "+
			"If the journal came from a backup, stop the supervisor and run `writ restore --mark`",
			"node", e.site.Fleet.Members.Name(node), "epoch", epoch)
	}
	if !most {
		return
	}
	if err := e.site.Journal.MarkRestored(ctx); err != nil {
		e.site.Log.Warn("mark the journal as restored, as most nodes report", "err", err)
		e.unmark()
		return
	}
	e.site.Log.Warn("journal restored from a backup, as most nodes report: " +
		"its runs wait until every node has reported its inventory")
}

// add records an unknown epoch of a node. `first` is set for the first unknown epoch of the node. `most` is set once,
// when most of the serving nodes have reported an unknown epoch.
func (e *epochs) add(node writ.NodeID, epoch int64, serving []writ.NodeID) (first, most bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, known := e.nodes[node]
	e.nodes[node] = epoch
	n := 0
	for _, id := range serving {
		if _, reported := e.nodes[id]; reported {
			n++
		}
	}
	most = !e.marked && 2*n > len(serving) && slices.Contains(serving, node)
	e.marked = e.marked || most
	return !known, most
}

// unmark makes the next unknown epoch start a reconciliation. It is called if the journal could not be marked as
// restored.
func (e *epochs) unmark() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.marked = false
}
