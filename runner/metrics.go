package runner

import (
	"time"

	"writ"
	"writ/internal/tally"
)

// Metrics are the numbers of a runner, for those who watch it.
type Metrics struct {
	Counts
	Jobs     map[Job]int64 // that were carried out
	Took     map[string]tally.Spread
	Refusals map[writ.Code]int64
	Drops    map[Drop]int64
	Sent     time.Time // when the queue took a beat last
	Heard    time.Time // when a message of the supervisor came by the queue last
	Answered time.Time // when the supervisor said last at its node API what the node is
	Roster   int
	Expires  time.Time // the roster

	Serving bool // what follows is missing otherwise
	Serves  ServingMetrics
}

// ServingMetrics are those of a node that takes jobs.
type ServingMetrics struct {
	Journal     bool          // it can be written
	Queue       bool          // it answers
	Fault       string        // why the node refuses work, "" if it does not
	Slots       int           // for jobs
	Waiting     int           // jobs in hand that have not begun
	Oldest      time.Duration // for how long one of them waits at most
	Running     int
	Stuck       int // jobs whose drivers ignore that their time is over
	Unconfirmed int // results that the supervisor has not confirmed
	Mended      int64
	Resources   map[Resources]int // as of the last look at each
}

// Job is an operation that was carried out, and what came of it.
type Job struct {
	Operation string // as the catalogue names it
	Outcome   string // succeeded, failed or cancelled
}

// Drop is something that was ignored, and why. Both parts are written in this program.
type Drop struct {
	What string
	Code writ.Code
}

// Resources are those of one kind in one state, in the words of their driver.
type Resources struct {
	Kind  writ.ResourceKind
	State string
}

// noteJob counts a job that was carried out.
func (c *counts) noteJob(operation string, took time.Duration, result *writ.Result) {
	job := Job{operation, "succeeded"}
	switch {
	case result.Error == nil:
	case result.Error.Code == writ.CodeRunCancelled:
		job.Outcome = "cancelled"
	default:
		job.Outcome = "failed"
	}
	c.jobs.Add(job)
	c.took.Note(operation, took)
}

// noteRefusal counts a job that was answered without acting.
func (c *counts) noteRefusal(result *writ.Result) {
	c.refused.Add(1)
	if result.Error != nil {
		c.refusals.Add(result.Error.Code.Info().Code)
	}
}

// Metrics returns the numbers of now. They are in memory: no journal, queue or driver that hangs keeps anybody waiting.
func (r *Runner) Metrics() Metrics {
	c := &r.counts
	m := Metrics{
		Counts: r.Counts(), Jobs: c.jobs.All(), Took: c.took.All(), Refusals: c.refusals.All(), Drops: c.drops.All(),
		Sent: c.sent.Last(), Heard: c.heard.Last(), Answered: c.answered.Last(),
	}
	if roster := r.Member.Roster(); roster != nil {
		m.Roster, m.Expires = roster.Version, roster.Expires
	}
	if n := r.current.Load(); n != nil {
		m.Serving, m.Serves = true, n.metrics()
	}
	return m
}

func (n *incarnation) metrics() ServingMetrics {
	now := n.now()
	m := ServingMetrics{
		Journal: n.store.get() == nil, Queue: n.transit.get() == nil, Fault: n.faultText(now), Slots: n.slots,
		Unconfirmed: n.outbox.size(), Mended: n.keeper.mendedTotal(), Resources: n.keeper.states.count(),
	}
	var since time.Time
	if m.Waiting, since, m.Running, m.Stuck = n.desk.count(); m.Waiting > 0 {
		m.Oldest = max(now.Sub(since), 0)
	}
	return m
}
