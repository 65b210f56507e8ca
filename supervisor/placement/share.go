package placement

import (
	"slices"

	"writ"
	"writ/internal/fair"
)

// Line is a project whose calls wait for room on a node.
type Line struct {
	Project writ.ProjectID
	Weight  int          // 0 counts as 1
	Sent    int          // calls of the project that were sent to the node
	Runs    []writ.RunID // the run of each waiting call, oldest first
}

// Share divides the room of a node among the lines. It returns the runs whose calls go to the node, in this order. Each
// place goes to the project with the fewest sent calls per unit of weight, and among equal projects to the first line.
// A project without competition may use the whole node.
func Share(room int, lines []Line) (next []writ.RunID) {
	given := make([]int, len(lines))
	less := func(i, than int) bool {
		a, b := lines[i], lines[than]
		return (a.Sent+given[i])*max(b.Weight, 1) < (b.Sent+given[than])*max(a.Weight, 1)
	}
	for len(next) < room {
		least := -1
		for i, l := range lines {
			if given[i] < len(l.Runs) && (least < 0 || less(i, least)) {
				least = i
			}
		}
		if least < 0 {
			break
		}
		next = append(next, lines[least].Runs[given[least]])
		given[least]++
	}
	return next
}

// Enqueue returns `runs` with exactly `calls` entries of the run. Existing entries keep their positions, and missing
// entries are appended.
func Enqueue(runs []writ.RunID, run writ.RunID, calls int) []writ.RunID {
	runs = slices.DeleteFunc(runs, func(id writ.RunID) bool {
		if id == run {
			calls--
		}
		return id == run && calls < 0
	})
	for range calls {
		runs = append(runs, run)
	}
	return runs
}

const (
	// windowPerSlot limits the sent calls of a project for each slot of a node. Further calls wait in the journal, where
	// reordering and cancelling are cheap.
	windowPerSlot = 2
	// spareShare determines the spare room of a node: the window divided by spareShare. Only projects with few calls on a
	// full node get the spare room.
	spareShare = 3
)

// Room returns the number of calls that may be sent to a node with these slots, which already has `sent` calls. The
// result is not positive if the node is full.
func Room(slots, sent int) int { return max(slots, 1)*windowPerSlot - sent }

// Spare returns the number of calls that a project may send to a full node. `own` is the number of sent calls of this
// project. All sent calls may be blocked, so calls in the spare room can overtake them.
func Spare(slots, sent, own int) (more int) {
	window := max(slots, 1) * windowPerSlot
	all := window + (window+spareShare-1)/spareShare
	for own+more < window && fair.May(own+more, all-sent-more) {
		more++
	}
	return more
}
