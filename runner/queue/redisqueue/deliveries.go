package redisqueue

import (
	"maps"
	"strings"
	"sync"

	"writ"
)

// deliveries tracks the tasks that asynq passed to this process. asynq may pass a task again although its handler runs
// or has returned: if the completion could not be written, if a lease or timeout expired, or after an outage of Redis.
// This process then answers from its own record. An entry is kept until Redis has dropped the task.
type deliveries struct {
	mu sync.Mutex
	of map[writ.NodeID]map[string]*delivery
}

// maxDeliveries limits the entries of a node. Redis holds more finished tasks only if an attacker writes to the queue.
// A task without an entry may reach its handler again; the node then repeats its answer.
const maxDeliveries = 50_000

// delivery is one task in this process.
type delivery struct {
	done chan struct{} // closed when the handler has returned or the delivery was abandoned
	err  error         // reason of abandon, nil if the handler ran; valid once done is closed
	seen bool          // the delivery was over at the last repair; used only by repair
}

func (d *delivery) over() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// begin returns the delivery of a task. fresh reports whether begin created it.
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
	if len(ds.of[node]) >= maxDeliveries {
		maps.DeleteFunc(ds.of[node], func(_ string, d *delivery) bool { return d.over() })
	}
	d = &delivery{done: make(chan struct{})}
	ds.of[node][id] = d
	return d, true
}

// abandon ends a delivery whose handler did not run: another process or a later Serve handles the task.
func (ds *deliveries) abandon(node writ.NodeID, id string, d *delivery, err error) {
	d.err = err
	close(d.done)
	ds.forget(node, id)
}

// forget drops the entries of tasks that are no longer in Redis.
func (ds *deliveries) forget(node writ.NodeID, ids ...string) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for _, id := range ids {
		delete(ds.of[node], id)
	}
}

// gone is forget for callers that have the key of the list `active` instead of the node.
func (ds *deliveries) gone(active, id string) {
	if _, rest, ok := strings.Cut(active, "{"); ok {
		node, _, _ := strings.Cut(rest, "}")
		ds.forget(writ.NodeID(node), id)
	}
}

// get returns the delivery of a task, or nil if it is unknown.
func (ds *deliveries) get(node writ.NodeID, id string) *delivery {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return ds.of[node][id]
}

// any reports whether a node has tasks in this process, or finished tasks that Redis may still have.
func (ds *deliveries) any(node writ.NodeID) bool {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return len(ds.of[node]) > 0
}

// over returns the IDs of the tasks whose handlers have returned.
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
