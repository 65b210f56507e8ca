package runner

import (
	"strconv"
	"time"

	"writ"
	"writ/internal/tally"
	"writ/internal/tracing"
)

// Metrics holds the metrics of a runner.
type Metrics struct {
	Counts
	Jobs     map[Job]int64 // jobs carried out
	Took     map[string]tally.Spread
	Refusals map[writ.Code]int64
	Drops    map[Drop]int64
	Sent     time.Time // last beat accepted by the queue
	Heard    time.Time // last message of the supervisor from the queue
	Answered time.Time // last answer about the node's standing from the supervisor's node API
	Roster   int
	Expires  time.Time // expiry of the roster

	Serving bool // whether Serves is valid
	Serves  ServingMetrics
}

// ServingMetrics holds the metrics of a serving node.
type ServingMetrics struct {
	Journal     bool          // writable
	Queue       bool          // reachable
	Fault       string        // why the node refuses work; "" if it does not
	Slots       int           // number of job slots
	Waiting     int           // jobs in hand that have not started
	Oldest      time.Duration // longest wait of such a job
	Running     int
	Stuck       int // jobs whose drivers ignore their deadline
	Unconfirmed int // results without an acknowledgement
	Mended      int64
	Resources   map[Resources]int // as of the last scan of each
}

// Job is an operation with the outcome of the job.
type Job struct {
	Operation string // name in the catalogue
	Outcome   string // succeeded, failed or cancelled
}

// Drop is a class of ignored messages and the reason. Both are constants of this program, so their number is bounded.
type Drop struct {
	What string
	Code writ.Code
}

// Resources is a kind of resources in one state, as named by the driver.
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

// Metrics returns the current metrics. All of them are in memory, so Metrics returns even if the journal, the queue or
// a driver hangs.
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
		Journal: n.store.get() == nil, Queue: n.link.transit.get() == nil, Fault: n.faultText(now), Slots: n.slots,
		Unconfirmed: n.outbox.size(), Mended: n.keeper.repairs.count(), Resources: map[Resources]int{},
	}
	for _, s := range n.keeper.states.List() {
		m.Resources[Resources{s.Kind, s.State}]++
	}
	var since time.Time
	if m.Waiting, since, m.Running, m.Stuck = n.desk.count(); m.Waiting > 0 {
		m.Oldest = max(now.Sub(since), 0)
	}
	return m
}

// spanOf returns the span of a job: the work of its driver, by the node's clock.
func spanOf(job *writ.Job, node string, started, ended time.Time, result *writ.Result) tracing.Span {
	s := tracing.Span{
		At: tracing.OfAttempt(job.Run, job.Seq, job.Attempt).Part("job"), Name: "driver " + result.Driver,
		From: started, Until: ended,
		Labels: map[string]string{
			"run": string(job.Run), "seq": strconv.Itoa(job.Seq), "operation": job.Operation, "name": job.Name,
			"node": node, "driver": result.Driver,
			"attempt": strconv.Itoa(job.Attempt), "delivery": strconv.Itoa(job.Delivery),
			"change": string(result.Change),
		},
	}
	if result.Simulated {
		s.Labels["simulated"] = "true"
	}
	s.Fail(result.Error)
	return s
}
