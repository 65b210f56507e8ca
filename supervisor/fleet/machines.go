package fleet

import (
	"cmp"
	"reflect"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/supervisor/bound"
	"writ/supervisor/journal"
	"writ/supervisor/nodes"
)

const (
	// onlineEvery is the interval at which a node's online time is added to its month; each addition is a write and an
	// event.
	onlineEvery = 10 * time.Minute
	// onlineFirst is the delay of the first entry of a month.
	onlineFirst = time.Minute
)

// Machines tracks the machines of nodes: their descriptions, restarts and online time.
type Machines struct {
	members  *Members
	presence *Presence

	mu    sync.Mutex
	nodes map[writ.NodeID]*machine
}

type machine struct {
	described writ.ReportID // last applied description
	stored    journal.Life  // record in the journal
	// listened is the time while the supervisor could receive beats, and online the part of it while the node was
	// ready. Both restart at zero when they are added to the node's month.
	online, listened time.Duration
}

// of returns the machine of a node. The caller holds mu.
func (m *Machines) of(id writ.NodeID) *machine {
	known := m.nodes[id]
	if known == nil {
		known = new(machine)
		m.nodes[id] = known
	}
	return known
}

// Describe stores a host report of a known node. It ignores a report if a newer report was stored, or if it was made
// for an earlier epoch. It also ignores a report whose process is older than the process of the last beat.
func (m *Machines) Describe(r nodes.HostReport, epoch int64, now time.Time) {
	id := writ.ReportID{Incarnation: r.Incarnation, Round: r.Count}
	m.presence.mu.Lock() // as in Findings.Apply
	defer m.presence.mu.Unlock()
	last, _ := m.presence.last(r.Node)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !isKnown(m.members, r.Node) {
		return
	}
	known := m.of(r.Node)
	if r.Epoch < epoch || r.Incarnation < last.Incarnation || compareReports(id, known.described) <= 0 {
		return
	}
	known.described = id
	host := bound.Host(r.Host, now)
	m.members.update(r.Node, func(n *journal.Node) { n.Host = host })
}

// compareReports orders the reports of a node by the time at which they were made.
func compareReports(a, b writ.ReportID) int {
	return cmp.Or(cmp.Compare(a.Incarnation, b.Incarnation), cmp.Compare(a.Round, b.Round))
}

// countStart records the boot id of a machine and counts its restarts.
func countStart(f *writ.HostFacts, boot string) {
	if boot == "" || boot == f.Boot {
		return
	}
	if f.Boot != "" {
		f.Restarts++
	}
	f.Boot = boot
}

// pass adds the time `listened` to all approved nodes. For nodes that are ready, it also counts as online time.
func (m *Machines) pass(month string, listened time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.members.forEach(func(n *journal.Node) {
		if n.Admission != writ.AdmissionApproved {
			return
		}
		c := m.of(n.ID)
		c.listened += listened
		if n.Liveness == writ.LivenessReady {
			c.online += listened
		}
		if c.listened >= onlineEvery || c.listened >= onlineFirst && !hasMonth(n.Online, month) {
			n.Online = c.addOnline(n.Online, month)
		}
	})
}

// AddOnline adds the counted time of all nodes to the month that contains wall.
func (m *Machines) AddOnline(wall time.Time) {
	month := wall.UTC().Format(bound.OnlineMonth)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.members.forEach(func(n *journal.Node) {
		if c := m.of(n.ID); c.listened >= time.Second {
			n.Online = c.addOnline(n.Online, month)
		}
	})
}

// hasMonth reports whether month is the newest month with an entry.
func hasMonth(all []writ.Online, month string) bool {
	return len(all) > 0 && all[len(all)-1].Month == month
}

// addOnline returns the entries of a node with the counted time added to month. It does not change `all`, which earlier
// events share.
func (c *machine) addOnline(all []writ.Online, month string) []writ.Online {
	all = slices.Clone(all)
	if !hasMonth(all, month) {
		all = append(all, writ.Online{Month: month})
	}
	last := &all[len(all)-1]
	last.Seconds, last.Of = last.Seconds+int64(c.online/time.Second), last.Of+int64(c.listened/time.Second)
	c.online, c.listened = c.online%time.Second, c.listened%time.Second
	return all[max(len(all)-bound.MaxOnline, 0):]
}

// BeatEvery is the interval at which the time of a ready node's last beat is stored. Storing each beat would cost a
// write per beat.
const BeatEvery = time.Minute

// Unstored returns the facts about nodes that are not in the journal yet. If only the time of a ready node's last beat
// differs, by less than lag, the node is omitted. The stored time of any other node is exact.
func (m *Machines) Unstored(lag time.Duration) (all []journal.Life) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.members.forEach(func(n *journal.Node) {
		l, stored := journal.Life{Node: n.ID, HostFacts: n.HostFacts, Last: lastBeatOf(m.members, n)}, m.of(n.ID).stored
		same := l
		if n.Liveness == writ.LivenessReady && isRefreshed(l.Last, stored.Last, lag) {
			last := *l.Last
			last.Time = stored.Last.Time
			same.Last = &last
		}
		if (l.Boot != "" || l.Host != nil || l.Online != nil || l.Last != nil) && !reflect.DeepEqual(same, stored) {
			all = append(all, l)
		}
	})
	return all
}

// isRefreshed reports whether a beat is less than lag later than the stored beat. After a change of the clock, the beat
// may be earlier.
func isRefreshed(last, stored *journal.LastBeat, lag time.Duration) bool {
	if last == nil || stored == nil {
		return false
	}
	later := time.Duration(last.Time-stored.Time) * time.Microsecond
	return later >= 0 && later < lag
}

// Stored records that facts about machines are in the journal.
func (m *Machines) Stored(all []journal.Life) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range all {
		m.of(l.Node).stored = l
	}
}

// PutLives writes facts about machines into the journal.
func PutLives(tx *journal.Tx, lives []journal.Life) error {
	for _, l := range lives {
		if err := tx.PutLife(l); err != nil {
			return err
		}
	}
	return nil
}
