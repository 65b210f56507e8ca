package dashboard

import (
	"context"
	"maps"
	"time"

	"writ"
	"writ/coord/api"
	. "writ/coord/dashboard/markup"
	"writ/internal/hidden"
	"writ/ledger"
)

const (
	nodesEvery = 5 * time.Second // interval between two lists of all nodes
	// steadyAfter is the time after a change of the unheard nodes in which pages render ledger parts without a ledger
	// event.
	steadyAfter = 2 * nodesEvery
)

// unheard is a silent or lost node, or a disconnected datacenter. The state of its resources and calls is unknown.
type unheard struct {
	Name  string
	State string    // silent, lost or away
	Since time.Time // zero if unknown
}

// shownTo removes the name of the node for readers of some projects.
func (u unheard) shownTo(reader Reader) *unheard {
	if !reader.All && u.State != string(api.DatacenterHealthAway) {
		u.Name = "its node"
	}
	return &u
}

// html renders the reason of an unknown state. It is empty for nil.
func (u *unheard) html() Node {
	if u == nil {
		return nil
	}
	return Span(Class("why"), Text("unknown: "+hidden.Escape(u.Name)+" is "+u.State),
		When(!u.Since.IsZero(), func() Node { return Group{Text(" since "), clock(u.Since)} }))
}

// stateUnknown replaces the state of a resource or call on an unheard node.
const stateUnknown = "unknown"

// hasUnheard reports whether a datacenter has unheard nodes.
func (m *moment) hasUnheard(datacenter writ.DatacenterID) bool {
	return len(m.nodes.unheard) > 0 || !m.datacenter(datacenter).IsConnected()
}

// unheardCall returns the node of a running call if the node is unheard, otherwise nil.
func (m *moment) unheardCall(c writ.Call, datacenter writ.DatacenterID, reader Reader) *unheard {
	u, is := m.unheardNode(datacenter, c.Node)
	if !is || c.State != writ.CallRunning {
		return nil
	}
	return u.shownTo(reader)
}

// nodeStates summarizes all nodes at a moment. It is immutable.
type nodeStates struct {
	at      time.Time // when the nodes were listed
	changed time.Time // last change of the unheard nodes
	unheard map[queueKey]unheard

	Lost, Silent, Faulty, Full int
	AlmostFull                 int // nodes with free space to reserve, and a disk with hardly any free bytes
}

// add counts a node of a datacenter that answers.
func (s *nodeStates) add(n writ.Node) {
	if n.Admission != writ.AdmissionApproved {
		return
	}
	if isFull(n.Used.DiskGiB, n.Capacity.DiskGiB) {
		s.Full++
	} else if n.AlmostFullDisk() != nil {
		s.AlmostFull++
	}
	switch {
	case n.Liveness == writ.LivenessLost:
		s.Lost++
	case n.Liveness == writ.LivenessSilent:
		s.Silent++
	case n.Fault != "":
		s.Faulty++
		return
	default:
		return
	}
	s.unheard[queueKey{n.Datacenter, n.ID}] = unheard{n.Name, string(n.Liveness), n.LastBeat}
}

// isFull reports whether a resource of a node is fully reserved: placement then refuses more.
func isFull(used, all int64) bool { return all > 0 && used >= all }

// lookAtNodes lists all nodes, or returns their recent states. If the list fails, it returns the last states, so that
// pages remain available.
func (d *source) lookAtNodes(ctx context.Context, m *moment, last *moment) nodeStates {
	before := nodeStates{}
	if last != nil {
		if before = last.nodes; m.at.Sub(before.at) < nodesEvery {
			return before
		}
	}
	s := nodeStates{at: m.at, changed: before.changed, unheard: map[queueKey]unheard{}}
	for n, err := range ledger.All(ctx, d.Ledger.Nodes, ledger.NodeFilter{}) {
		if err != nil {
			before.at = m.at
			return before
		}
		if m.datacenter(n.Datacenter).IsConnected() {
			s.add(n)
		}
	}
	if !maps.Equal(s.unheard, before.unheard) {
		s.changed = m.at
	}
	return s
}

// isSteady reports whether pages without new events show the current states of nodes.
func (m *moment) isSteady() bool { return m.at.Sub(m.nodes.changed) > steadyAfter }

// unheardNode returns the node if it is unheard, and false otherwise.
func (m *moment) unheardNode(datacenter writ.DatacenterID, node writ.NodeID) (unheard, bool) {
	if node == "" {
		return unheard{}, false
	}
	if dc := m.datacenter(datacenter); !dc.IsConnected() {
		return unheard{Name: dc.Name, State: string(dc.Health)}, true
	}
	u, is := m.nodes.unheard[queueKey{datacenter, node}]
	return u, is
}
