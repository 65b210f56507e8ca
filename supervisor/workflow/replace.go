package workflow

import (
	"slices"

	"writ"
)

// A call is done by another node, once its own is gone, only if everything that it needs there is made anew, too, by calls of the same run that
// have not ended. A machine whose volume was made before is not: without what the volume held it would be another machine.

// need is something that a call must be on one node with.
type need struct {
	seq      int // of the call of the run that makes it, 0 if none does
	resource writ.ResourceID
	node     writ.NodeID // that had it
}

// stake describes a call when its node is gone.
type stake struct {
	seq      int
	resource writ.ResourceID
	open     bool // it has not ended
	moves    bool // of what is open: its operation can be repeated elsewhere, as far as itself goes, or it was never sent
	there    bool // it is bound to the node that is gone, or its resource is there
	needs    []need
}

// withoutNeeds returns the calls that lose a need, by seq, each with the first lost need: the need was on the node that is
// gone, and no open call makes it again elsewhere. Calls that need a lost call are lost as well.
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
