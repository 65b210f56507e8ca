package supervisor

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"time"

	"writ"
	"writ/supervisor/bound"
	"writ/supervisor/journal"
	"writ/supervisor/nodes"
)

// hostsPerSecond limits the host reports of a node, and hostsAtOnce is their burst. Runners check their machine every
// half minute.
const (
	hostsPerSecond = 0.1
	hostsAtOnce    = 5
)

func (s *Supervisor) hearHost(_ context.Context, node writ.NodeID, r *nodes.HostReport) {
	if r.Node != node {
		s.warnings.Refused(node, "node reported the machine of another node", ofAnother(r.Node))
		s.accounts.countUseless(node, extraReports, 1)
		return
	}
	if _, may := s.hosts.Reserve(string(node), 1, 0); !may {
		s.accounts.countUseless(node, extraReports, 1)
		s.warnings.Refused(node, "node reports its machine too often; some reports are dropped",
			tooOften("%g a second are heard", hostsPerSecond))
		return
	}
	s.fleet.host(*r, s.epoch, s.Now())
}

// host stores a host report if it is newer than the last: not from an earlier process than the last beat, and not made
// for an earlier epoch.
func (f *fleet) host(r nodes.HostReport, epoch int64, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.nodes[r.Node]
	said := writ.ReportID{Incarnation: r.Incarnation, Round: r.Count}
	if m == nil || r.Epoch < epoch || r.Incarnation < m.beat.Incarnation ||
		cmp.Or(cmp.Compare(said.Incarnation, m.described.Incarnation), cmp.Compare(said.Round, m.described.Round)) <= 0 {
		return
	}
	m.described, m.Host = said, bound.Host(r.Host, now)
}

// started records the boot ID of a node and counts restarts of its machine.
func (m *member) started(boot string) {
	if boot == "" || boot == m.Boot {
		return
	}
	if m.Boot != "" {
		m.Restarts++
	}
	m.Boot = boot
}

// onlineEvery is the interval at which a node's online time is added to its month; each time is a write and an event.
// onlineFirst is the delay for the first entry of a month.
const (
	onlineEvery = 10 * time.Minute
	onlineFirst = time.Minute
)

// passed counts time in which the supervisor listened to a node. It counts as online unless the node is silent.
func (m *member) passed(month string, listened time.Duration) {
	if m.Admission != writ.AdmissionApproved {
		return
	}
	m.listened += listened
	if m.Liveness == writ.LivenessReady {
		m.online += listened
	}
	if begins := !m.hasMonth(month); m.listened >= onlineEvery || begins && m.listened >= onlineFirst {
		m.addOnline(month)
	}
}

// hasMonth reports whether month is the newest month with an entry.
func (m *member) hasMonth(month string) bool {
	return len(m.Online) > 0 && m.Online[len(m.Online)-1].Month == month
}

// addOnline adds what was counted to its month.
func (m *member) addOnline(month string) {
	all := slices.Clone(m.Online) // what was told has the old one
	if !m.hasMonth(month) {
		all = append(all, writ.Online{Month: month})
	}
	last := &all[len(all)-1]
	last.Seconds, last.Of = last.Seconds+int64(m.online/time.Second), last.Of+int64(m.listened/time.Second)
	m.Online = all[max(len(all)-bound.MaxOnline, 0):]
	m.online, m.listened = m.online%time.Second, m.listened%time.Second
}

// keepOnline writes the counted online time before the supervisor ends. A killed supervisor loses it, together with the
// listening time.
func (s *Supervisor) keepOnline(tx *journal.Tx) error {
	s.fleet.addOnline(s.Now())
	return putLives(tx, s.fleet.newLives())
}

func putLives(tx *journal.Tx, lives []journal.Life) error {
	for _, l := range lives {
		if err := tx.PutLife(l); err != nil {
			return err
		}
	}
	return nil
}

// addOnline adds what was counted of each node to its month.
func (f *fleet) addOnline(wall time.Time) {
	month := wall.UTC().Format(bound.OnlineMonth)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.nodes {
		if m.listened >= time.Second {
			m.addOnline(month)
		}
	}
}

// life returns the stored facts about a node's machine.
func (m *member) life() journal.Life {
	return journal.Life{Node: m.ID, HostFacts: m.HostFacts}
}

// restoreMachines loads the stored facts about machines.
func (f *fleet) restoreMachines(lives []journal.Life, now time.Time) {
	for _, l := range lives {
		m := f.nodes[l.Node]
		if m == nil {
			continue
		}
		m.kept = l
		m.HostFacts = bound.HostFacts(l.HostFacts, now)
	}
}

// newLives returns the facts about machines that are not in the journal yet.
func (f *fleet) newLives() (all []journal.Life) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.nodes {
		if l := m.life(); (l.Boot != "" || l.Host != nil || l.Online != nil) && !reflect.DeepEqual(l, m.kept) {
			all = append(all, l)
		}
	}
	return all
}

// keptLives records that these facts are in the journal.
func (f *fleet) keptLives(all []journal.Life) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range all {
		if m := f.nodes[l.Node]; m != nil {
			m.kept = l
		}
	}
}
