package supervisor

import (
	"bytes"
	"cmp"
	"reflect"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/supervisor/journal"
	"writ/supervisor/nodes"
)

// hostsPerSecond is how often a node may say what its machine is, and hostsAtOnce how often at once. Runners look every half minute.
const (
	hostsPerSecond = 0.1
	hostsAtOnce    = 5
)

// looksLikeHost guesses which kind of envelope to try first, as looksLikeBeat.
func looksLikeHost(signed []byte) bool { return bytes.Contains(signed, []byte("hardware")) }

// hearHosts opens what a node says of its machine; ok is false if it is something else.
func (s *Supervisor) hearHosts(node writ.NodeID, signed []byte, key envelope.Keys) (ok bool) {
	reports, _, err := envelope.Open[nodes.HostReport](envelope.Host, signed, key)
	for _, r := range reports {
		s.hearHost(node, r)
	}
	return err == nil
}

func (s *Supervisor) hearHost(node writ.NodeID, r nodes.HostReport) {
	if r.Node != node {
		s.complaints.refused(node, "node reported the machine of another node", ofAnother(r.Node))
		s.accounts.countUseless(node, extraReports, 1)
		return
	}
	if _, may := s.hosts.Reserve(string(node), 1, 0); !may {
		s.accounts.countUseless(node, extraReports, 1)
		s.complaints.refused(node, "node reports its machine too often; some reports are dropped", tooOften("%g a second are heard", hostsPerSecond))
		return
	}
	s.fleet.host(r, s.epoch, s.Now())
}

// host takes over what a node says of its machine, if it is newer than the last: of no earlier process than the one that beats, and said since the
// supervisor of this epoch began.
func (f *fleet) host(r nodes.HostReport, epoch int64, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.nodes[r.Node]
	said := writ.ReportID{Incarnation: r.Incarnation, Round: r.Count}
	if m == nil || r.Epoch < epoch || r.Incarnation < m.beat.Incarnation ||
		cmp.Or(cmp.Compare(said.Incarnation, m.described.Incarnation), cmp.Compare(said.Round, m.described.Round)) <= 0 {
		return
	}
	m.described, m.Host = said, moderateHost(r.Host, now)
}

// started notes which start of its machine a node says that it lives in.
func (m *member) started(boot string) {
	if boot == "" || boot == m.Boot {
		return
	}
	if m.Boot != "" {
		m.Restarts++
	}
	m.Boot = boot
}

// life is what is kept of the machine of a node.
func (m *member) life() journal.Life {
	return journal.Life{Node: m.ID, Boot: m.Boot, Restarts: m.Restarts, Host: m.Host}
}

// restoreMachines takes over what the journal has of machines.
func (f *fleet) restoreMachines(lives []journal.Life, now time.Time) {
	for _, l := range lives {
		m := f.nodes[l.Node]
		if m == nil {
			continue
		}
		m.kept = l
		if l.Host != nil {
			m.Host = moderateHost(*l.Host, now)
		}
		m.Boot, m.Restarts = hostWord(l.Boot), max(l.Restarts, 0)
	}
}

// newLives returns what is known of machines and not in the journal.
func (f *fleet) newLives() (all []journal.Life) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.nodes {
		if l := m.life(); (l.Boot != "" || l.Host != nil) && !reflect.DeepEqual(l, m.kept) {
			all = append(all, l)
		}
	}
	return all
}

// keptLives records that they are in the journal.
func (f *fleet) keptLives(all []journal.Life) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range all {
		if m := f.nodes[l.Node]; m != nil {
			m.kept = l
		}
	}
}
