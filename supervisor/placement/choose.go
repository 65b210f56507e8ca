package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"writ"
)

// Choose selects the node for a request. Among the suitable nodes it prefers the fewest containers that share a port of
// the request, then the node Prefer, then the fewest open calls, then the most free memory, then the most free disk,
// then the first name.
func Choose(r Request, nodes []Candidate) Decision {
	r.twice = repeated(r.Ports)
	var fit []Candidate
	var d Decision
	for _, c := range nodes {
		against, later := refuse(r, c)
		if against.Code == "" {
			fit = append(fit, c)
			continue
		}
		d.Later = d.Later || later
		against.Node, against.Name = c.ID, c.Name
		d.Unsuitable = append(d.Unsuitable, against)
	}
	if len(fit) > 0 {
		best := slices.MinFunc(fit, func(a, b Candidate) int {
			return cmp.Or(cmp.Compare(a.sharers(r.Ports), b.sharers(r.Ports)), preferring(r.Prefer, a, b),
				cmp.Compare(a.Open, b.Open), cmp.Compare(b.Free.MemoryMiB, a.Free.MemoryMiB),
				cmp.Compare(b.Free.DiskGiB, a.Free.DiskGiB), cmp.Compare(a.Name, b.Name))
		})
		return Decision{Node: best.ID, Fit: len(fit), Unsuitable: d.Unsuitable, Preferred: best.ID == r.Prefer}
	}
	if len(nodes) == 0 {
		d.Later, d.Why = true, writ.Reason{Code: writ.ReasonNoNode, Text: "the datacenter has no nodes yet"}
		return d
	}
	if r.Node != "" { // nodes other than the requested one are not a reason
		d.Unsuitable = slices.DeleteFunc(d.Unsuitable,
			func(a writ.NodeVerdict) bool { return a.Code == writ.VerdictOtherNode })
	}
	d.Why = reasonOf(d.Unsuitable)
	if len(d.Unsuitable) == 0 {
		d.Why.Text = fmt.Sprintf("the datacenter has no node %s, it has %s", r.Node, namesOf(nodes))
	}
	return d
}

// preferring compares two nodes: the preferred one is less than any other.
func preferring(prefer writ.NodeID, a, b Candidate) int {
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
func refuse(r Request, c Candidate) (against writ.NodeVerdict, later bool) {
	if r.Node != "" && r.Node != c.Name && r.Node != string(c.ID) {
		return unsuitable(writ.VerdictOtherNode, "is not the node that was asked for"), false
	}
	if c.Admission != writ.AdmissionApproved {
		return unsuitable(writ.VerdictNotApproved, "is "+string(c.Admission)), c.Admission == writ.AdmissionPending
	}
	for _, module := range r.Modules {
		i := slices.IndexFunc(c.Drivers, func(d writ.NodeDriver) bool { return d.Module == module })
		switch {
		case i < 0 && len(c.Drivers) > 0:
			return unsuitable(writ.VerdictNoDriver, "has no driver for "+module), false
		case i >= 0 && c.Drivers[i].Lacks != "":
			return unsuitable(writ.VerdictNoDriver, "has no driver for "+module+", for want of "+c.Drivers[i].Lacks), false
		}
	}
	for _, e := range r.Engines {
		if reason := e.refusal(c); reason != "" {
			return unsuitable(writ.VerdictNoEngine, reason), false
		}
	}
	if against := refuseParts(r.Init, r.Devices, c); against.Code != "" {
		return against, false
	}
	for _, name := range slices.Sorted(maps.Keys(r.Labels)) {
		if has, ok := c.Labels[name]; !ok || has != r.Labels[name] {
			label := name + "=" + r.Labels[name]
			return writ.NodeVerdict{Code: writ.VerdictNoLabel, Label: label, Reason: "has no label " + label}, false
		}
	}
	if against := refuseClosed(r.Ports, c); against.Code != "" {
		return against, false
	}
	return refuseNow(r, c)
}

// refuseNow returns the reason why the size or the present state of a node makes it unsuitable.
func refuseNow(r Request, c Candidate) (against writ.NodeVerdict, later bool) {
	taken := refuseTaken(r.Ports, r.twice, c)
	switch {
	case c.NeverFits(r.Need):
		return unsuitable(writ.VerdictTooSmall, "is too small: "+shortage(r.Need, c.Capacity, "in all", "needed")), false
	case taken.Code != "":
		return taken, false
	case c.Liveness != writ.LivenessReady:
		return unsuitable(writ.VerdictNotReady, "is "+string(c.Liveness)), true
	case c.Fault != "":
		return unsuitable(writ.VerdictFaulty, "takes no work: "+c.Fault), true
	case c.Scheduling != writ.SchedulingOpen && !r.Bound:
		return unsuitable(writ.VerdictClosed, "is "+string(c.Scheduling)), true
	case !Fits(r.Need, c.Free):
		return unsuitable(writ.VerdictFull, Shortage(r.Need, c.Free)), false
	}
	return writ.NodeVerdict{}, false
}

func unsuitable(code writ.VerdictCode, reason string) writ.NodeVerdict {
	return writ.NodeVerdict{Code: code, Reason: reason}
}
