package workflow

import (
	"slices"

	"writ"
	"writ/sal/catalog"
	"writ/supervisor/journal"
)

// A call is done by another node, once its own is gone, only if everything that it needs there is made anew, too, by calls of the same run that
// have not ended. A machine whose volume was made before is not: without what the volume held it would be another machine.

// need is something that a call must be on one node with.
type need struct {
	seq      int // of the call of the run that makes it, 0 if none does
	resource writ.ResourceID
	node     writ.NodeID // that had it
}

// stake is what a run has at stake in one of its calls when a node is gone.
type stake struct {
	seq      int
	resource writ.ResourceID
	open     bool // it has not ended
	moves    bool // of what is open: its operation can be repeated elsewhere, as far as itself goes, or it was never sent
	there    bool // it is bound to the node that is gone, or its resource is there
	needs    []need
}

// withoutNeeds returns the calls that lose what they need, by seq, and for each the first thing that is lost: it was on the node that is gone,
// and no call makes it anew there where the other one goes. What needs such a call is lost with it.
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

// bereft returns what the calls of the run lose with a node that is gone.
func (t losses) bereft(gone writ.NodeID) map[int]need {
	stakes := make([]stake, 0, len(t.calls))
	for _, c := range t.calls {
		s := stake{seq: c.Seq, resource: c.Resource(), open: !c.State.Ended(), there: c.Node == gone}
		s.moves = neverSent(c) && c.State == writ.CallPlanned || repeatableElsewhere(c)
		if s.open && s.there {
			s.needs = t.needsThere(c)
		}
		stakes = append(stakes, s)
	}
	return withoutNeeds(gone, stakes)
}

// needsThere returns what a call must be on one node with: what its handles lead to, and what it names.
func (t losses) needsThere(c *journal.Call) (needs []need) {
	for _, seq := range (transfer(t)).near(c) {
		if made := t.call(seq); made != nil && together(c, made) {
			needs = append(needs, need{seq, made.Resource(), made.Node})
		}
	}
	op, ok := catalog.Lookup(c.Operation)
	if !ok {
		return needs
	}
	for _, ref := range op.Args.Named(c.Args) {
		id := writ.ResourceID{Project: c.Project, Kind: ref.Kind, Name: ref.Name}
		origin, _ := c.Args[op.Origin].(string)
		known := slices.ContainsFunc(needs, func(n need) bool { return n.resource == id })
		if known || origin == ref.Name || !together(c, &journal.Call{Call: writ.Call{Kind: ref.Kind}}) || t.lastOn(id, c.Seq) != nil {
			continue
		}
		needs = append(needs, need{0, id, c.Node})
	}
	return needs
}
