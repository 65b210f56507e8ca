package supervisor

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"writ"
	"writ/identity/seal"
	"writ/internal/failpoint"
	"writ/sal/catalog"
	"writ/supervisor/journal"
)

const (
	// maxReported bounds each list of a report, maxDrift the sentences about one resource.
	maxReported = 500
	maxDrift    = 20
	// maxMended is how many of the things that were mended are kept with their resource, maxTold how many are events within an hour.
	maxMended = 5
	maxTold   = 10
)

// looksLikeReport guesses which kind of seal to try first, as looksLikeBeat.
func looksLikeReport(sealed []byte) bool { return bytes.Contains(sealed, []byte("round")) }

// hearReport takes what a node found when it looked after its resources. What it says of how they stand, of drift and of what it mended becomes
// part of the resources, and what they have used is told to the coordinators; the node is told once all of it is on disk.
func (s *Supervisor) hearReport(ctx context.Context, node writ.NodeID, r writ.Report) {
	if r.Node != node {
		s.complaints.of(node, "a node reports for another", "for", r.Node)
		return
	}
	if !s.fleet.report(moderateReport(&r), s.epoch) {
		return // an old one: the queue came back from a snapshot, or somebody says it again
	}
	err := s.Journal.Write(failpoint.At(ctx, failpoint.ReportTaken), func(tx *journal.Tx) error {
		if err := lookedAfter(tx, node, &r); err != nil {
			return err
		}
		for i := range r.Usage {
			tx.AddEvents(writ.Event{Usage: &r.Usage[i]})
		}
		return nil
	})
	if err != nil {
		s.complaints.of(node, "a report cannot be kept; its node sends the next one", "err", err)
		return
	}
	if len(r.Usage)+len(r.Mendings)+len(r.States) > 0 {
		told := &writ.Told{Incarnation: r.Incarnation, Round: r.Round}
		s.control(failpoint.At(ctx, failpoint.ReportTold), writ.Control{Node: node, Told: told})
	}
}

// lookedAfter keeps how the resources of a node stand and how they differ from what was asked for, where that is another way than is known, and
// what of them was mended. Each thing that was mended is an event, which has the rest too; what is told already is told no more.
func lookedAfter(tx *journal.Tx, node writ.NodeID, report *writ.Report) error {
	found, unseen := make(map[writ.UID][]string), make(map[writ.ResourceID][]string)
	for _, d := range report.Drifts {
		if d.UID == "" { // its driver could not even say which one it is
			unseen[d.ResourceID] = d.Lasts
			continue
		}
		found[d.UID] = d.Lasts
	}
	states := make(map[writ.ResourceID]writ.ResourceState)
	for _, s := range report.States {
		states[s.ResourceID] = s
	}
	mendings := make(map[writ.UID][]writ.NodeMending)
	for _, m := range report.Mendings {
		mendings[m.UID] = append(mendings[m.UID], m)
	}
	resources, err := tx.ResourcesOn(node)
	if err != nil {
		return err
	}
	for _, r := range resources {
		if r.Node != node { // the database says that it is there, and the record that it is elsewhere
			continue
		}
		now, ok := found[r.UID]
		if !ok {
			now = unseen[r.ResourceID]
		}
		changed := !slices.Equal(now, r.Drift)
		untold := changed
		r.Drift = now
		switch s, told := states[r.ResourceID]; {
		case !told || s.UID != r.UID && (s.UID != "" || s.State != catalog.Gone): // of what is gone its driver may know no more
		case s.State == catalog.Gone && r.State == catalog.Deleting:
			if err := finishDelete(tx, r); err != nil {
				return err
			}
			continue
		case s.State != r.State || s.Address != r.Address:
			r.State, r.Address = s.State, s.Address
			changed, untold = true, true
		}
		for _, m := range mendings[r.UID] {
			if !mended(r, report.Incarnation, m) {
				continue
			}
			changed = true
			if mayTell(r, tx.Now) {
				untold = false
				tx.AddEvents(writ.Event{Resource: shownResource(r.Resource)})
			}
		}
		if untold {
			tx.AddEvents(writ.Event{Resource: shownResource(r.Resource)})
		}
		if !changed {
			continue
		}
		if err := tx.PutResource(r); err != nil {
			return err
		}
	}
	return nil
}

// finishDelete forgets a resource whose delete had failed, and which its node took away after all.
func finishDelete(tx *journal.Tx, r *journal.Resource) error {
	gone := r.Resource
	gone.Deleted, gone.Updated = true, tx.Now
	tx.AddEvents(writ.Event{Resource: shownResource(gone)})
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

// mayTell reports whether what was mended is to be an event: in an hour there are maxTold of these, so that what breaks again and again does
// not drown the rest.
func mayTell(r *journal.Resource, now time.Time) bool {
	was := &r.Mendings
	if hour := now.Truncate(time.Hour); !hour.Equal(was.Hour) {
		was.Hour, was.Told = hour, 0
	}
	if was.Told >= maxTold {
		return false
	}
	was.Told++
	return true
}

// moderateReport cuts a report down to what a node can mean, in place.
func moderateReport(r *writ.Report) *writ.Report {
	r.Drifts = r.Drifts[:min(len(r.Drifts), maxReported)]
	for i, d := range r.Drifts {
		lasts := d.Lasts[:min(len(d.Lasts), maxDrift)]
		for j := range lasts {
			lasts[j] = clip(lasts[j], maxText)
		}
		r.Drifts[i].Lasts = lasts
	}
	r.States = r.States[:min(len(r.States), maxReported)]
	for i := range r.States {
		s := &r.States[i]
		s.State, s.Address = clip(s.State, maxWord), clip(s.Address, maxWord)
	}
	r.Mendings = r.Mendings[:min(len(r.Mendings), maxReported)]
	for i := range r.Mendings {
		m := &r.Mendings[i]
		m.Count, m.What = min(m.Count, maxMendings), clip(m.What, maxText)
	}
	r.Mended = max(r.Mended, 0)
	r.Orphans = moderateOrphans(r.Orphans)
	moderateNetwork(r.Network)
	r.Usage = slices.DeleteFunc(r.Usage[:min(len(r.Usage), maxReported)], func(u writ.Usage) bool {
		return u.Project == "" || u.UID == "" || len(u.Name) > maxWord || len(u.Project) > maxWord || len(u.Kind) > maxWord || len(u.UID) > maxWord
	})
	for i := range r.Usage {
		u := &r.Usage[i]
		u.Node = r.Node // it speaks for itself only
		u.Used = u.Used.Most(writ.Used{})
	}
	return r
}

// moderateOrphans cuts down what a node says of what belongs to no resource.
func moderateOrphans(all []writ.Orphan) []writ.Orphan {
	all = all[:min(len(all), maxWedged)]
	for i, o := range all {
		if len(o.Remedy) > maxText {
			o.Remedy = "" // half a command may do anything
		}
		all[i] = writ.Orphan{
			Module: clip(o.Module, maxWord), Kind: clip(o.Kind, maxWord), Name: clip(o.Name, maxText), Of: clip(o.Of, maxWord), Remedy: o.Remedy,
		}
	}
	return all
}

// maxMendings is more often than a node can mend anything: a count above it is none.
const maxMendings = 1 << 40

// maxListed bounds each list about the networks of a node.
const maxListed = 64

// moderateNetwork cuts down what a node says of its networks, in place.
func moderateNetwork(n *writ.NodeNetwork) {
	if n == nil {
		return
	}
	n.Ports = n.Ports[:min(len(n.Ports), maxListed)]
	for i := range n.Ports {
		p := &n.Ports[i]
		p.Owner, p.Network = clip(p.Owner, maxText), clip(p.Network, maxWord)
	}
	o := n.Overlay
	if o == nil {
		return
	}
	o.Address, o.Subnet, o.Version, o.Detail = clip(o.Address, maxWord), clip(o.Subnet, maxWord), clip(o.Version, maxWord), clip(o.Detail, maxText)
	o.Peers, o.Routes = o.Peers[:min(len(o.Peers), maxListed)], o.Routes[:min(len(o.Routes), maxListed)]
	for i := range o.Peers {
		p := &o.Peers[i]
		p.Endpoint, p.Type, p.State = clip(p.Endpoint, maxText), clip(p.Type, maxWord), clip(p.State, maxWord)
	}
	for i := range o.Routes {
		o.Routes[i].Subnet, o.Routes[i].NextHop = clip(o.Routes[i].Subnet, maxWord), clip(o.Routes[i].NextHop, maxText)
	}
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
	m.reported = writ.Told{Incarnation: r.Incarnation, Round: r.Round}
	m.Orphans, m.Network, m.Mended = r.Orphans, r.Network, r.Mended
	return true
}

// hearReports opens a report of a node; ok is false if it is none.
func (s *Supervisor) hearReports(ctx context.Context, node writ.NodeID, sealed []byte, key seal.Keys) (ok bool) {
	reports, _, err := seal.Open[writ.Report](seal.Report, sealed, key)
	for _, r := range reports {
		s.hearReport(ctx, node, r)
	}
	return err == nil
}
