package supervisor

import (
	"cmp"
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
	"writ/supervisor/journal"
	"writ/supervisor/workflow"
)

const (
	// maxMended is how many of the things that were mended are kept with their resource, maxRepairEvents how many are events within an hour.
	maxMended       = 5
	maxRepairEvents = 10
)

const (
	// reportEvery is how often reports are taken: of each node the newest. Nodes make one every 30 seconds, and say again what was not taken.
	reportEvery = time.Second
	// reportsAtOnce is how many of them are written at the same time: they share commits.
	reportsAtOnce = 8
	// reportsPerSecond is how many reports of a node are expected, and reportsWaiting how many at once: as many as may have waited while the
	// supervisor was away, see mostWaste. To read those beyond costs as much as they have bytes.
	reportsPerSecond = 1
	reportsWaiting   = 400
	// newsPerSecond is how many events may follow from the reports of a node, and newsAtOnce how many at once: after its host was started, every
	// resource is told, and so are the hours in which it was cut off.
	newsPerSecond = 5
	newsAtOnce    = 2000
)

// reports are those that were not taken yet: of each node the newest.
type reports struct {
	expected limit.Names   // reports, by node
	news     limit.Names   // events that follow from them, by node
	some     chan struct{} // has something when there are any

	mu     sync.Mutex
	newest map[writ.NodeID]*writ.Report
}

func newReports() *reports {
	return &reports{
		expected: limit.Names{PerSecond: reportsPerSecond, AtOnce: reportsWaiting}, news: limit.Names{PerSecond: newsPerSecond, AtOnce: newsAtOnce},
		some: make(chan struct{}, 1), newest: make(map[writ.NodeID]*writ.Report),
	}
}

// put keeps a report until it is taken, in place of the one before.
func (q *reports) put(r *writ.Report) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.newest[r.Node] = r
	select {
	case q.some <- struct{}{}:
	default:
	}
}

// all takes the reports out.
func (q *reports) all() map[writ.NodeID]*writ.Report {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.newest
	q.newest = make(map[writ.NodeID]*writ.Report)
	return all
}

// hearReport takes what a node says of things that no resource has, and leaves the rest to applyReports: a write for each report would let one
// node keep all others waiting.
func (s *Supervisor) hearReport(_ context.Context, node writ.NodeID, r *writ.Report) {
	if r.Node != node {
		s.warnings.Refused(node, "node sent the report of another node", ofAnother(r.Node))
		s.accounts.countUseless(node, extraReports, 1)
		return
	}
	if _, may := s.reports.expected.Reserve(string(node), 1, 0); !may {
		s.accounts.countUseless(node, extraReports, 1)
	}
	if s.fleet.report(moderateReport(r), s.epoch) { // else an old one: the queue came back from a snapshot, or somebody says it again
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

// applyReport stores what a node found when it looked after its resources. What it says of how they stand, of drift and of what it mended becomes
// part of the resources, and what they have used is reported to the coordinators; the node gets an acknowledgement once all of it is on disk. What would be more
// news than a node may have is left to a later report.
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
		s.warnings.Refused(r.Node, "node reports too many changes; the rest waits", tooOften("%d events a second are told", newsPerSecond))
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
	may     func(events int) bool // so many more may follow from it
	left    bool                  // something waits for a later report: there was too much
	strange int                   // entries of usage that are not the node's to tell
}

// apply writes what follows from the report.
func (t *reportUpdate) apply(tx *journal.Tx) error {
	t.left, t.strange = false, 0 // of a transaction that was tried before
	resources, err := tx.ResourcesOn(t.report.Node)
	if err != nil {
		return err
	}
	resources = slices.DeleteFunc(resources, func(r *journal.Resource) bool {
		return r.Node != t.report.Node // the database says that it is there, and the record that it is elsewhere
	})
	if err := t.charge(tx, resources); err != nil {
		return err
	}
	return t.lookedAfter(tx, resources)
}

// charge makes events of what resources have used: those that the node has, and those that it had.
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

// hourOf reports whether a resource can have used something in an hour of which is still told. Clocks may be apart by less than an hour.
func hourOf(r *journal.Departed, hour, now time.Time) bool {
	earliest := r.Created
	if told := now.Add(-journal.UsageGrace); earliest.Before(told) {
		earliest = told
	}
	return hour.Equal(hour.Truncate(time.Hour)) && !hour.Before(earliest.Add(-2*time.Hour)) && !hour.After(now.Add(time.Hour))
}

// lookedAfter keeps how the resources of a node stand and how they differ from what was asked for, where that is another way than is known, and
// what of them was mended. Each thing that was mended is an event, which has the rest too; what is told already is told no more.
func (t *reportUpdate) lookedAfter(tx *journal.Tx, resources []*journal.Resource) error {
	found, unseen := make(map[writ.UID][]string), make(map[writ.ResourceID][]string)
	for _, d := range t.report.Drifts {
		if d.UID == "" { // its driver could not even say which one it is
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
		case !told || s.UID != r.UID && (s.UID != "" || s.State != catalog.Gone): // of what is gone its driver may know no more
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

// finishDelete forgets a resource whose delete had failed, and which its node took away after all.
func finishDelete(tx *journal.Tx, r *journal.Resource) error {
	gone := r.Resource
	gone.Deleted, gone.Updated = true, tx.Now
	tx.AddEvents(writ.Event{Resource: workflow.EventResource(gone)})
	return tx.RemoveResource(r.ResourceID)
}

// mended notes with a resource that its node has mended it, and reports false if that was known.
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
	r.Mended = append(slices.Clone(r.Mended), writ.Mending{Number: was.Total, Time: time.UnixMilli(m.Time).UTC(), What: m.What})
	r.Mended = r.Mended[max(0, len(r.Mended)-maxMended):]
	return true
}

// mayReport reports whether what was mended is to be an event: in an hour there are maxRepairEvents of these, so that what breaks again and again does
// not drown the rest.
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

// report takes over what a node says of things that no resource has, and reports whether the report is newer than the last: of no
// earlier process than the one that beats, and made since the supervisor of this epoch began. Nodes of an earlier version do not say the latter.
func (f *fleet) report(r *writ.Report, epoch int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.nodes[r.Node]
	if m == nil {
		return false
	}
	saysEpoch := r.Epoch != 0 || m.beats == 0 // one without is believed after a beat of this epoch
	switch {
	case saysEpoch && r.Epoch < epoch, r.Incarnation < m.beat.Incarnation:
		return false
	case cmp.Or(cmp.Compare(r.Incarnation, m.reported.Incarnation), cmp.Compare(r.Round, m.reported.Round)) <= 0:
		return false
	}
	m.reported = writ.ReportID{Incarnation: r.Incarnation, Round: r.Round}
	disks := steadyDisks(m.Disks, r.Disks)
	m.Findings = r.Findings
	m.Disks = disks
	return true
}
