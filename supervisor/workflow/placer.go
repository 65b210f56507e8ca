package workflow

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"writ"
	"writ/sal/catalog"
	"writ/supervisor/journal"
	"writ/supervisor/placement"
	"writ/supervisor/published"
)

// placer gives each claimed call a node. Each placed group reduces the free capacity of its candidate.
type placer struct {
	*Step
	records    placementReader
	candidates []placement.Candidate
	wanted     map[int]bool // see wantedCalls
	nearest    int          // seq of the youngest part with a node, 0 if all wait; see nearby
}

// placeCalls gives every claimed call a node. Calls on resources that must be together form a group and get the same
// node. If one of these resources exists already, the group goes to its node.
func placeCalls(t *Step, records placementReader) error {
	claimed := claimedGroups(t)
	if len(claimed) == 0 {
		return nil
	}
	candidates, err := candidatesFor(t, records)
	if err != nil {
		return err
	}
	places := placer{Step: t, records: records, candidates: candidates, wanted: wantedCalls(t)}
	t.calls.parts.update(&t.calls)
	for _, seq := range slices.Backward(t.calls.parts.seqs) {
		if t.calls.at(seq).Node != "" {
			places.nearest = seq
			break
		}
	}
	// if calls fail, the calls that need them fail too, and the rest of their group may fit without them
	for len(claimed) > 0 {
		again := false
		for _, group := range claimed {
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
		if err := t.cascade(); err != nil || !again {
			return err
		}
		claimed = claimedGroups(t)
	}
	return nil
}

// approach updates nearest with the calls of a group that have a node.
func (t *placer) approach(group []*journal.Call) {
	for _, c := range group {
		if _, isPart := slices.BinarySearch(t.calls.parts.seqs, c.Seq); isPart && c.Node != "" {
			t.nearest = max(t.nearest, c.Seq)
		}
	}
}

// candidate returns the candidate of a node, or nil. A map would cost more: most steps place one call.
func candidate(all []placement.Candidate, node writ.NodeID) *placement.Candidate {
	for i := range all {
		if all[i].ID == node {
			return &all[i]
		}
	}
	return nil
}

// candidatesFor returns the candidate nodes with their free capacity. The capacity of calls that have ended in this
// step is free: the resources that they made are already counted.
func candidatesFor(t *Step, records placementReader) ([]placement.Candidate, error) {
	loads, err := records.Loads()
	if err != nil {
		return nil, err
	}
	nodes := t.Nodes.Shared()
	candidates := make([]placement.Candidate, 0, len(nodes))
	for _, n := range nodes {
		if n.Admission == writ.AdmissionRemoved || n.Admission == writ.AdmissionRejected {
			continue
		}
		load := loads[n.ID]
		candidates = append(candidates, placement.Candidate{Node: n, Free: n.Capacity.Minus(load.Reserved), Open: load.Open()})
	}
	for node, load := range journal.EndedLoads(t.calls.live) {
		if c := candidate(candidates, node); c != nil {
			c.Free, c.Open = c.Free.Plus(load.Reserved), c.Open-load.Open()
		}
	}
	return candidates, addPorts(t, records, candidates)
}

// conflictingLabels returns an error if a call requests other labels than its group.
func conflictingLabels(w *placement.Request, c *journal.Call) *writ.Error {
	for _, name := range slices.Sorted(maps.Keys(c.Options.Labels)) {
		value := c.Options.Labels[name]
		if has, ok := w.Labels[name]; ok && has != value {
			return writ.Errorf(writ.CodeResourceConflict,
				"the script requests %s on a node with %s=%s, and a related resource on a node with %s=%s",
				describe(c), name, value, name, has).WithHint("give both the same labels")
		}
	}
	return nil
}

// groupRequest is the request of a group of calls.
type groupRequest struct {
	placement.Request
	pinned   writ.NodeID // node that binds the group, "" if none
	unplaced bool        // a call has no node yet
}

// request returns the request of a group, nil if calls of the group failed. It fails every call that conflicts with an
// earlier call, so that a group with many conflicts is read twice and not once per conflict.
func (t *placer) request(group []*journal.Call) (*groupRequest, error) {
	w := &groupRequest{Request: placement.Request{Labels: make(map[string]string)}}
	failed := false
	for _, c := range group {
		if failed && failedNeed(&t.calls, c) != nil { // the call fails with its need
			continue
		}
		why, bound := t.conflict(w, c)
		if why != nil {
			if err := t.fail(c, writ.CallFailed, why); err != nil {
				return nil, err
			}
			failed = true
			continue
		}
		if err := t.addTo(w, c); err != nil {
			return nil, err
		}
		w.pinned = bound
	}
	if failed {
		return nil, nil
	}
	return w, nil
}

// conflict returns the error of a call that cannot be on one node with the earlier calls of its group. Without a
// conflict, it returns the node that binds the group with this call, "" if no node does.
func (t *placer) conflict(w *groupRequest, c *journal.Call) (err *writ.Error, bound writ.NodeID) {
	if c.Node == "" {
		if err := conflictingLabels(&w.Request, c); err != nil {
			return err, ""
		}
	}
	name := t.Nodes.Name
	if node := c.Options.Node; node != "" && w.Node != "" && name(writ.NodeID(w.Node)) != name(writ.NodeID(node)) {
		return writ.Errorf(writ.CodeResourceConflict, "the script requests %s on %s, and a related resource on %s",
			describe(c), node, w.Node).WithHint("name one node for both"), ""
	}
	bound = w.pinned
	for _, node := range t.boundNodes(c) {
		if n, known := t.Nodes.Get(node); !known || n.Admission == writ.AdmissionRemoved {
			return nodeLost(node, "a resource that %s needs was on %s, which was removed", describe(c), name(node)).
				WithHint("submit the script again: it creates the missing resources"), ""
		}
		if bound != "" && bound != node {
			return t.conflictingNodes(c, bound, node), ""
		}
		bound = node
	}
	return nil, bound
}

// addTo adds a call to the request of its group.
func (t *placer) addTo(w *groupRequest, c *journal.Call) error {
	op, _ := catalog.Lookup(c.Operation)
	if c.Node == "" { // an existing resource stays on its node, even if the node no longer matches
		if !slices.Contains(w.Modules, op.Module) {
			w.Modules = append(w.Modules, op.Module)
		}
		maps.Copy(w.Labels, c.Options.Labels)
	}
	if names, version := op.Args.EngineOf(c.Args); op.Effect == catalog.Make && (len(names) > 0 || version != "") {
		w.Engines = append(w.Engines, placement.EngineRequest{Module: op.Module, Names: names, Version: version})
	}
	if c.Node == "" || t.isClaimed(c) { // the capacity and ports of other calls are reserved already
		have, err := t.records.Resource(c.Resource())
		if err != nil {
			return err
		}
		w.Ports = append(w.Ports, portsOf(op, c, have)...)
		init, devices := partsOf(c, have)
		w.Init, w.Devices = w.Init || init, append(w.Devices, devices...)
		w.Need = w.Need.Plus(c.Need)
	}
	w.Node = cmp.Or(c.Options.Node, w.Node)
	w.unplaced = w.unplaced || c.Node == ""
	return nil
}

// placeGroup finds a node for a group, or sets the reason why no node is suitable.
func (t *placer) placeGroup(group []*journal.Call) error {
	w, err := t.request(group)
	if w == nil || err != nil {
		return err
	}
	if !w.unplaced {
		return t.checkGrowth(group)
	}
	if w.pinned != "" {
		if w.Node != "" && w.Node != string(w.pinned) && w.Node != t.Nodes.Name(w.pinned) {
			return failElsewhere(t.Step, group, w.pinned)
		}
		w.Node, w.Bound = string(w.pinned), true
	}
	w.Prefer = t.nearby(group)
	v := placement.Choose(w.Request, t.candidates)
	v.Bound = w.Bound
	if v.Node == "" && !v.Later {
		return t.failUnplaced(group, w, v)
	}
	for _, c := range group {
		setVerdict(t.Step, c, v)
		if v.Node == "" {
			t.delayUnplaced(c, v.Why)
			continue
		}
		t.pin(c, v.Node)
		delete(t.claimed, c.Seq)
		c.Why, c.RetryAt = writ.Reason{}, time.Time{}
		t.touch(c)
	}
	if chosen := candidate(t.candidates, v.Node); chosen != nil {
		chosen.Free = chosen.Free.Minus(w.Need)
		chosen.Open += len(group)
		t.takePorts(chosen, group)
		t.approach(group)
	}
	return nil
}

// setVerdict records the decision about a call for a preview.
func setVerdict(t *Step, c *journal.Call, v placement.Decision) {
	if t.verdicts != nil {
		t.verdicts[c.Seq] = v
	}
}

// failElsewhere fails the calls of a group that request a node, because resources bind the group to the node `pinned`.
func failElsewhere(t *Step, group []*journal.Call, pinned writ.NodeID) error {
	for _, c := range group {
		if c.Options.Node == "" {
			continue
		}
		err := t.fail(c, writ.CallFailed,
			writ.Errorf(writ.CodeResourceConflict, "the script requests %s on %s, but the resources that it needs are on %s",
				describe(c), c.Options.Node, t.Nodes.Name(pinned)))
		if err != nil {
			return err
		}
	}
	return nil
}

// failUnplaced fails a group without a suitable node.
func (t *placer) failUnplaced(group []*journal.Call, w *groupRequest, v placement.Decision) error {
	none := placement.NoCapacity(w.Request, v)
	elsewhere := w.Request
	elsewhere.Node, elsewhere.Bound = "", false
	split := w.pinned != "" && placement.Choose(elsewhere, t.candidates).Node != ""
	for _, c := range group {
		setVerdict(t.Step, c, v)
		why := *none
		if split {
			if at := t.splitAt(c); at != "" {
				why.Hint = splitHint(at)
			}
		}
		if err := t.fail(c, writ.CallFailed, &why); err != nil {
			return err
		}
	}
	return nil
}

// unplacedAgain is the minimum age of a ReasonNoNode before it changes. The states of nodes change often, and each
// change of the reason writes all waiting calls.
const unplacedAgain = 10 * time.Second

// delayUnplaced makes a call wait that has no suitable node now. To save writes, it updates the reason at most every
// unplacedAgain.
func (t *placer) delayUnplaced(c *journal.Call, why writ.Reason) {
	if t.touched[c.Seq] || c.Why.Code != writ.ReasonNoNode || t.now.Sub(c.RetryAt).Abs() >= unplacedAgain {
		t.delay(c, why)
	}
}

// checkGrowth fails the calls that need more capacity than the node of their resource has free.
func (t *placer) checkGrowth(group []*journal.Call) error {
	for _, c := range group {
		on := candidate(t.candidates, c.Node)
		if on == nil || !t.isClaimed(c) {
			continue
		}
		if refused, err := t.refuseOn(c, on); refused || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		before := t.claimed[c.Seq]
		delete(t.claimed, c.Seq)
		switch {
		case placement.Fits(c.Need, on.Free):
		// the free capacity of the node is unknown: it has not reported since the start, or not recently
		case on.Liveness != writ.LivenessReady && !on.NeverFits(c.Need):
			t.waitOn(c, before, writ.Reason{Code: writ.ReasonNode, Node: c.NodeName, State: string(on.Liveness)})
			continue
		default:
			if err := failGrowth(t, c, on); err != nil {
				return err
			}
			continue
		}
		on.Free = on.Free.Minus(c.Need)
		t.takePorts(on, []*journal.Call{c})
	}
	return nil
}

// failGrowth fails a call that needs more capacity than its node has.
func failGrowth(t *placer, c *journal.Call, on *placement.Candidate) error {
	have, err := t.records.Resource(c.Resource())
	if err != nil {
		return err
	}
	var before writ.Capacity
	op, _ := catalog.Lookup(c.Operation)
	if have != nil && !op.Measured { // archives can be deleted
		before = have.Need
	}
	hint := "request less, or delete unused resources there (`writ resource list -o wide`)"
	if on.NeverFits(before.Plus(c.Need)) {
		hint = "request less, or create another one on a larger node"
	}
	return t.fail(c, writ.CallFailed, writ.Errorf(writ.CodeNoCapacity, "%s %s", c.NodeName, on.Growth(before, c.Need)).
		WithHint("the %s stays on its node: %s", c.Resource(), hint))
}

// refuseOn fails a call that requests ports, an init process or devices that its resource cannot have on its node. It
// reports whether it failed the call.
func (t *placer) refuseOn(c *journal.Call, on *placement.Candidate) (bool, error) {
	op, _ := catalog.Lookup(c.Operation)
	have, err := t.records.Resource(c.Resource())
	if err != nil {
		return false, err
	}
	refused := placement.PortError(portsOf(op, c, have), on)
	if refused == nil {
		init, devices := partsOf(c, have)
		refused = placement.PartError(init, devices, on)
	}
	if refused == nil {
		return false, nil
	}
	delete(t.claimed, c.Seq)
	return true, t.fail(c, writ.CallFailed, refused)
}

// takePorts marks the ports that calls publish as taken on their node.
func (t *placer) takePorts(on *placement.Candidate, calls []*journal.Call) {
	for _, c := range calls {
		claimPorts(on, published.In(c.Args["publish"]), c.Resource(), t.run.Project)
	}
}

// conflictingNodes returns the error of a call that is bound to two nodes.
func (t *placer) conflictingNodes(c *journal.Call, a, b writ.NodeID) *writ.Error {
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

// splitAt returns the position at which the script read a result before it requested a call. Because of this read, the
// needs of the call were placed without the call. If this run made these needs in several passes, splitAt returns the
// last read before the youngest need. It returns "" if this run made none of the needs.
func (t *placer) splitAt(c *journal.Call) string {
	var made []*journal.Call
	for _, seq := range t.calls.colocated(c) {
		need := t.calls.at(seq)
		if need == nil {
			continue
		}
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
func (t *placer) boundNodes(c *journal.Call) []writ.NodeID {
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
