package fleet

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	"writ"
)

// Changes finds the nodes that need an event, because their state differs from their last event. It is not safe for
// concurrent use.
type Changes struct {
	told map[writ.NodeID]writ.Node // as in the last event
}

// Find returns the nodes that differ from their last event, sorted by id. The time of the last beat is not compared.
func (c *Changes) Find(nodes []writ.Node) []writ.Node {
	var changed []writ.Node
	for _, n := range nodes {
		now := n
		now.LastBeat = time.Time{}
		if !reflect.DeepEqual(now, c.told[n.ID]) {
			changed = append(changed, n)
		}
	}
	slices.SortFunc(changed, func(a, b writ.Node) int { return cmp.Compare(a.ID, b.ID) })
	return changed
}

// Written records that events for nodes were written.
func (c *Changes) Written(nodes []writ.Node) {
	if c.told == nil {
		c.told = make(map[writ.NodeID]writ.Node)
	}
	for _, n := range nodes {
		n.LastBeat = time.Time{}
		c.told[n.ID] = n
	}
}

// Forget makes every node need an event.
func (c *Changes) Forget() { clear(c.told) }
