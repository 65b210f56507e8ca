package placement

import "writ/internal/fair"

const (
	// windowPerSlot limits the sent calls of a project for each slot of a node. Further calls wait in the journal, where
	// reordering and cancelling are cheap.
	windowPerSlot = 2
	// spareShare determines the spare room of a node: the window divided by spareShare. Only projects with few calls on
	// a full node get it.
	spareShare = 3
)

// Room returns the number of calls that may be sent to a node with these slots, which already has `sent` calls. The
// result is not positive if the node is full.
func Room(slots, sent int) int { return max(slots, 1)*windowPerSlot - sent }

// Spare returns the number of calls that a project may send to a full node. `own` is the number of the project's calls
// among the sent ones. All sent calls may belong to projects that wait for something; Spare lets other projects pass
// them.
func Spare(slots, sent, own int) (more int) {
	window := max(slots, 1) * windowPerSlot
	all := window + (window+spareShare-1)/spareShare
	for own+more < window && fair.May(own+more, all-sent-more) {
		more++
	}
	return more
}
