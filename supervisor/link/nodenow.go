package link

import (
	"time"

	"writ"
)

// NodeNow holds the facts about a node that events omit or report late.
type NodeNow struct {
	ID         writ.NodeID     `json:"id"`
	Admission  writ.Admission  `json:"admission,omitempty"`
	Scheduling writ.Scheduling `json:"scheduling,omitempty"`
	Liveness   writ.Liveness   `json:"liveness,omitempty"`
	LastBeat   time.Time       `json:"last_beat,omitzero"`
	Fault      string          `json:"fault,omitempty"`
	// Slots is 0 if the node has not reported it yet, or if an earlier version of the supervisor answers.
	Slots    int           `json:"slots,omitempty"`
	Capacity writ.Capacity `json:"capacity,omitzero"`
	// Revision is the number of decisions about the node, which a statement must name. It is 0 without a decision, or if
	// an earlier version of the supervisor answers.
	Revision int               `json:"revision,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Decided  []writ.Decision   `json:"decided,omitempty"`
	Gone     bool              `json:"gone,omitempty"`
	// Waiting is the whole record of a node that waits for admission; no event contains it.
	Waiting *writ.Node `json:"waiting,omitempty"`
}

// NodeNowOf returns the current state of a node.
func NodeNowOf(n writ.Node) NodeNow {
	return NodeNow{
		ID: n.ID, Admission: n.Admission, Scheduling: n.Scheduling, Liveness: n.Liveness, LastBeat: n.LastBeat,
		Fault: n.Fault, Slots: n.Slots, Capacity: n.Capacity, Revision: n.Revision, Labels: n.Labels, Decided: n.Decided,
		Gone: n.Gone,
	}
}

// Update changes the record of a node, which comes from events, to the current state.
func (now *NodeNow) Update(n *writ.Node) {
	n.Admission, n.Scheduling, n.Liveness, n.LastBeat, n.Fault = now.Admission, now.Scheduling, now.Liveness, now.LastBeat, now.Fault
	if now.Slots > 0 { // an event reports these too, but arrives after the first beat
		n.Slots, n.Capacity = now.Slots, now.Capacity
	}
	if now.Revision >= n.Revision && now.Revision > 0 { // the event of a decision arrives after its answer
		n.Revision, n.Labels, n.Decided = now.Revision, now.Labels, now.Decided
		n.Gone = n.Gone || now.Gone
	}
}
