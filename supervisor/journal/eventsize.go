package journal

import (
	"encoding/json"

	"writ"
)

// MaxSaid limits the size of an event with data from a node, in bytes. A link sends events whole and in order, so an
// event that exceeds a frame would cut the datacenter off from its coordinators for as long as the journal has it.
const MaxSaid = 256 << 10

// Shorten removes most data of a node from an event if it is too large for a link. It reports whether it did.
func Shorten(e *writ.Event) bool {
	if e.Node == nil && e.Resource == nil {
		return false // the datacenter determines the size of all other events
	}
	text, err := json.Marshal(e)
	if err != nil || len(text) <= MaxSaid {
		return false
	}
	shorten(e)
	return true
}

// shorten removes the unbounded data of a node from an event. Values that the event points to are not changed.
func shorten(e *writ.Event) {
	if e.Node != nil {
		n := *e.Node
		n.Drivers, n.Host, n.Stuck, n.Orphans, n.Network = nil, nil, nil, nil, nil
		if n.Fence != nil {
			fence := *n.Fence
			fence.Open = nil
			n.Fence = &fence
		}
		e.Node = &n
	}
	if e.Resource != nil {
		r := *e.Resource
		r.Drift, r.Mended = nil, nil
		e.Resource = &r
	}
}
