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

// placer gives each claimed call a node. Each placed group reduces the free capacity of its candidate.
type placer struct {
	*Step
	records    placementReader
	candidates []placement.Candidate
	wanted     map[int]bool // see wantedCalls
}

// placeCalls gives every claimed call a node. Calls on resources that must be together form a group and get the same
// node. If one of these resources exists already, the group goes to its node.
func placeCalls(t *Step, records placementReader) error {
	if len(claimedGroups(t)) == 0 {
		return nil
	}
	candidates, err := candidatesFor(t, records)
	if err != nil {
		return err
	}
	places := placer{Step: t, records: records, candidates: candidates, wanted: wantedCalls(t)}
	// if a call fails, the calls that need it fail too, and the rest of its group may fit without them
	for again := true; again; {
		again = false
		for _, group := range claimedGroups(t) {
			if places.deferred(group) {
				for _, c := range group {
					places.delay(c, writ.Reason{Code: writ.ReasonUnused})
				}
				continue
			}
			if err := places.placeGroup(group); err != nil {
				return err
			}
			again = again || slices.ContainsFunc(group, func(c *journal.Call) bool { return c.State.Ended() })
		}
		if err := t.cascade(); err != nil {
			return err
		}
	}
	return nil
}

// candidatesFor returns the candidate nodes with their free capacity.
func candidatesFor(t *Step, records placementReader) ([]placement.Candidate, error) {
	loads, err := records.Loads()
	if err != nil {
		return nil, err
	}
	var candidates []placement.Candidate
	for _, n := range t.Nodes.List() {
		if n.Admission == writ.AdmissionRemoved || n.Admission == writ.AdmissionRejected {
			continue
		}
		load := loads[n.ID]
		candidates = append(candidates, placement.Candidate{Node: n, Free: n.Capacity.Minus(load.Reserved), Open: load.Open()})
	}
	return candidates, addPorts(t, records, candidates)
}

// addLabels adds the labels that a call requests to the request of its group.
func addLabels(w *placement.Request, c *journal.Call) *writ.Error {
	for _, name := range slices.Sorted(maps.Keys(c.Options.Labels)) {
		value := c.Options.Labels[name]
		if has, ok := w.Labels[name]; ok && has != value {
			return writ.Errorf(writ.CodeResourceConflict,
				"the script requests %s on a node with %s=%s, and a related resource on a node with %s=%s",
				describe(c), name, value, name, has).WithHint("give both the same labels")
		}
		w.Labels[name] = value
	}
	return nil
}

// placeGroup finds a node for a group, or sets the reason why no node is suitable.
func (t placer) placeGroup(group []*journal.Call) error {
	var w placement.Request
	w.Labels = make(map[string]string)
	var pinned writ.NodeID
	unplaced := false
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
		if c.Node == "" || t.isClaimed(c) { // capacity and ports of a call that was placed in an earlier step are reserved
			have, err := t.records.Resource(c.Resource())
			if err != nil {
				return err
			}
			w.Ports = append(w.Ports, portsOf(op, c, have)...)
			w.Need = w.Need.Plus(c.Need)
		}
		if node := c.Options.Node; node != "" {
			if name := t.Nodes.Name; w.Node != "" && name(writ.NodeID(w.Node)) != name(writ.NodeID(node)) {
				return t.fail(c, writ.CallFailed,
					writ.Errorf(writ.CodeResourceConflict, "the script requests %s on %s, and a related resource on %s",
						describe(c), node, w.Node).WithHint("name one node for both"))
			}
			w.Node = node
		}
		unplaced = unplaced || c.Node == ""
		for _, node := range t.boundNodes(c) {
			if n, known := t.Nodes.Get(node); !known || n.Admission == writ.AdmissionRemoved {
				return t.fail(c, writ.CallFailed,
					nodeLost(node, "a resource that %s needs was on %s, which was removed", describe(c), t.Nodes.Name(node)).
						WithHint("submit the script again: it creates the missing resources"))
			}
			if pinned != "" && pinned != node {
				return t.fail(c, writ.CallFailed, t.conflictingNodes(c, pinned, node))
			}
			pinned = node
		}
	}
	if !unplaced {
		return t.checkGrowth(group)
	}
	if pinned != "" {
		if w.Node != "" && w.Node != string(pinned) && w.Node != t.Nodes.Name(pinned) {
			return t.fail(group[0], writ.CallFailed,
				writ.Errorf(writ.CodeResourceConflict, "the script requests %s on %s, but the resources that it needs are on %s",
					describe(group[0]), w.Node, t.Nodes.Name(pinned)))
		}
		w.Node, w.Bound = string(pinned), true
	}
	w.Prefer = t.nearby(group)
	v := placement.Choose(w, t.candidates)
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
			t.delayUnplaced(c, v.Why)
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
	for i := range t.candidates {
		if t.candidates[i].ID == v.Node {
			t.candidates[i].Free = t.candidates[i].Free.Minus(w.Need)
			t.candidates[i].Open += len(group)
			t.takePorts(&t.candidates[i], group)
		}
	}
	return nil
}

// unplacedAgain is the minimum age of a ReasonNoNode before it changes. Nodes come and go, and each change would write
// all waiting calls.
const unplacedAgain = 10 * time.Second

// delayUnplaced makes a call wait that has no suitable node now. To save writes, it updates the reason at most every
// unplacedAgain.
func (t placer) delayUnplaced(c *journal.Call, why writ.Reason) {
	if t.touched[c.Seq] || c.Why.Code != writ.ReasonNoNode || t.now.Sub(c.RetryAt).Abs() >= unplacedAgain {
		t.delay(c, why)
	}
}

// checkGrowth fails the calls that need more capacity than the node of their resource has free.
func (t placer) checkGrowth(group []*journal.Call) error {
	for _, c := range group {
		i := slices.IndexFunc(t.candidates, func(s placement.Candidate) bool { return s.ID == c.Node })
		if !t.isClaimed(c) || i < 0 {
			continue
		}
		if refused, err := t.refusePorts(c, t.candidates[i]); refused || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		before := t.claimed[c.Seq]
		delete(t.claimed, c.Seq)
		free := &t.candidates[i].Free
		switch {
		case placement.Fits(c.Need, *free):
		// the free capacity of the node is unknown: it has not reported since the start, or not recently
		case t.candidates[i].Liveness != writ.LivenessReady && !t.candidates[i].NeverFits(c.Need):
			t.waitOn(c, before, writ.Reason{Code: writ.ReasonNode, Node: c.NodeName, State: string(t.candidates[i].Liveness)})
			continue
		default:
			err := writ.Errorf(writ.CodeNoCapacity, "%s %s", c.NodeName, placement.Shortage(c.Need, *free)).
				WithHint("the %s stays on its node: request less, or delete unused resources there (`writ resource list -o wide`)",
					c.Resource())
			if err := t.fail(c, writ.CallFailed, err); err != nil {
				return err
			}
			continue
		}
		*free = free.Minus(c.Need)
		t.takePorts(&t.candidates[i], []*journal.Call{c})
	}
	return nil
}

// refusePorts fails a call that publishes ports that its resource cannot have on its node, and reports whether it did.
func (t placer) refusePorts(c *journal.Call, on placement.Candidate) (bool, error) {
	op, _ := catalog.Lookup(c.Operation)
	have, err := t.records.Resource(c.Resource())
	if err != nil {
		return false, err
	}
	refused := placement.PortError(portsOf(op, c, have), on)
	if refused == nil {
		return false, nil
	}
	delete(t.claimed, c.Seq)
	return true, t.fail(c, writ.CallFailed, refused)
}

// takePorts marks the ports that calls publish as taken on their node.
func (t placer) takePorts(on *placement.Candidate, calls []*journal.Call) {
	for _, c := range calls {
		for _, p := range catalog.Publishing(c.Args["publish"]) {
			take(on, p, userOf(c.Resource(), t.run.Project))
		}
	}
}

// conflictingNodes returns the error of a call that is bound to two nodes.
func (t placer) conflictingNodes(c *journal.Call, a, b writ.NodeID) *writ.Error {
	err := writ.Errorf(writ.CodeResourceConflict, "%s needs resources on different nodes, %s and %s", describe(c),
		t.Nodes.Name(a), t.Nodes.Name(b))
	if len(reportingNodes(t.Step, c)) > 0 {
		return err.WithHint("the journal came from a backup, and a node has reported this call: inspect the resources on both nodes")
	}
	if at := t.splitAt(c); at != "" {
		return err.WithHint("%s", splitHint(at))
	}
	return err
}

// splitAt returns the position at which the script read a result before it requested a call, so that the needs of the
// call were placed without it. If this run made these needs in several passes, splitAt returns the last read before the
// youngest need. It returns "" if this run made none of the needs.
func (t placer) splitAt(c *journal.Call) string {
	var made []*journal.Call
	for _, seq := range t.calls.colocated(c) {
		need := t.calls.at(seq)
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
	return "the script reads a result at " + at + ", so the calls before that were placed without the later ones: " +
		"edit it to request all related resources before it reads a result, or give each call the same option node. " +
		"Existing resources stay on their nodes: delete them first, or copy them with volume.copy"
}

// boundNodes returns the nodes that bind a call: its own node, nodes that reported the call after a restore, and the
// nodes of its needs.
func (t placer) boundNodes(c *journal.Call) []writ.NodeID {
	var nodes []writ.NodeID
	if c.Node != "" {
		nodes = append(nodes, c.Node)
	}
	nodes = append(nodes, reportingNodes(t.Step, c)...)
	for _, seq := range t.calls.colocated(c) {
		if need := t.calls.at(seq); need != nil && need.Node != "" && together(c, need) {
			nodes = append(nodes, need.Node)
		}
	}
	return nodes
}
