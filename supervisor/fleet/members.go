package fleet

import (
	"cmp"
	"crypto/ed25519"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/supervisor/bound"
	"writ/supervisor/journal"
)

// Members holds the nodes that have a record in the journal, with the state that coordinators receive. It includes
// removed nodes.
type Members struct {
	mu     sync.Mutex
	nodes  map[writ.NodeID]*member
	byName []*member
	// serving holds the ids of the approved nodes, sorted. It is nil after a change of the nodes, until the next call of
	// Serving.
	serving []writ.NodeID
	// all is the result of Shared. It is nil after a change of a node, until the next call of Shared.
	all []*writ.Node
	// keys maps signing keys to nodes. The key of a node never changes. Unknown clients may request lookups of any number
	// of keys, so a lookup must be cheap.
	keys map[string]writ.NodeID
	// earlier holds the last beats from before this supervisor started. They are unverified, so they are only shown.
	earlier map[writ.NodeID]journal.LastBeat
}

// member is a node.
type member struct {
	journal.Node
	shared *writ.Node // a copy that is never changed, for readers; nil after a change of the node
}

func newMembers(nodes []*journal.Node) *Members {
	m := &Members{
		nodes: make(map[writ.NodeID]*member), keys: make(map[string]writ.NodeID),
		earlier: make(map[writ.NodeID]journal.LastBeat),
	}
	for _, n := range nodes {
		n.Revision = n.Decisions // records of earlier versions lack the revision
		m.add(*n)
	}
	return m
}

// add adds a node, which is silent until its first beat. The caller holds mu.
func (m *Members) add(n journal.Node) {
	n.Liveness = writ.LivenessSilent
	added := &member{Node: n}
	m.nodes[n.ID] = added
	at, _ := slices.BinarySearchFunc(m.byName, added, compareNames)
	m.byName = slices.Insert(m.byName, at, added)
	m.keys[string(n.PublicKey)] = n.ID
	m.serving, m.all = nil, nil
}

// compareNames orders nodes by name, then by ID. The name and the ID of a node never change.
func compareNames(a, b *member) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
}

// Put adds or updates a node after its commit to the journal. It ignores a record with fewer decisions than the current
// record.
func (m *Members) Put(n journal.Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.nodes[n.ID]
	switch {
	case known == nil:
		m.add(n)
	case n.Decisions >= known.Decisions:
		applyDecisions(&known.Node, n)
		known.shared = nil
		m.serving, m.all = nil, nil
	}
}

// applyDecisions copies the decisions of a journal record. The other fields come from the node's own reports. A removed
// node reports only its answer to the fence order.
func applyDecisions(known *journal.Node, n journal.Node) {
	known.Decisions, known.Revision = n.Decisions, n.Decisions
	known.Admission, known.Gone, known.Scheduling = n.Admission, n.Gone, n.Scheduling
	known.Labels, known.Decided, known.Token = n.Labels, n.Decided, n.Token
	known.Serial, known.Batch = n.Serial, n.Batch
	if n.Gone {
		known.Lost = n.Lost
		known.Fence, known.Orphans, known.Superseded = n.Fence, n.Orphans, n.Superseded
		known.FenceAnswer, known.FenceRound = n.FenceAnswer, n.FenceRound
	}
}

// Get returns a node. If the node is unknown, it returns false and a lost node with only an id.
func (m *Members) Get(id writ.NodeID) (writ.Node, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, ok := m.nodes[id]
	if !ok {
		return writ.Node{ID: id, Liveness: writ.LivenessLost}, false
	}
	return n.Node.Node, true
}

// IsMember reports whether a node is approved, so that jobs may be sent to it.
func (m *Members) IsMember(id writ.NodeID) bool {
	n, known := m.Get(id)
	return known && n.Admission == writ.AdmissionApproved
}

// Away returns a node and the reason why no job can be sent to it now. The reason is empty if jobs can be sent.
func (m *Members) Away(id writ.NodeID) (n writ.Node, why writ.Reason) {
	n, ok := m.Get(id)
	switch {
	case !ok || n.Liveness != writ.LivenessReady:
		why = writ.Reason{Code: writ.ReasonNode, Node: n.Name, State: string(n.Liveness)}
	case n.Admission != writ.AdmissionApproved:
		why = writ.Reason{Code: writ.ReasonNode, Node: n.Name, State: string(n.Admission)}
	case n.Fault != "":
		why = writ.Reason{Code: writ.ReasonNode, Node: n.Name, Text: n.Fault}
	}
	return n, why
}

// Record returns a node with its keys, or nil if it is unknown.
func (m *Members) Record(id writ.NodeID) *journal.Node {
	m.mu.Lock()
	defer m.mu.Unlock()
	return recordOf(m.nodes[id])
}

// ByKey returns the node with this signing key, or nil.
func (m *Members) ByKey(key ed25519.PublicKey) *journal.Node {
	m.mu.Lock()
	defer m.mu.Unlock()
	return recordOf(m.nodes[m.keys[string(key)]])
}

// recordOf returns a copy of the record of a node, or nil for nil.
func recordOf(n *member) *journal.Node {
	if n == nil {
		return nil
	}
	found := n.Node
	return &found
}

// Name returns the name of a node, or the id of an unknown node.
func (m *Members) Name(id writ.NodeID) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n, ok := m.nodes[id]; ok {
		return n.Name
	}
	return string(id)
}

// List returns all nodes, sorted by name.
func (m *Members) List() []writ.Node {
	m.mu.Lock()
	defer m.mu.Unlock()
	nodes := make([]writ.Node, len(m.byName))
	for i, n := range m.byName {
		nodes[i] = n.Node.Node
	}
	return nodes
}

// Shared returns all nodes, sorted by name. The caller must not change them or the slice. Each step of a run needs all
// nodes, so Shared copies only the nodes that have changed since the last call.
func (m *Members) Shared() []*writ.Node {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all != nil {
		return m.all
	}
	m.all = make([]*writ.Node, len(m.byName))
	for i, n := range m.byName {
		if n.shared == nil {
			shared := n.Node.Node
			n.shared = &shared
		}
		m.all[i] = n.shared
	}
	return m.all
}

// Shown returns all nodes as coordinators receive them, sorted by name. A node without a beat since this supervisor
// started has the version, slots and capacity of its last beat before that start.
func Shown(m *Members) []writ.Node {
	nodes := m.List()
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range nodes {
		nodes[i] = withEarlier(m, nodes[i])
	}
	return nodes
}

// withEarlier returns a node in the form that Shown returns. The caller holds mu.
func withEarlier(m *Members, n writ.Node) writ.Node {
	if last, known := m.earlier[n.ID]; known && n.LastBeat.UnixMicro() == last.Time {
		n.Version, n.Slots, n.Capacity = last.Version, last.Slots, last.Capacity
	}
	return n
}

// lastBeatOf returns the facts of a node's last beat, nil without a beat. The caller holds mu.
func lastBeatOf(m *Members, n *journal.Node) *journal.LastBeat {
	if n.LastBeat.IsZero() {
		return nil
	}
	shown := withEarlier(m, n.Node)
	return &journal.LastBeat{
		Time: n.LastBeat.UnixMicro(), Version: shown.Version, Slots: shown.Slots, Capacity: shown.Capacity,
	}
}

// restore sets the time of a node's last beat before this supervisor started. A time after now, from a changed row or a
// changed clock, becomes now. Liveness does not follow from the time: Presence counts silence from the start of this
// process.
func restore(m *Members, id writ.NodeID, last journal.LastBeat, now time.Time) {
	if last.Time <= 0 {
		return
	}
	last.Time = min(last.Time, now.UnixMicro())
	h := bound.Beat(writ.Beat{Health: writ.Health{Version: last.Version, Slots: last.Slots, Capacity: last.Capacity}})
	last.Version, last.Slots, last.Capacity = h.Version, h.Slots, h.Capacity
	if m.update(id, func(n *journal.Node) { n.LastBeat = time.UnixMicro(last.Time).UTC() }) {
		m.earlier[id] = last
	}
}

// Serving returns the ids of the approved nodes, sorted. The caller must not change the slice. Calls between two
// changes of the nodes return the same slice.
func (m *Members) Serving() []writ.NodeID {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.serving == nil {
		ids := make([]writ.NodeID, 0, len(m.nodes))
		for id, n := range m.nodes {
			if n.Admission == writ.AdmissionApproved {
				ids = append(ids, id)
			}
		}
		slices.Sort(ids)
		m.serving = ids
	}
	return m.serving
}

// Select returns the nodes that match accepts, sorted by name and key. match must not use the Members.
func (m *Members) Select(match func(*journal.Node) bool) []journal.Node {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []journal.Node
	for _, n := range m.nodes {
		if match(&n.Node) {
			found = append(found, n.Node)
		}
	}
	slices.SortFunc(found,
		func(a, b journal.Node) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key)) })
	return found
}

// SetReserved stores the reserved capacity of all nodes.
func (m *Members) SetReserved(loads map[writ.NodeID]journal.Load) {
	m.forEach(func(n *journal.Node) { n.Used = loads[n.ID].Reserved })
}

func isKnown(m *Members, id writ.NodeID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.nodes[id] != nil
}

// update changes the reported state of a node. It reports whether the node is known.
func (m *Members) update(id writ.NodeID, change func(*journal.Node)) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.nodes[id]
	if n != nil {
		change(&n.Node)
		n.shared, m.all = nil, nil
	}
	return n != nil
}

// forEach calls `do` for all nodes, in any order.
func (m *Members) forEach(do func(*journal.Node)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = nil
	for _, n := range m.nodes {
		do(&n.Node)
		n.shared = nil
	}
}
