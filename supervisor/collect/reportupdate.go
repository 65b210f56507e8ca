package collect

import (
	"slices"
	"time"

	"writ"
	"writ/sal/catalog"
	"writ/supervisor/journal"
	"writ/supervisor/workflow"
)

const (
	// maxMended limits the repairs that are kept with a resource.
	maxMended = 5
	// maxRepairEvents limits the events about repairs of a resource per hour.
	maxRepairEvents = 10
)

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

// charge adds usage events for the resources of the node, including departed resources.
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

// lookedAfter stores the changes of standing and drift of the node's resources, and their repairs. An event about a
// repair also carries the other changes of the resource. A changed resource without such an event gets one event.
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

// finishDelete removes the record of a resource whose delete failed earlier and which the node has removed since.
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
// that a resource with repeated failures does not flood the event stream.
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
