package snapshot

import (
	"context"
	"maps"
	"time"

	"writ"
	"writ/coord/api"
	. "writ/coord/dashboard/markup"
	"writ/coord/dashboard/page"
	. "writ/coord/dashboard/widget"
	"writ/internal/hidden"
	"writ/ledger"
)

const (
	nodesEvery = 5 * time.Second // interval between two lists of all nodes
	// When the set of unheard nodes changes, calls and resources on these nodes change their shown state without an
	// event. For steadyAfter after that, live pages therefore also render the parts that depend on the ledger only.
	steadyAfter = 2 * nodesEvery
)

// Unheard is a silent or lost node, or a disconnected datacenter. The state of its resources and calls is unknown.
type Unheard struct {
	Name  string
	State string    // silent, lost or away
	Since time.Time // zero if unknown
}

// ShownTo removes the name of the node for readers of some projects.
func (u Unheard) ShownTo(reader page.Reader) *Unheard {
	if !reader.All && u.State != string(api.DatacenterHealthAway) {
		u.Name = "its node"
	}
	return &u
}

// HTML renders the reason of an unknown state. It is empty for nil.
func (u *Unheard) HTML() Node {
	if u == nil {
		return nil
	}
	return Span(Class("why"), Text("unknown: "+hidden.Escape(u.Name)+" is "+u.State),
		When(!u.Since.IsZero(), func() Node { return Group{Text(" since "), Clock(u.Since)} }))
}

// StateUnknown replaces the state of a resource or call on an unheard node.
const StateUnknown = "unknown"

// HasUnheard reports whether a datacenter is disconnected or has unheard nodes.
func (m *Snapshot) HasUnheard(datacenter writ.DatacenterID) bool {
	return m.Nodes.unheardIn[datacenter] || !m.Datacenter(datacenter).IsConnected()
}

// UnheardCall returns the node of a running call if the node is unheard, otherwise nil.
func (m *Snapshot) UnheardCall(c writ.Call, datacenter writ.DatacenterID, reader page.Reader) *Unheard {
	u, is := m.UnheardNode(datacenter, c.Node)
	if !is || c.State != writ.CallRunning {
		return nil
	}
	return u.ShownTo(reader)
}

// nodeStates summarizes all nodes at one time. It is immutable.
type nodeStates struct {
	at      time.Time // when the nodes were listed
	changed time.Time // last change of the unheard nodes
	unheard map[NodeKey]Unheard
	// unheardIn is the set of datacenters with unheard nodes.
	unheardIn map[writ.DatacenterID]bool

	Lost, Silent, Faulty, Full int
	AlmostFull                 int // nodes that are not full but have a disk with hardly any free bytes
}

// add counts a node of a connected datacenter.
func (s *nodeStates) add(n writ.Node) {
	if n.Admission != writ.AdmissionApproved {
		return
	}
	if IsFull(n.Used.DiskGiB, n.Capacity.DiskGiB) {
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
	s.unheard[NodeKey{n.Datacenter, n.ID}] = Unheard{n.Name, string(n.Liveness), n.LastBeat}
	s.unheardIn[n.Datacenter] = true
}

// IsFull reports whether a resource of a node is fully reserved: placement then refuses more.
func IsFull(used, all int64) bool { return all > 0 && used >= all }

// lookAtNodes lists all nodes and returns their states. It returns the states of the last snapshot if they are recent,
// or if the list fails, so that pages remain available.
func (s *Source) lookAtNodes(ctx context.Context, m *Snapshot, last *Snapshot) nodeStates {
	before := nodeStates{}
	if last != nil {
		if before = last.Nodes; m.At.Sub(before.at) < nodesEvery {
			return before
		}
	}
	states := nodeStates{
		at: m.At, changed: before.changed, unheard: map[NodeKey]Unheard{}, unheardIn: map[writ.DatacenterID]bool{},
	}
	for n, err := range ledger.All(ctx, s.Ledger.Nodes, ledger.NodeFilter{}) {
		if err != nil {
			before.at = m.At
			return before
		}
		if m.Datacenter(n.Datacenter).IsConnected() {
			states.add(n)
		}
	}
	if !maps.Equal(states.unheard, before.unheard) {
		states.changed = m.At
	}
	return states
}

// IsSteady reports whether a page without new events already shows the current unheard nodes: they last changed more
// than steadyAfter ago.
func (m *Snapshot) IsSteady() bool { return m.At.Sub(m.Nodes.changed) > steadyAfter }

// UnheardNode returns the node, or its disconnected datacenter, if the node is unheard. Otherwise it returns false.
func (m *Snapshot) UnheardNode(datacenter writ.DatacenterID, node writ.NodeID) (Unheard, bool) {
	if node == "" {
		return Unheard{}, false
	}
	if dc := m.Datacenter(datacenter); !dc.IsConnected() {
		return Unheard{Name: dc.Name, State: string(dc.Health)}, true
	}
	u, is := m.Nodes.unheard[NodeKey{datacenter, node}]
	return u, is
}
