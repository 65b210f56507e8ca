package redisqueue

import (
	"strings"
	"sync"

	"writ"
)

// deliveries is what this process does and did with the tasks that asynq gave it. asynq may give a task again although its handler
// runs or has returned: when it could not write that the task is done, when a lease or timeout ran out, when Redis was away. This
// process answers then from here. An entry stays until Redis holds the task no more.
type deliveries struct {
	mu sync.Mutex
	of map[writ.NodeID]map[string]*delivery
}

// delivery is one task in this process.
type delivery struct {
	done chan struct{} // closed when it is over
	err  error         // why it is over without its handler having run; valid once done
	seen bool          // over when tend last looked; of tend alone
}

func (d *delivery) over() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// begin returns the delivery of a task, and whether it is new.
func (ds *deliveries) begin(node writ.NodeID, id string) (d *delivery, fresh bool) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if ds.of == nil {
		ds.of = map[writ.NodeID]map[string]*delivery{}
	}
	if ds.of[node] == nil {
		ds.of[node] = map[string]*delivery{}
	}
	if d := ds.of[node][id]; d != nil {
		return d, false
	}
	d = &delivery{done: make(chan struct{})}
	ds.of[node][id] = d
	return d, true
}

// abandon ends a delivery whose handler did not run: another process, or a later Serve, takes the task.
func (ds *deliveries) abandon(node writ.NodeID, id string, d *delivery, err error) {
	d.err = err
	close(d.done)
	ds.forget(node, id)
}

// forget drops tasks that Redis does not hold any more.
func (ds *deliveries) forget(node writ.NodeID, ids ...string) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for _, id := range ids {
		delete(ds.of[node], id)
	}
}

// gone is forget for those who know the key of the tasks that are worked on, and not the node.
func (ds *deliveries) gone(active string, ids []string) {
	if _, rest, ok := strings.Cut(active, "{"); ok {
		node, _, _ := strings.Cut(rest, "}")
		ds.forget(writ.NodeID(node), ids...)
	}
}

// get returns the delivery of a task, nil if this process knows nothing of it.
func (ds *deliveries) get(node writ.NodeID, id string) *delivery {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return ds.of[node][id]
}

// over returns the ids of the tasks whose handlers returned.
func (ds *deliveries) over(node writ.NodeID) []string {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	var ids []string
	for id, d := range ds.of[node] {
		if d.over() {
			ids = append(ids, id)
		}
	}
	return ids
}
