package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"writ"
)

// Choose selects the node for a request. Among the suitable nodes it prefers the fewest containers that share a port of
// the request, then the node Prefer. It then prefers the fewest open calls, the most free memory, the most free disk,
// and the first name.
func Choose(r Request, nodes []Candidate) Decision {
	r.twice, r.labels, r.explain = repeated(r.Ports), slices.Sorted(maps.Keys(r.Labels)), false
	best, fit := -1, 0
	for i := range nodes {
		// A comparison is cheaper than refuse, which decides only about nodes that would be the best. The first two suitable
		// nodes show whether there is a choice.
		better := best < 0 || compare(&r, &nodes[i], &nodes[best]) < 0
		if !better && fit > 1 {
			continue
		}
		if against, _ := refuse(&r, &nodes[i]); against.Code != "" {
			continue
		}
		if fit++; better {
			best = i
		}
	}
	if best >= 0 {
		return Decision{Node: nodes[best].ID, Only: fit == 1, Preferred: nodes[best].ID == r.Prefer}
	}
	r.explain = true
	return none(&r, nodes)
}

// none returns the decision of Choose if no node is suitable.
func none(r *Request, nodes []Candidate) (d Decision) {
	if len(nodes) == 0 {
		d.Later, d.Why = true, writ.Reason{Code: writ.ReasonNoNode, Text: "the datacenter has no nodes yet"}
		return d
	}
	for i := range nodes {
		against, later := refuse(r, &nodes[i])
		d.Later = d.Later || later
		if r.Node != "" && against.Code == writ.VerdictOtherNode { // the reason omits nodes that were not requested
			continue
		}
		against.Node, against.Name = nodes[i].ID, nodes[i].Name
		d.Unsuitable = append(d.Unsuitable, against)
	}
	d.Why = reasonOf(d.Unsuitable)
	if len(d.Unsuitable) == 0 {
		d.Why.Text = fmt.Sprintf("the datacenter has no node %s, it has %s", r.Node, namesOf(nodes))
	}
	return d
}

// compare orders suitable nodes, the best one first. It is called for each node, and most nodes differ in their open
// calls.
func compare(r *Request, a, b *Candidate) int {
	order := 0
	if len(r.Ports) > 0 {
		order = cmp.Compare(a.sharers(r.Ports), b.sharers(r.Ports))
	}
	if order == 0 && r.Prefer != "" {
		order = preferring(r.Prefer, a, b)
	}
	if order == 0 {
		order = cmp.Compare(a.Open, b.Open)
	}
	if order != 0 {
		return order
	}
	return cmp.Or(cmp.Compare(b.Free.MemoryMiB, a.Free.MemoryMiB), cmp.Compare(b.Free.DiskGiB, a.Free.DiskGiB),
		cmp.Compare(a.Name, b.Name))
}

// preferring compares two nodes: the preferred node is less than any other node.
func preferring(prefer writ.NodeID, a, b *Candidate) int {
	switch {
	case a.ID == b.ID:
		return 0
	case a.ID == prefer:
		return -1
	case b.ID == prefer:
		return 1
	}
	return 0
}

// refuse returns the reason why a node is unsuitable, or an empty code for a suitable node. `later` is set if the
// obstacle may pass by itself.
func refuse(r *Request, c *Candidate) (against writ.NodeVerdict, later bool) {
	if r.Node != "" && r.Node != c.Name && r.Node != string(c.ID) {
		return unsuitable(writ.VerdictOtherNode, "is not the node that was asked for"), false
	}
	if c.Admission != writ.AdmissionApproved {
		return r.unsuitable(writ.VerdictNotApproved, func() string { return "is " + string(c.Admission) }),
			c.Admission == writ.AdmissionPending
	}
	for _, module := range r.Modules {
		driver := driverOf(c, module)
		switch {
		case driver == nil && len(c.Drivers) > 0:
			return r.unsuitable(writ.VerdictNoDriver, func() string { return "has no driver for " + module }), false
		case driver != nil && driver.Lacks != "":
			return r.unsuitable(writ.VerdictNoDriver,
				func() string { return "has no driver for " + module + ", because it lacks " + driver.Lacks }), false
		}
	}
	for _, e := range r.Engines {
		if !e.isOffered(c) {
			return r.unsuitable(writ.VerdictNoEngine, func() string { return e.refusal(c) }), false
		}
	}
	if against := refuseParts(r.Init, r.Devices, c); against.Code != "" {
		return against, false
	}
	for _, name := range r.labels {
		if has, ok := c.Labels[name]; !ok || has != r.Labels[name] {
			against := writ.NodeVerdict{Code: writ.VerdictNoLabel}
			if r.explain {
				against.Label = name + "=" + r.Labels[name]
				against.Reason = "has no label " + against.Label
			}
			return against, false
		}
	}
	if against := refuseClosed(r.Ports, c); against.Code != "" {
		return against, false
	}
	return refuseNow(r, c)
}

// driverOf returns the driver of a node for a module, or nil.
func driverOf(c *Candidate, module string) *writ.NodeDriver {
	for i := range c.Drivers {
		if c.Drivers[i].Module == module {
			return &c.Drivers[i]
		}
	}
	return nil
}

// refuseNow returns the reason why the size or the present state of a node makes it unsuitable.
func refuseNow(r *Request, c *Candidate) (against writ.NodeVerdict, later bool) {
	taken := refuseTaken(r.Ports, r.twice, c)
	switch {
	case c.NeverFits(r.Need):
		return r.unsuitable(writ.VerdictTooSmall,
			func() string { return "is too small: " + shortage(r.Need, c.Capacity, "in all", "needed") }), false
	case taken.Code != "":
		return taken, false
	case c.Liveness != writ.LivenessReady:
		return r.unsuitable(writ.VerdictNotReady, func() string { return "is " + string(c.Liveness) }), true
	case c.Fault != "":
		return r.unsuitable(writ.VerdictFaulty, func() string { return "takes no work: " + c.Fault }), true
	case c.Scheduling != writ.SchedulingOpen && !r.Bound:
		return r.unsuitable(writ.VerdictClosed, func() string { return "is " + string(c.Scheduling) }), true
	case !Fits(r.Need, c.Free):
		return r.unsuitable(writ.VerdictFull, func() string { return Shortage(r.Need, c.Free) }), false
	}
	return writ.NodeVerdict{}, false
}

// unsuitable returns a refusal. It has a reason only if r.explain is set.
func (r *Request) unsuitable(code writ.VerdictCode, reason func() string) writ.NodeVerdict {
	if !r.explain {
		return writ.NodeVerdict{Code: code}
	}
	return unsuitable(code, reason())
}

func unsuitable(code writ.VerdictCode, reason string) writ.NodeVerdict {
	return writ.NodeVerdict{Code: code, Reason: reason}
}
