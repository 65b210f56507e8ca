package collect

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/limit"
	"writ/internal/sleep"
	"writ/internal/wake"
	"writ/supervisor/bound"
	"writ/supervisor/misuse"
)

const (
	// reportEvery is the interval at which the newest report of each node is applied. Nodes send a report every 30
	// seconds, and repeat unacknowledged facts.
	reportEvery = time.Second
	// reportsAtOnce limits the reports that are written concurrently. They share commits.
	reportsAtOnce = 8
	// reportsPerSecond is the expected rate of reports of a node. reportsWaiting is the burst: the reports that may have
	// queued while no supervisor ran. Each further report counts as misuse, because the supervisor needs time to read it.
	reportsPerSecond = 1
	reportsWaiting   = 400
	// eventsPerSecond limits the events that follow from the reports of a node, and eventsAtOnce is the burst. After a
	// start of its host, a node reports every resource, and the usage of all hours of its disconnection.
	eventsPerSecond = 5
	eventsAtOnce    = 2000
)

// Reports receives the reports of nodes about their resources. It holds the newest unapplied report of each node.
type Reports struct {
	site     Site
	expected limit.Names // rate limit of reports, by node
	events   limit.Names // rate limit of the resulting events, by node
	some     wake.Signal // signals that newest is not empty

	mu     sync.Mutex
	newest map[writ.NodeID]*writ.Report
}

// NewReports returns a receiver of reports. Run applies them.
func NewReports(site Site) *Reports {
	return &Reports{
		site:     site,
		expected: limit.Names{PerSecond: reportsPerSecond, AtOnce: reportsWaiting},
		events:   limit.Names{PerSecond: eventsPerSecond, AtOnce: eventsAtOnce}, some: wake.New(),
		newest: make(map[writ.NodeID]*writ.Report),
	}
}

// Receive handles a report of a node. It applies the facts about the node itself at once, in memory, and leaves the
// rest to Run. With one write per report, a single node could delay all other nodes.
func (q *Reports) Receive(_ context.Context, node writ.NodeID, r *writ.Report) {
	if r.Node != node {
		q.site.Warnings.Refused(node, "node sent the report of another node", misuse.OfAnother(r.Node))
		q.site.Misuse.Count(node, misuse.ExtraReports, 1)
		return
	}
	if _, ok := q.expected.Reserve(string(node), 1, 0); !ok {
		q.site.Misuse.Count(node, misuse.ExtraReports, 1)
	}
	// an outdated report is a replay, or the queue was restored from a snapshot
	if q.site.Fleet.Findings.Apply(bound.Report(r), q.site.Epoch) {
		q.put(r)
	}
}

// put stores a report until the next call of all. It replaces the node's previous report.
func (q *Reports) put(r *writ.Report) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.newest[r.Node] = r
	q.some.Raise()
}

// all removes and returns the reports.
func (q *Reports) all() map[writ.NodeID]*writ.Report {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.newest
	q.newest = make(map[writ.NodeID]*writ.Report)
	return all
}

// Run applies the newest report of each node, every reportEvery until ctx ends.
func (q *Reports) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-q.some:
		}
		var group errgroup.Group
		group.SetLimit(reportsAtOnce)
		for _, r := range q.all() {
			group.Go(func() error {
				q.apply(ctx, r)
				return nil
			})
		}
		_ = group.Wait()
		_ = sleep.For(ctx, reportEvery)
	}
}

// apply stores the findings of a node about its resources. Standing, drift and repairs become part of the resources,
// and usage is reported to the coordinators. The node gets an acknowledgement once all of it is on disk. If there are
// more changes than the node's rate limit allows, a later report repeats the other changes, and this report is not
// acknowledged.
func (q *Reports) apply(ctx context.Context, r *writ.Report) {
	t := &reportUpdate{report: r, may: func(events int) bool {
		_, may := q.events.Reserve(string(r.Node), events, 0)
		return may
	}}
	err := q.site.Journal.Write(failpoint.At(ctx, failpoint.ReportTaken), t.apply)
	switch {
	case err != nil && ctx.Err() != nil:
		return
	case err != nil:
		q.site.Warnings.Warn(r.Node, "cannot store a report; the node will send a new one", "err", err)
		return
	case t.strange > 0:
		q.site.Warnings.Refused(r.Node, "node reported usage of unknown resources; it is not charged",
			writ.Errorf(writ.CodeResourceUnknown, "%d entries are about resources that are not on the node", t.strange))
	}
	if t.left {
		q.site.Warnings.Refused(r.Node, "node reports too many changes; the rest waits",
			misuse.TooOften("at most %d events per second are reported", eventsPerSecond))
		return
	}
	if len(r.Usage)+len(r.Mendings)+len(r.States) > 0 {
		ack := &writ.ReportID{Incarnation: r.Incarnation, Round: r.Round}
		q.site.Outbox.Control(failpoint.At(ctx, failpoint.ReportAcknowledged), writ.Control{Node: r.Node, Acknowledged: ack})
	}
}
