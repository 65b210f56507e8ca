package fleet

import (
	"slices"
	"sync"

	"writ"
	"writ/supervisor/journal"
)

// Findings applies the findings of reports: repairs, orphans, networks and disks of nodes.
type Findings struct {
	members  *Members
	presence *Presence

	mu      sync.Mutex
	applied map[writ.NodeID]writ.ReportID // last applied report
}

// Apply applies the findings of a report. It ignores an outdated report and returns false. A report is outdated if a
// newer report was applied, or if it was made for an earlier epoch. It is also outdated if its process is older than
// the process of the last beat. Nodes of an earlier version do not send the epoch.
func (f *Findings) Apply(r *writ.Report, epoch int64) bool {
	f.presence.mu.Lock() // no beat of a newer process may be applied between the comparison and the update
	defer f.presence.mu.Unlock()
	last, beats := f.presence.last(r.Node)
	f.mu.Lock()
	defer f.mu.Unlock()
	id := writ.ReportID{Incarnation: r.Incarnation, Round: r.Round}
	hasEpoch := r.Epoch != 0 || beats == 0 // a report without epoch is accepted after a beat of this epoch
	if hasEpoch && r.Epoch < epoch || r.Incarnation < last.Incarnation || compareReports(id, f.applied[r.Node]) <= 0 {
		return false
	}
	known := f.members.update(r.Node, func(n *journal.Node) {
		disks := steadyDisks(n.Disks, r.Disks)
		n.Findings = r.Findings
		n.Disks = disks
	})
	if known {
		f.applied[r.Node] = id
	}
	return known
}

// steadyPart sets the smallest change of free space that is shown: the size of the disk divided by steadyPart. Each
// shown change is an event.
const steadyPart = 100

// steadyDisks merges the disks of a new report into the shown disks. The shown free space of a disk changes only if it
// moves by a hundredth of the disk or more, or if AlmostFull changes.
func steadyDisks(shown, reported []writ.Disk) []writ.Disk {
	next := slices.Clone(reported)
	for i := range next {
		d := &next[i]
		j := slices.IndexFunc(shown, func(s writ.Disk) bool { return s.Path == d.Path && s.Bytes == d.Bytes })
		if j >= 0 && max(shown[j].Free-d.Free, d.Free-shown[j].Free) < d.Bytes/steadyPart &&
			shown[j].AlmostFull() == d.AlmostFull() {
			d.Free = shown[j].Free
		}
	}
	return next
}
