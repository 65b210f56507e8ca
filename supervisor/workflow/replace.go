package workflow

import (
	"slices"

	"writ"
)

// Another node may perform a call of a node that is gone only if open calls of the same run make all its needs again.
// For example, a machine whose volume an earlier run made is not moved: without the contents of the volume it would be
// a different machine.

// need is a resource that must be on the same node as a call.
type need struct {
	seq      int // call of the run that makes it, 0 if none
	resource writ.ResourceID
	node     writ.NodeID // node of the resource
}

// stake describes a call of a run with regard to a node that is gone.
type stake struct {
	seq      int
	resource writ.ResourceID
	open     bool // the call has not ended
	// for open calls: another node could perform the call if all its needs were on that node
	moves bool
	there bool // the call or its resource is on the node that is gone
	needs []need
}

// withoutNeeds returns the calls that lose a need, by seq, each with the first lost need. A need is lost if it was on
// the node that is gone and no open call makes it again elsewhere. Calls that need such a call lose a need as well.
func withoutNeeds(gone writ.NodeID, stakes []stake) map[int]need {
	lost := make(map[int]need)
	bySeq := make(map[int]stake, len(stakes))
	for _, s := range stakes {
		bySeq[s.seq] = s
	}
	for again := true; again; {
		again = false
		for _, s := range stakes {
			if _, known := lost[s.seq]; known || !s.open {
				continue
			}
			i := slices.IndexFunc(s.needs, func(n need) bool {
				maker, made := bySeq[n.seq]
				_, fails := lost[n.seq]
				switch {
				case !made:
					return n.node == gone
				case fails:
					return true
				case maker.open:
					return maker.there && !maker.moves
				default:
					return maker.there
				}
			})
			if i >= 0 {
				lost[s.seq], again = s.needs[i], true
				if deeper, fails := lost[s.needs[i].seq]; fails {
					lost[s.seq] = deeper
				}
			}
		}
	}
	return lost
}
