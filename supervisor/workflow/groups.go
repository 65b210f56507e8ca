package workflow

import (
	"slices"

	"writ"
	"writ/supervisor/journal"
)

// groups returns the planned calls that were not yet ready to be sent, grouped by calls that need the same node. A
// stopped run has none.
func groups(t *Step) [][]*journal.Call {
	if t.run.Stop != nil {
		return nil
	}
	return t.calls.connected()
}

// claimedGroups returns the calls to place, grouped by calls that need the same node. Groups with an unclaimed call are
// omitted.
func claimedGroups(t *Step) [][]*journal.Call {
	return slices.DeleteFunc(groups(t), func(group []*journal.Call) bool {
		return slices.ContainsFunc(group, func(c *journal.Call) bool { return !c.Claimed })
	})
}

// connected returns the planned calls that were not yet ready to be sent, grouped by calls that need the same node.
func (l *callList) connected() [][]*journal.Call {
	parent := make(map[int]int)
	find := func(seq int) int {
		for parent[seq] != seq {
			seq = parent[seq]
		}
		return seq
	}
	var waiting []*journal.Call
	for _, c := range l.all {
		if c.State == writ.CallPlanned && !c.Ready {
			parent[c.Seq] = c.Seq
			waiting = append(waiting, c)
		}
	}
	for _, c := range waiting {
		for _, seq := range slices.Concat(l.colocated(c), c.Orders) {
			if _, ok := parent[seq]; ok && together(c, l.at(seq)) {
				parent[find(c.Seq)] = find(seq)
			}
		}
	}
	byRoot := make(map[int][]*journal.Call)
	var roots []int
	for _, c := range waiting {
		root := find(c.Seq)
		if byRoot[root] == nil {
			roots = append(roots, root)
		}
		byRoot[root] = append(byRoot[root], c)
	}
	groups := make([][]*journal.Call, len(roots))
	for i, root := range roots {
		groups[i] = byRoot[root]
	}
	return groups
}

// together reports whether a call must be on the node of the call `need`, which it needs. A database is reached by its
// address and binds no call, and a database itself is bound only by its network.
func together(c, need *journal.Call) bool {
	return c.Kind != "" && need.Kind != "" && need.Kind != writ.KindHeroDB &&
		(c.Kind != writ.KindHeroDB || need.Kind == writ.KindNetwork)
}
