package workflow

import (
	"slices"

	"writ"
	"writ/supervisor/journal"
)

// groups returns the planned calls that were not yet ready to be sent, grouped by calls that need the same node. It
// returns nil for a stopped run.
func groups(t *Step) [][]*journal.Call {
	if t.run.Stop != nil {
		return nil
	}
	return t.calls.connected()
}

// claimedGroups returns the calls to place, grouped by calls that need the same node. Groups with an unclaimed call are
// omitted.
func claimedGroups(t *Step) [][]*journal.Call {
	groups := groups(t)
	later := entangled(t, groups)
	for i, group := range groups {
		groups[i] = slices.DeleteFunc(group, func(c *journal.Call) bool { return later[c.Seq] })
	}
	return slices.DeleteFunc(groups, func(group []*journal.Call) bool {
		return len(group) == 0 || slices.ContainsFunc(group, isUnclaimed)
	})
}

func isUnclaimed(c *journal.Call) bool { return !c.Claimed }

// entangled returns the calls that must leave their groups, by seq. Such a call waits for a call whose group would wait
// too, or needs another call that leaves its group. Otherwise the script run("a", i), run("a", i) would wait forever.
// Both calls need the node of the image i, and the second call gets its claim only when the first call has ended. A
// call that left its group is placed later, on the node of its needs.
func entangled(t *Step, groups [][]*journal.Call) map[int]bool {
	incomplete := make(map[int]bool)
	for _, group := range groups {
		if slices.ContainsFunc(group, isUnclaimed) {
			for _, c := range group {
				incomplete[c.Seq] = true
			}
		}
	}
	if len(incomplete) == 0 {
		return nil
	}
	later, needs := make(map[int]bool), t.calls.needs()
	for _, c := range t.calls.live { // each call comes after its needs
		waits := incomplete[c.Seq] && !c.Claimed && c.Why.Code == writ.ReasonCall && incomplete[c.Why.Seq]
		if waits || slices.ContainsFunc(needs[c.Seq], func(seq int) bool { return later[seq] }) {
			later[c.Seq] = true
		}
	}
	return later
}

// connected returns the planned calls that were not yet ready to be sent, grouped by calls that need the same node.
func (l *callList) connected() [][]*journal.Call {
	var waiting []*journal.Call
	for _, c := range l.live {
		if c.State == writ.CallPlanned && !c.Ready {
			waiting = append(waiting, c)
		}
	}
	sets := newDisjointSets(waiting)
	for _, c := range waiting {
		for _, seq := range l.colocated(c) {
			if sets.has(seq) && together(c, l.at(seq)) {
				sets.join(c.Seq, seq)
			}
		}
		for i, seq := range slices.Backward(c.Orders) {
			if !sets.has(seq) {
				continue
			}
			sets.join(c.Seq, seq)
			if o := l.at(seq); o.Claimed || slices.Equal(o.Orders, c.Orders[:i]) {
				break // the call o joins the earlier calls: they were open when o was claimed
			}
		}
	}
	index := make(map[int]int) // in groups, by the root of the set
	var groups [][]*journal.Call
	for _, c := range waiting {
		root := sets.find(c.Seq)
		i, known := index[root]
		if !known {
			i = len(groups)
			index[root] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], c)
	}
	return groups
}

// disjointSets holds disjoint sets of sequence numbers. In parent, each number maps to another number of its set, the
// root of a set to itself, and a number without a set to 0.
type disjointSets struct {
	before int   // the number before the first one
	parent []int // of the numbers after before
}

// newDisjointSets returns one set for each call. The calls are in order.
func newDisjointSets(calls []*journal.Call) disjointSets {
	if len(calls) == 0 {
		return disjointSets{}
	}
	before := calls[0].Seq - 1
	s := disjointSets{before: before, parent: make([]int, calls[len(calls)-1].Seq-before)}
	for _, c := range calls {
		*s.of(c.Seq) = c.Seq
	}
	return s
}

func (s disjointSets) of(n int) *int { return &s.parent[n-s.before-1] }

func (s disjointSets) has(n int) bool {
	return n > s.before && n <= s.before+len(s.parent) && *s.of(n) != 0
}

func (s disjointSets) join(a, b int) { *s.of(s.find(a)) = s.find(b) }

// find returns the root of the set of n. It shortens the path to the root, so that long chains are walked once.
func (s disjointSets) find(n int) int {
	for *s.of(n) != n {
		*s.of(n) = *s.of(*s.of(n))
		n = *s.of(n)
	}
	return n
}

// together reports whether a call must be on the node of the call `need`, which it needs. Calls on one resource must be
// on one node. A database is reached by its address, so it binds no other call. A database itself is bound only by its
// network.
func together(c, need *journal.Call) bool {
	if c.Kind == need.Kind && c.Name == need.Name {
		return c.Kind != ""
	}
	return c.Kind != "" && need.Kind != "" && need.Kind != writ.KindHeroDB &&
		(c.Kind != writ.KindHeroDB || need.Kind == writ.KindNetwork)
}

// deferred reports whether a group of calls has to wait for a node. Such a group only makes volumes, images and
// networks, no call of the script uses them yet, and the script does not wait for them. A later call that uses them
// then determines the node. Without this rule, a script that reads the address of its database would bind its volume to
// another node than its network. When the script has reached its end, no call is deferred.
func (t *placer) deferred(group []*journal.Call) bool {
	if t.run.Completed {
		return false
	}
	return !slices.ContainsFunc(group, func(c *journal.Call) bool {
		return !isPart(c.Kind) || c.Options.Node != "" || t.wanted[c.Seq] || len(t.boundNodes(c)) > 0
	})
}

// isPart reports whether resources of a kind are useful only to other resources.
func isPart(kind writ.ResourceKind) bool {
	return kind == writ.KindVolume || kind == writ.KindImage || kind == writ.KindNetwork
}

// wantedCalls returns the calls whose results the script waits for, and all calls that these need, by seq.
func wantedCalls(t *Step) map[int]bool {
	wanted, needs := make(map[int]bool), t.calls.needs()
	for next := slices.Clone(t.run.Waiting); len(next) > 0; {
		seq := next[len(next)-1]
		next = next[:len(next)-1]
		if !wanted[seq] {
			wanted[seq] = true
			next = append(next, needs[seq]...)
		}
	}
	return wanted
}

// nearby returns the node that a group with a volume, image or network prefers: the node of the run's youngest image,
// network or unused volume. A later call of the script may use the resources of both. nearby returns "" if the run has
// no such resource on a node, or if the script has reached its end.
func (t *placer) nearby(group []*journal.Call) writ.NodeID {
	if t.run.Completed || !slices.ContainsFunc(group, func(c *journal.Call) bool { return isPart(c.Kind) }) {
		return ""
	}
	if c := t.calls.at(t.nearest); c != nil {
		return c.Node
	}
	return ""
}
