package supervisor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"writ"
)

// wish is what a group of calls needs of a node.
type wish struct {
	modules []string          // drivers
	engines []engineWish      // with which one of them is to serve
	need    writ.Capacity     // in all
	labels  map[string]string // that it must have
	node    string            // name or id of the only one that will do, "" for any
	stays   bool              // something of the group is there already: the node may be closed to new work
}

// engineWish is what a call asks of the engine of its driver.
type engineWish struct {
	module  string
	names   []string // the ones that will do; any if there are none
	version string   // as far as it is given
}

// seat is a node as placement sees it.
type seat struct {
	writ.Node
	free writ.Capacity
	open int // calls that are planned or out there
}

// verdict is the answer to a wish.
type verdict struct {
	node writ.NodeID // "" if there is none
	// later says that a node would do if it were ready; otherwise none will, unless the fleet changes.
	later   bool
	why     writ.Reason        // ReasonNoNode, if there is none
	fit     int                // how many nodes would do
	against []writ.NodeVerdict // what speaks against the others
	bound   bool               // what the group needs is on that node already
}

// choose finds the node for a wish: of those that will do the one with the fewest open calls, then with most memory left, then
// with most disk left, then by name.
func choose(w wish, seats []seat) verdict {
	var fit []seat
	var v verdict
	for _, s := range seats {
		against, later := refuse(w, s)
		if against.Code == "" {
			fit = append(fit, s)
			continue
		}
		v.later = v.later || later
		against.Node, against.Name = s.ID, s.Name
		v.against = append(v.against, against)
	}
	if len(fit) > 0 {
		best := slices.MinFunc(fit, func(a, b seat) int {
			return cmp.Or(cmp.Compare(a.open, b.open), cmp.Compare(b.free.MemoryMiB, a.free.MemoryMiB), cmp.Compare(b.free.DiskGiB, a.free.DiskGiB),
				cmp.Compare(a.Name, b.Name))
		})
		return verdict{node: best.ID, fit: len(fit), against: v.against}
	}
	if len(seats) == 0 {
		v.later, v.why = true, writ.Reason{Code: writ.ReasonNoNode, Text: "the datacenter has no nodes yet"}
		return v
	}
	if w.node != "" { // that the others are not it tells nothing
		v.against = slices.DeleteFunc(v.against, func(a writ.NodeVerdict) bool { return a.Code == writ.VerdictOtherNode })
	}
	v.why = causes(v.against)
	if len(v.against) == 0 {
		v.why.Text = fmt.Sprintf("the datacenter has no node %s, it has %s", w.node, namesOf(seats))
	}
	return v
}

// neverFits reports whether a node could not hold need even if it were empty. The capacity of a node that was not heard yet is unknown.
func (s seat) neverFits(need writ.Capacity) bool {
	return s.Capacity != (writ.Capacity{}) && !fits(need, s.Capacity)
}

// namesOf lists the names of some nodes, sorted, as many as causes names.
func namesOf(seats []seat) string {
	var names []string
	for _, s := range seats {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return few(names)
}

// few joins names. If there are too many, it counts the rest.
func few(names []string) string {
	names, more := firstNames(names)
	if more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), more)
	}
	return strings.Join(names, ", ")
}

// firstNames returns the first names of a list and the number of further ones.
func firstNames(names []string) ([]string, int) {
	if n := len(names) - maxNamed; n > 1 { // one more is as short as its name
		return names[:maxNamed], n
	}
	return names, 0
}

// How many causes are told why no node will do, and how many nodes are named for each: a reason is kept with every call that waits.
const (
	maxCauses = 4
	maxNamed  = 3
)

// causes returns the reason why all of these nodes are unsuitable. It groups the nodes by cause. If there are too many causes, it keeps
// the ones with the most nodes.
func causes(against []writ.NodeVerdict) writ.Reason {
	names := make(map[string][]string)
	var all []writ.NodeVerdict // one for each cause
	for _, a := range against {
		if names[a.Reason] == nil {
			all = append(all, a)
		}
		names[a.Reason] = append(names[a.Reason], a.Name)
	}
	why := writ.Reason{Code: writ.ReasonNoNode}
	if len(all) > maxCauses {
		slices.SortStableFunc(all, func(a, b writ.NodeVerdict) int { return len(names[b.Reason]) - len(names[a.Reason]) })
		for _, cause := range all[maxCauses:] {
			why.More += len(names[cause.Reason])
		}
		all = all[:maxCauses]
	}
	for _, cause := range all {
		first, more := firstNames(names[cause.Reason])
		why.Nodes = append(why.Nodes, writ.NodesReason{Names: first, More: more, Code: cause.Code, Text: cause.Reason})
	}
	return why
}

// refuse returns why a node is unsuitable, with an empty code if it is suitable. later means that the obstacle may pass by itself.
func refuse(w wish, s seat) (against writ.NodeVerdict, later bool) {
	if w.node != "" && w.node != s.Name && w.node != string(s.ID) {
		return unsuitable(writ.VerdictOtherNode, "is not the node that was asked for"), false
	}
	if s.Admission != writ.AdmissionApproved {
		return unsuitable(writ.VerdictNotApproved, "is "+string(s.Admission)), s.Admission == writ.AdmissionPending
	}
	for _, module := range w.modules {
		i := slices.IndexFunc(s.Drivers, func(d writ.NodeDriver) bool { return d.Module == module })
		switch {
		case i < 0 && len(s.Drivers) > 0:
			return unsuitable(writ.VerdictNoDriver, "has no driver for "+module), false
		case i >= 0 && s.Drivers[i].Lacks != "":
			return unsuitable(writ.VerdictNoDriver, "has no driver for "+module+", for want of "+s.Drivers[i].Lacks), false
		}
	}
	for _, e := range w.engines {
		if reason := e.refuse(s); reason != "" {
			return unsuitable(writ.VerdictNoEngine, reason), false
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.labels)) {
		if has, ok := s.Labels[name]; !ok || has != w.labels[name] {
			label := name + "=" + w.labels[name]
			return writ.NodeVerdict{Code: writ.VerdictNoLabel, Label: label, Reason: "has no label " + label}, false
		}
	}
	return s.refuseNow(w)
}

// refuseNow returns why the size or the present state of a node makes it unsuitable.
func (s seat) refuseNow(w wish) (against writ.NodeVerdict, later bool) {
	switch {
	case s.neverFits(w.need):
		return unsuitable(writ.VerdictTooSmall, "is too small: "+compare(w.need, s.Capacity, "in all")), false
	case s.Liveness != writ.LivenessReady:
		return unsuitable(writ.VerdictNotReady, "is "+string(s.Liveness)), true
	case s.Fault != "":
		return unsuitable(writ.VerdictFaulty, "takes no work: "+s.Fault), true
	case s.Scheduling != writ.SchedulingOpen && !w.stays:
		return unsuitable(writ.VerdictClosed, "is "+string(s.Scheduling)), true
	case !fits(w.need, s.free):
		return unsuitable(writ.VerdictFull, shortage(w.need, s.free)), false
	}
	return writ.NodeVerdict{}, false
}

func unsuitable(code writ.VerdictCode, reason string) writ.NodeVerdict {
	return writ.NodeVerdict{Code: code, Reason: reason}
}

// refuse says why no engine of a node will do, "" if one will. One that does not say which it has may have any.
func (e engineWish) refuse(s seat) string {
	i := slices.IndexFunc(s.Drivers, func(d writ.NodeDriver) bool { return d.Module == e.module && len(d.Engines) > 0 })
	if i < 0 || slices.ContainsFunc(s.Drivers[i].Engines, func(has writ.Engine) bool { return has.Does(e.names, e.version) }) {
		return ""
	}
	has, refused := "none", ""
	if names := offered(s.Drivers[i].Engines); len(names) > 0 {
		has = strings.Join(names, ", ")
	}
	for _, engine := range s.Drivers[i].Engines {
		if engine.Refused != "" && slices.Contains(e.names, engine.Name) {
			refused += "; it does not use " + engine.Name + ": " + engine.Refused
		}
	}
	return fmt.Sprintf("has no engine for %s that will do: it offers %s, and %s is asked for%s", e.module, has, e, refused)
}

// offered are the engines that serve what is made anew.
func offered(engines []writ.Engine) (names []string) {
	for _, e := range engines {
		if e.Refused == "" {
			names = append(names, e.String())
		}
	}
	return names
}

func (e engineWish) String() string {
	names := strings.Join(e.names, " or ")
	if names == "" {
		names = "one"
	}
	if e.version == "" {
		return names
	}
	return names + " of version " + e.version
}

// fits reports whether free holds need. What needs nothing of a kind fits even where there is less than nothing of it.
func fits(need, free writ.Capacity) bool {
	return need.CPUs <= max(free.CPUs, 0) && need.MemoryMiB <= max(free.MemoryMiB, 0) && need.DiskGiB <= max(free.DiskGiB, 0)
}

// shortage says of what there is less than is needed.
func shortage(need, free writ.Capacity) string { return compare(need, free, "left") }

// compare lists of what a node has less than is needed.
func compare(need, free writ.Capacity, what string) string {
	var all []string
	for _, of := range []struct {
		need, free int64
		unit       string
	}{{need.CPUs, free.CPUs, "CPUs"}, {need.MemoryMiB, free.MemoryMiB, "MiB of memory"}, {need.DiskGiB, free.DiskGiB, "GiB of disk"}} {
		if has := max(of.free, 0); of.need > has {
			all = append(all, fmt.Sprintf("has %d of the %d needed %s %s", has, of.need, of.unit, what))
		}
	}
	return strings.Join(all, ", ")
}

// noCapacity is the error of calls that no node will do for.
func noCapacity(w wish, v verdict) *writ.Error {
	err := writ.Errorf(writ.CodeNoCapacity, "no node will do: %s", v.why.Candidates())
	for _, a := range v.against {
		switch a.Code {
		case writ.VerdictNoDriver, writ.VerdictNoEngine:
			return err.WithHint("`writ node show NODE` says which drivers a node has, and `writ doctor` on the node what others lack")
		case writ.VerdictNoLabel:
			return err.WithHint("`writ node list -o wide` shows the labels of nodes; `writ node label NODE %s` gives a node this one", a.Label)
		}
	}
	switch {
	case w.node != "" && len(v.against) == 0:
		return err.WithHint("`writ node list` shows the nodes; correct the option node of the call, or leave it out")
	case w.node != "":
		return err.WithHint("`writ node list` shows what the node has left; ask for less, or leave the option node out")
	case len(v.against) > 0 && !slices.ContainsFunc(v.against, func(a writ.NodeVerdict) bool { return a.Code != writ.VerdictTooSmall }):
		return err.WithHint("ask for less, or add a larger node; `writ node list -o wide` shows the sizes")
	default:
		return err.WithHint("`writ node list` shows what nodes have left; ask for less, delete what is not needed, or add a node")
	}
}
