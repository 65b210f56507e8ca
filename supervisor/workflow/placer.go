package workflow

import (
	"maps"
	"slices"
	"time"

	"writ"
	"writ/sal/catalog"
	"writ/supervisor/journal"
	"writ/supervisor/placement"
)

// placer gives each claimed call a node.
type placer struct{ *Step }

// placeCalls gives every claimed call a node. Calls on resources that must be together form a group and get the same
// node. If one of these resources exists already, the group goes to its node.
func (t placer) placeCalls(g ground) error {
	if len(t.groups()) == 0 {
		return nil
	}
	seats, err := t.seats(g)
	if err != nil {
		return err
	}
	// if a call fails, the calls that need it fail too, and the rest of its group may fit without them
	for again := true; again; {
		again = false
		for _, group := range t.groups() {
			if err := t.placeGroup(group, seats); err != nil {
				return err
			}
			again = again || slices.ContainsFunc(group, func(c *journal.Call) bool { return c.State.Ended() })
		}
		if err := (ender(t)).cascade(); err != nil {
			return err
		}
	}
	return nil
}

// seats returns the candidate nodes with their free capacity.
func (t placer) seats(g ground) ([]placement.Candidate, error) {
	loads, err := g.Loads()
	if err != nil {
		return nil, err
	}
	var seats []placement.Candidate
	for _, n := range t.Nodes.List() {
		if n.Admission == writ.AdmissionRemoved || n.Admission == writ.AdmissionRejected {
			continue
		}
		load := loads[n.ID]
		seats = append(seats, placement.Candidate{Node: n, Free: n.Capacity.Minus(load.Reserved), Open: load.Open()})
	}
	return seats, nil
}

// groups returns the calls to place, grouped by calls that need the same node. Groups with an unclaimed call are
// omitted.
func (t placer) groups() [][]*journal.Call {
	return slices.DeleteFunc(t.connected(), func(group []*journal.Call) bool {
		return slices.ContainsFunc(group, func(c *journal.Call) bool { return !c.Claimed })
	})
}

// connected returns the planned calls that were not yet ready to be sent, grouped by calls that need the same node.
func (t placer) connected() [][]*journal.Call {
	parent := make(map[int]int)
	find := func(seq int) int {
		for parent[seq] != seq {
			seq = parent[seq]
		}
		return seq
	}
	var waiting []*journal.Call
	for _, c := range t.calls {
		if c.State == writ.CallPlanned && !c.Ready && t.run.Stop == nil {
			parent[c.Seq] = c.Seq
			waiting = append(waiting, c)
		}
	}
	for _, c := range waiting {
		for _, seq := range slices.Concat(transfer(t).near(c), c.Orders) {
			if _, ok := parent[seq]; ok && together(c, t.call(seq)) {
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

// together reports whether a call must be on the node of its need. A database is reached by its address and binds no
// call, and a database itself is bound only by its network.
func together(c, need *journal.Call) bool {
	return c.Kind != "" && need.Kind != "" && need.Kind != writ.KindHeroDB &&
		(c.Kind != writ.KindHeroDB || need.Kind == writ.KindNetwork)
}

// addLabels adds the labels that a call requests to the request of its group.
func addLabels(w *placement.Request, c *journal.Call) *writ.Error {
	for _, name := range slices.Sorted(maps.Keys(c.Options.Labels)) {
		value := c.Options.Labels[name]
		if has, ok := w.Labels[name]; ok && has != value {
			return writ.Errorf(writ.CodeResourceConflict,
				"%s is asked for on a node with %s=%s, and something that it goes with on one with %s=%s",
				describe(c), name, value, name, has).WithHint("give both the same labels")
		}
		w.Labels[name] = value
	}
	return nil
}

// placeGroup finds a node for a group, or sets the reason why no node is suitable.
func (t placer) placeGroup(group []*journal.Call, seats []placement.Candidate) error {
	var w placement.Request
	w.Labels = make(map[string]string)
	var pinned writ.NodeID
	homeless := false
	for _, c := range group {
		op, _ := catalog.Lookup(c.Operation)
		if c.Node == "" { // an existing resource stays on its node, even if the node no longer matches
			w.Modules = append(w.Modules, op.Module)
			if err := addLabels(&w, c); err != nil {
				return t.fail(c, writ.CallFailed, err)
			}
		}
		if names, version := op.Args.EngineOf(c.Args); op.Effect == catalog.Make && (len(names) > 0 || version != "") {
			w.Engines = append(w.Engines, placement.EngineRequest{Module: op.Module, Names: names, Version: version})
		}
		if c.Node == "" || t.isClaimed(c) { // capacity of a call that was placed in an earlier step is reserved already
			w.Need = w.Need.Plus(c.Need)
		}
		if node := c.Options.Node; node != "" {
			if name := t.Nodes.Name; w.Node != "" && name(writ.NodeID(w.Node)) != name(writ.NodeID(node)) {
				return t.fail(c, writ.CallFailed,
					writ.Errorf(writ.CodeResourceConflict, "%s is asked for on %s, and something that it goes with on %s",
						describe(c), node, w.Node).WithHint("name one node for both"))
			}
			w.Node = node
		}
		homeless = homeless || c.Node == ""
		for _, node := range t.homes(c) {
			if n, known := t.Nodes.Get(node); !known || n.Admission == writ.AdmissionRemoved {
				return t.fail(c, writ.CallFailed,
					nodeLost(node, "what %s needs was on %s, which was removed", describe(c), t.Nodes.Name(node)).
						WithHint("hand the script in again: it makes what is missing anew"))
			}
			if pinned != "" && pinned != node {
				return t.fail(c, writ.CallFailed, t.torn(c, pinned, node))
			}
			pinned = node
		}
	}
	if !homeless {
		return t.checkGrowth(group, seats)
	}
	if pinned != "" {
		if w.Node != "" && w.Node != string(pinned) && w.Node != t.Nodes.Name(pinned) {
			return t.fail(group[0], writ.CallFailed,
				writ.Errorf(writ.CodeResourceConflict, "%s is asked for on %s, but what it needs is on %s",
					describe(group[0]), w.Node, t.Nodes.Name(pinned)))
		}
		w.Node, w.Bound = string(pinned), true
	}
	v := placement.Choose(w, seats)
	v.Bound = w.Bound
	for _, c := range group {
		if t.verdicts != nil {
			t.verdicts[c.Seq] = v
		}
		switch {
		case v.Node != "":
			t.pin(c, v.Node)
			delete(t.claimed, c.Seq)
			c.Why, c.RetryAt = writ.Reason{}, time.Time{}
			t.touch(c)
		case v.Later:
			t.delayHomeless(c, v.Why)
		default:
			why := placement.NoCapacity(w, v)
			if at := t.splitAt(c); pinned != "" && at != "" {
				why = why.WithHint("%s", splitHint(at))
			}
			if err := t.fail(c, writ.CallFailed, why); err != nil {
				return err
			}
		}
	}
	for i := range seats {
		if seats[i].ID == v.Node {
			seats[i].Free = seats[i].Free.Minus(w.Need)
			seats[i].Open += len(group)
		}
	}
	return nil
}

// homelessAgain is the minimum age of a ReasonNoNode before it changes. Nodes come and go, and each change would write
// all waiting calls.
const homelessAgain = 10 * time.Second

// delayHomeless makes a call wait that has no suitable node now. To save writes, it updates the reason at most every
// homelessAgain.
func (t placer) delayHomeless(c *journal.Call, why writ.Reason) {
	if t.touched[c.Seq] || c.Why.Code != writ.ReasonNoNode || t.now.Sub(c.RetryAt).Abs() >= homelessAgain {
		t.delay(c, why)
	}
}

// checkGrowth fails the calls that need more capacity than the node of their resource has free.
func (t placer) checkGrowth(group []*journal.Call, seats []placement.Candidate) error {
	for _, c := range group {
		i := slices.IndexFunc(seats, func(s placement.Candidate) bool { return s.ID == c.Node })
		if !t.isClaimed(c) || i < 0 {
			continue
		}
		before := t.claimed[c.Seq]
		delete(t.claimed, c.Seq)
		free := &seats[i].Free
		switch {
		case placement.Fits(c.Need, *free):
		// its free capacity is unknown: it has not reported since the start, or not recently
		case seats[i].Liveness != writ.LivenessReady && !seats[i].NeverFits(c.Need):
			t.waitOn(c, before, writ.Reason{Code: writ.ReasonNode, Node: c.NodeName, State: string(seats[i].Liveness)})
			continue
		default:
			err := writ.Errorf(writ.CodeNoCapacity, "%s %s more", c.NodeName, placement.Shortage(c.Need, *free)).
				WithHint("the %s stays on its node: request less, or delete unused resources there (writ resource list -o wide)",
					c.Resource())
			if err := t.fail(c, writ.CallFailed, err); err != nil {
				return err
			}
			continue
		}
		*free = free.Minus(c.Need)
	}
	return nil
}

// torn returns the error of a call that is bound to two nodes.
func (t placer) torn(c *journal.Call, a, b writ.NodeID) *writ.Error {
	err := writ.Errorf(writ.CodeResourceConflict, "%s needs things that are on different nodes, %s and %s", describe(c),
		t.Nodes.Name(a), t.Nodes.Name(b))
	if len(waiter(t).holders(c)) > 0 {
		return err.WithHint("the journal came from a backup, and a node has this call from before: look at what is on both")
	}
	if at := t.splitAt(c); at != "" {
		return err.WithHint("%s", splitHint(at))
	}
	return err
}

// splitAt returns the position where the script read a result and thereby separated a call from the needs that this run
// made: the last read before the youngest need or, if all needs were planned in one pass, before the call. It returns
// "" if the run made none of the needs.
func (t placer) splitAt(c *journal.Call) string {
	var made []*journal.Call
	for _, seq := range (transfer(t)).near(c) {
		need := t.call(seq)
		op, _ := catalog.Lookup(need.Operation)
		fresh := need.Change == writ.ChangeCreated || !need.State.Ended()
		if need.Node != "" && together(c, need) && op.Effect == catalog.Make && fresh && need.Planned.Before(c.Planned) {
			made = append(made, need)
		}
	}
	if len(made) == 0 {
		return ""
	}
	if youngest := made[len(made)-1]; youngest.Planned.After(made[0].Planned) && youngest.Read != "" {
		return youngest.Read
	}
	return c.Read
}

func splitHint(at string) string {
	return "the script reads a result at " + at + ", so what it had asked for until then got its node without the rest: " +
		"edit it to ask for all that goes together first and read results after that, or give each call the same option node. " +
		"What was made stays on its node: delete it before, or copy it with volume.copy"
}

// homes returns the nodes that bind a call: its own node, nodes that reported the call after a restore, and the nodes
// of its needs.
func (t placer) homes(c *journal.Call) []writ.NodeID {
	var nodes []writ.NodeID
	if c.Node != "" {
		nodes = append(nodes, c.Node)
	}
	nodes = append(nodes, waiter(t).holders(c)...)
	for _, seq := range (transfer(t)).near(c) {
		if need := t.call(seq); need != nil && need.Node != "" && together(c, need) {
			nodes = append(nodes, need.Node)
		}
	}
	return nodes
}
