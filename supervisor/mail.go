package supervisor

import (
	"fmt"
	"slices"

	"writ"
	"writ/runner/queue"
	"writ/supervisor/journal"
)

// mail is what came in for a run since its last step.
type mail struct {
	results []arrival
	started []active // their nodes work on them
	// progress is how far calls are, the newest of each last.
	progress []advance
	again    []sending     // lost on the way: to be delivered again
	overdue  []writ.JobKey // past their end-by, and nobody reported
	lost     []writ.NodeID // nodes that did not come back
	stop     *stop
	resume   *resumption   // nobody else's mail is with it
	taken    []sending     // withdrawn from the queue before a node took them
	kept     []writ.JobKey // of a lost node, and not in the queue any more: it may have begun them

	// also is written in the transaction of the step; done is told when that is on disk.
	also func(tx *journal.Tx) error
	done chan<- error
}

// arrival is a result whose envelope was verified.
type arrival struct {
	result  writ.Result
	node    writ.NodeID    // whose key signed it
	frame   *journal.Frame // for the proof
	message queue.Message
}

// active is a job that a node says it works on.
type active struct {
	key  writ.JobKey
	node writ.NodeID
}

// advance is what a node says of a job that it works on.
type advance struct {
	key  writ.JobKey
	node writ.NodeID
	text string
}

// sending names one delivery.
type sending struct {
	key      writ.JobKey
	delivery int
}

func sendingOf(c *journal.Call) sending { return sending{c.Key(), c.Delivery} }

// sendingsOf names the deliveries of a call's attempt that a node may have or may still get: all but those that were taken back.
func sendingsOf(c *journal.Call) []sending {
	var all []sending
	for d := c.Withdrawn + 1; d <= c.Delivery; d++ {
		all = append(all, sending{c.Key(), d})
	}
	return all
}

// taskOf is what a delivery is called in the queue.
func taskOf(s sending) string { return fmt.Sprintf("%s-%d", s.key, s.delivery) }

func (m *mail) add(n mail) {
	m.results = append(m.results, n.results...)
	m.started = append(m.started, n.started...)
	for _, p := range n.progress { // only the newest counts
		m.progress = append(slices.DeleteFunc(m.progress, func(before advance) bool { return before.key == p.key }), p)
	}
	m.again = append(m.again, n.again...)
	m.overdue = append(m.overdue, n.overdue...)
	m.lost = append(m.lost, n.lost...)
	m.taken = append(m.taken, n.taken...)
	m.kept = append(m.kept, n.kept...)
	if n.stop != nil {
		m.stop = n.stop
	}
}

// compact drops what is said twice: while a run cannot be written, the same is noticed every second.
func (m *mail) compact() {
	m.started, m.again, m.overdue = unique(m.started), unique(m.again), unique(m.overdue)
	m.lost, m.taken, m.kept = unique(m.lost), unique(m.taken), unique(m.kept)
}

func unique[T comparable](list []T) []T {
	seen := make(map[T]bool, len(list))
	return slices.DeleteFunc(list, func(v T) bool {
		known := seen[v]
		seen[v] = true
		return known
	})
}
