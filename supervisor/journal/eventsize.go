package journal

import (
	"encoding/json"
	"fmt"

	"writ"
)

// MaxSaid bounds an event with what a node says, of itself or of a resource. A link carries an event whole, and all in their order: one that does
// not fit into a frame would cut the datacenter off from its coordinators, for as long as the journal has it.
const MaxSaid = 256 << 10

// Shorten leaves out of an event most of what a node said, if all of it is too much for a link. It reports whether it did.
func Shorten(e *writ.Event) bool {
	if e.Node == nil && e.Resource == nil {
		return false // of everything else the datacenter chooses the size
	}
	text, err := json.Marshal(e)
	if err != nil || len(text) <= MaxSaid {
		return false
	}
	shorten(e)
	return true
}

// shorten leaves out of an event what a node may say much of. What the event points to stays as it is.
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

// shortened returns an event of a row as a link carries it: earlier versions kept some that none does.
func shortened(text []byte) ([]byte, error) {
	if len(text) <= MaxSaid {
		return text, nil
	}
	var e writ.Event
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, fmt.Errorf("decode an event: %w", err)
	}
	if !Shorten(&e) {
		return text, nil
	}
	return json.Marshal(e)
}
