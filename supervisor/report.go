package supervisor

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/limit"
	"writ/internal/sleep"
	"writ/sal/catalog"
	"writ/supervisor/bound"
	"writ/supervisor/journal"
	"writ/supervisor/workflow"
)

const (
	// maxMended limits the repairs that are kept with a resource. maxRepairEvents limits their events per resource and
	// hour.
	maxMended       = 5
	maxRepairEvents = 10
)

const (
	// reportEvery is the interval at which the newest report of each node is applied. Nodes send a report every 30
	// seconds, and repeat unacknowledged facts.
	reportEvery = time.Second
	// reportsAtOnce limits the reports that are written concurrently. They share commits.
	reportsAtOnce = 8
	// reportsPerSecond is the expected rate of reports of a node. reportsWaiting is its burst: the reports that may
	// have queued while the supervisor was away, see mostWaste. Reading reports costs time by their size.
	reportsPerSecond = 1
	reportsWaiting   = 400
	// newsPerSecond limits the events that follow from the reports of a node, and newsAtOnce is its burst: after a
	// start of its host, a node reports every resource, and the hours of usage while it was cut off.
	newsPerSecond = 5
	newsAtOnce    = 2000
)

// reports holds the reports that were not applied yet, the newest of each node.
type reports struct {
	expected limit.Names   // rate limit of reports, by node
	news     limit.Names   // rate limit of the resulting events, by node
	some     chan struct{} // signals that newest is not empty

	mu     sync.Mutex
	newest map[writ.NodeID]*writ.Report
}

func newReports() *reports {
	return &reports{
		expected: limit.Names{PerSecond: reportsPerSecond, AtOnce: reportsWaiting},
		news:     limit.Names{PerSecond: newsPerSecond, AtOnce: newsAtOnce}, some: make(chan struct{}, 1),
		newest: make(map[writ.NodeID]*writ.Report),
	}
}

// put stores a report until all is called. It replaces the node's previous report.
func (q *reports) put(r *writ.Report) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.newest[r.Node] = r
	select {
	case q.some <- struct{}{}:
	default:
	}
}

// all removes and returns the reports.
func (q *reports) all() map[writ.NodeID]*writ.Report {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.newest
	q.newest = make(map[writ.NodeID]*writ.Report)
	return all
}

// hearReport handles a report of a node. It applies the facts about the node itself at once, in memory, and leaves the
// rest to applyReports: one write per report would let a single node delay all others.
func (s *Supervisor) hearReport(_ context.Context, node writ.NodeID, r *writ.Report) {
	if r.Node != node {
		s.warnings.Refused(node, "node sent the report of another node", ofAnother(r.Node))
		s.accounts.countUseless(node, extraReports, 1)
		return
	}
	if _, may := s.reports.expected.Reserve(string(node), 1, 0); !may {
		s.accounts.countUseless(node, extraReports, 1)
	}
	// otherwise it is old: the queue was restored from a snapshot, or the message was replayed
	if s.fleet.Findings.Apply(bound.Report(r), s.epoch) {
		s.reports.put(r)
	}
}

// applyReports applies the newest report of each node, every reportEvery until ctx ends.
func (s *Supervisor) applyReports(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.reports.some:
		}
		var group errgroup.Group
		group.SetLimit(reportsAtOnce)
		for _, r := range s.reports.all() {
			group.Go(func() error {
				s.applyReport(ctx, r)
				return nil
			})
		}
		_ = group.Wait()
		_ = sleep.For(ctx, reportEvery)
	}
}

// applyReport stores the findings of a node about its resources. Standing, drift and repairs become part of the
// resources, and usage is reported to the coordinators. The node gets an acknowledgement once all of it is on disk. If
// there are more changes than the node's rate limit allows, the rest is left to a later report, and this report is not
// acknowledged.
func (s *Supervisor) applyReport(ctx context.Context, r *writ.Report) {
	t := &reportUpdate{report: r, may: func(events int) bool {
		_, may := s.reports.news.Reserve(string(r.Node), events, 0)
		return may
	}}
	err := s.Journal.Write(failpoint.At(ctx, failpoint.ReportTaken), t.apply)
	switch {
	case err != nil && ctx.Err() != nil:
		return
	case err != nil:
		s.warnings.Warn(r.Node, "store a report; its node sends the next one", "err", err)
		return
	case t.strange > 0:
		s.warnings.Refused(r.Node, "node reported usage of unknown resources; it is not charged",
			writ.Errorf(writ.CodeResourceUnknown, "%d entries are of resources that are not on the node", t.strange))
	}
	if t.left {
		s.warnings.Refused(r.Node, "node reports too many changes; the rest waits",
			tooOften("%d events a second are told", newsPerSecond))
		return
	}
	if len(r.Usage)+len(r.Mendings)+len(r.States) > 0 {
		ack := &writ.ReportID{Incarnation: r.Incarnation, Round: r.Round}
		s.outbox.Control(failpoint.At(ctx, failpoint.ReportAcknowledged), writ.Control{Node: r.Node, Acknowledged: ack})
	}
}

// reportUpdate applies a report to the journal.
type reportUpdate struct {
	report  *writ.Report
	may     func(events int) bool // reserves events within the rate limit
	left    bool                  // some changes exceed the rate limit
	strange int                   // usage entries of resources that are not on the node
}

// apply writes the effects of the report.
func (t *reportUpdate) apply(tx *journal.Tx) error {
	t.left, t.strange = false, 0 // reset after a failed transaction
	resources, err := tx.ResourcesOn(t.report.Node)
	if err != nil {
		return err
	}
	resources = slices.DeleteFunc(resources, func(r *journal.Resource) bool {
		return r.Node != t.report.Node // the index of the database disagrees with the authenticated record
	})
	if err := t.charge(tx, resources); err != nil {
		return err
	}
	return t.lookedAfter(tx, resources)
}

// charge adds usage events for the resources of the node, including departed ones.
func (t *reportUpdate) charge(tx *journal.Tx, resources []*journal.Resource) error {
	has := make(map[writ.UID]*journal.Departed, len(resources))
	for _, r := range resources {
		has[r.UID] = &journal.Departed{ResourceID: r.ResourceID, Created: r.Created}
	}
	for i := range t.report.Usage {
		u := &t.report.Usage[i]
		of := has[u.UID]
		if of == nil {
			var err error
			if of, err = tx.Departed(u.UID, t.report.Node); err != nil && writ.CodeOf(err) != writ.CodeRecordForged {
				return err
			}
		}
		switch {
		case of == nil || of.ResourceID != u.ResourceID || !hourOf(of, u.Hour, tx.Now):
			t.strange++
		case !t.may(1):
			t.left = true
			return nil
		default:
			tx.AddEvents(writ.Event{Usage: u})
		}
	}
	return nil
}

// hourOf reports whether a resource can have usage in an hour that may still be reported. Clocks may differ by less
// than an hour.
func hourOf(r *journal.Departed, hour, now time.Time) bool {
	earliest := r.Created
	if told := now.Add(-journal.UsageGrace); earliest.Before(told) {
		earliest = told
	}
	return hour.Equal(hour.Truncate(time.Hour)) && !hour.Before(earliest.Add(-2*time.Hour)) &&
		!hour.After(now.Add(time.Hour))
}

// lookedAfter stores the changes of standing and drift of the node's resources, and their repairs. Each repair is an
// event that also carries the other changes. Changes without such an event get one event of their own.
func (t *reportUpdate) lookedAfter(tx *journal.Tx, resources []*journal.Resource) error {
	found, unseen := make(map[writ.UID][]string), make(map[writ.ResourceID][]string)
	for _, d := range t.report.Drifts {
		if d.UID == "" { // its driver could not determine the UID
			unseen[d.ResourceID] = d.Lasts
			continue
		}
		found[d.UID] = d.Lasts
	}
	states := make(map[writ.ResourceID]writ.ResourceState)
	for _, s := range t.report.States {
		states[s.ResourceID] = s
	}
	mendings := make(map[writ.UID][]writ.NodeMending)
	for _, m := range t.report.Mendings {
		mendings[m.UID] = append(mendings[m.UID], m)
	}
	for _, r := range resources {
		now, ok := found[r.UID]
		if !ok {
			now = unseen[r.ResourceID]
		}
		changed := !slices.Equal(now, r.Drift)
		untold := changed
		r.Drift = now
		gone := false
		switch s, told := states[r.ResourceID]; {
		// the driver may not know the UID of a resource that is gone
		case !told || s.UID != r.UID && (s.UID != "" || s.State != catalog.Gone):
		case s.State == catalog.Gone && r.State == catalog.Deleting:
			gone = true
		case !s.Standing.Equal(r.Standing):
			r.Standing = s.Standing
			changed, untold = true, true
		}
		var events []writ.Event
		for _, m := range mendings[r.UID] {
			if !mended(r, t.report.Incarnation, m) {
				continue
			}
			changed = true
			if mayReport(r, tx.Now) {
				untold = false
				events = append(events, writ.Event{Resource: workflow.EventResource(r.Resource)})
			}
		}
		if untold {
			events = append(events, writ.Event{Resource: workflow.EventResource(r.Resource)})
		}
		var err error
		switch {
		case (gone || len(events) > 0) && !t.may(max(len(events), 1)):
			t.left = true
		case gone:
			err = finishDelete(tx, r)
		case changed:
			tx.AddEvents(events...)
			err = tx.PutResource(r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// finishDelete removes a resource whose delete had failed, but whose node has removed it since.
func finishDelete(tx *journal.Tx, r *journal.Resource) error {
	gone := r.Resource
	gone.Deleted, gone.Updated = true, tx.Now
	tx.AddEvents(writ.Event{Resource: workflow.EventResource(gone)})
	return tx.RemoveResource(r.ResourceID)
}

// mended records a repair with its resource. It returns false if the repair is already known.
func mended(r *journal.Resource, incarnation int64, m writ.NodeMending) bool {
	was := &r.Mendings
	switch {
	case incarnation < was.Incarnation || incarnation == was.Incarnation && m.Count <= was.Count:
		return false
	case incarnation > was.Incarnation:
		was.Incarnation, was.Count = incarnation, 0
	}
	was.Total += m.Count - was.Count
	was.Count = m.Count
	r.Mended = append(slices.Clone(r.Mended),
		writ.Mending{Number: was.Total, Time: time.UnixMilli(m.Time).UTC(), What: m.What})
	r.Mended = r.Mended[max(0, len(r.Mended)-maxMended):]
	return true
}

// mayReport reports whether a repair gets an event. A resource has at most maxRepairEvents such events per hour, so
// that one that breaks repeatedly does not flood the event stream.
func mayReport(r *journal.Resource, now time.Time) bool {
	was := &r.Mendings
	if hour := now.Truncate(time.Hour); !hour.Equal(was.Hour) {
		was.Hour, was.Events = hour, 0
	}
	if was.Events >= maxRepairEvents {
		return false
	}
	was.Events++
	return true
}
