// Package mail holds the messages that advance a run: results and reports of nodes, decisions of people and findings of
// package watch. Package workflow applies them to runs.
package mail

import (
	"fmt"
	"slices"
	"time"

	"writ"
	"writ/internal/failpoint"
	"writ/runner/queue"
	"writ/supervisor/journal"
)

// Mail is the input of a step. An empty mail only requests a step.
type Mail struct {
	Results      []Arrival
	Started      []Active
	Progress     []Progress    // at most one for each job
	Resend       []Delivery    // deliveries that were lost
	Overdue      []writ.JobKey // sent jobs whose time has ended without a result
	LostNodes    []writ.NodeID
	StopAgain    bool // the run is being stopped, and nodes may have missed the order
	Stop         *Stop
	Resume       *Resume       // posted with Done, and so in a step of its own
	Withdrawn    []Delivery    // removed from the queue before a node received them
	MaybeStarted []writ.JobKey // jobs of a lost node that are no longer in the queue

	// Also makes further changes in the transaction of the step. Done receives the result of the step once it is on disk.
	// Mail with Done has a step of its own.
	Also func(tx *journal.Tx) error
	Done chan<- error
}

// Arrival is a result with a verified signature.
type Arrival struct {
	Result  writ.Result
	Node    writ.NodeID    // the signer
	Frame   *journal.Frame // the signed text, as proof
	Message queue.Message
}

// Active is a job that a node reports as started.
type Active struct {
	Key  writ.JobKey
	Node writ.NodeID
}

// Progress is the text that a node reports about a started job.
type Progress struct {
	Key  writ.JobKey
	Node writ.NodeID
	Text string
}

// Stop ends a run before its script ends.
type Stop struct {
	State  writ.RunState
	Err    *writ.Error
	By     time.Time // the run ends at this time even if nodes have not reported
	Signed time.Time // time of a signed cancel, else zero
	// Decision is the signed cancel, else nil.
	Decision *writ.Decision
}

// Resume continues a failed run by the decision of an operator.
type Resume struct {
	Decision writ.Decision
	Seen     int64 // end of the run as the operator saw it, in Unix microseconds
	Signed   time.Time
}

// Delivery identifies one delivery of a job.
type Delivery struct {
	Key    writ.JobKey
	Number int
}

// DeliveryOf returns the last delivery of a call.
func DeliveryOf(c *journal.Call) Delivery { return Delivery{c.Key(), c.Delivery} }

// DeliveriesOf returns the deliveries of a call's attempt that its node has or may still receive: all that were not
// withdrawn.
func DeliveriesOf(c *journal.Call) []Delivery {
	var all []Delivery
	for d := c.Withdrawn + 1; d <= c.Delivery; d++ {
		all = append(all, Delivery{c.Key(), d})
	}
	return all
}

// TaskID returns the name of the delivery in the queue.
func (d Delivery) TaskID() string { return fmt.Sprintf("%s-%d", d.Key, d.Number) }

// Add appends other mail for the same run. Neither may have Done.
func (m *Mail) Add(n Mail) {
	m.Results = append(m.Results, n.Results...)
	m.Started = append(m.Started, n.Started...)
	for _, p := range n.Progress {
		m.Progress = append(slices.DeleteFunc(m.Progress, func(before Progress) bool { return before.Key == p.Key }), p)
	}
	m.Resend = append(m.Resend, n.Resend...)
	m.Overdue = append(m.Overdue, n.Overdue...)
	m.LostNodes = append(m.LostNodes, n.LostNodes...)
	m.Withdrawn = append(m.Withdrawn, n.Withdrawn...)
	m.MaybeStarted = append(m.MaybeStarted, n.MaybeStarted...)
	m.StopAgain = m.StopAgain || n.StopAgain
	if n.Stop != nil {
		m.Stop = n.Stop
	}
}

// Compact removes duplicates. Package watch repeats its findings every second while a step cannot be written.
func (m *Mail) Compact() {
	m.Started, m.Resend, m.Overdue = unique(m.Started), unique(m.Resend), unique(m.Overdue)
	m.LostNodes, m.Withdrawn, m.MaybeStarted = unique(m.LostNodes), unique(m.Withdrawn), unique(m.MaybeStarted)
}

// Change returns the failpoint of a step with this mail.
func (m *Mail) Change() failpoint.Point {
	switch {
	case m.Resume != nil:
		return failpoint.RunResumed
	case m.Stop != nil:
		return failpoint.RunStopped
	case len(m.Results) > 0:
		return failpoint.ResultsTaken
	default:
		return failpoint.RunAdvanced
	}
}

func unique[T comparable](list []T) []T {
	seen := make(map[T]bool, len(list))
	return slices.DeleteFunc(list, func(v T) bool {
		known := seen[v]
		seen[v] = true
		return known
	})
}
