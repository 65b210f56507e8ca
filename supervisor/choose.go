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
	why     string             // why no node will do, if there is none
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
		reason, later := refuse(w, s)
		if reason == "" {
			fit = append(fit, s)
			continue
		}
		v.later = v.later || later
		v.against = append(v.against, writ.NodeVerdict{Node: s.ID, Name: s.Name, Reason: reason})
	}
	if len(fit) > 0 {
		best := slices.MinFunc(fit, func(a, b seat) int {
			return cmp.Or(cmp.Compare(a.open, b.open), cmp.Compare(b.free.MemoryMiB, a.free.MemoryMiB), cmp.Compare(b.free.DiskGiB, a.free.DiskGiB),
				cmp.Compare(a.Name, b.Name))
		})
		return verdict{node: best.ID, fit: len(fit), against: v.against}
	}
	if len(seats) == 0 {
		v.later, v.why = true, "the datacenter has no nodes yet"
		return v
	}
	if w.node != "" { // that the others are not it tells nothing
		v.against = slices.DeleteFunc(v.against, func(a writ.NodeVerdict) bool { return a.Reason == notTheNamed })
	}
	v.why = causes(v.against)
	if len(v.against) == 0 {
		v.why = fmt.Sprintf("the datacenter has no node %s, it has %s", w.node, namesOf(seats))
	}
	return v
}

// notTheNamed is why a node will not do for a call that names another one.
const notTheNamed = "is not the node that was asked for"

// tooSmall begins why a node will not do that is smaller than what is asked for, whatever else it has.
const tooSmall = "is too small: "

// neverFits reports whether a node could not hold need even if it were empty. The capacity of a node that was not heard yet is unknown.
func (s seat) neverFits(need writ.Capacity) bool {
	return s.Capacity != (writ.Capacity{}) && !fits(need, s.Capacity)
}

// noLabel begins why a node will not do that lacks a label, NAME=VALUE.
const noLabel = "has no label "

// namesOf lists the names of some nodes, sorted, as many as causes names.
func namesOf(seats []seat) string {
	var names []string
	for _, s := range seats {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return few(names)
}

// few lists names, and counts those that are too many to list.
func few(names []string) string {
	if n := len(names) - maxNamed; n > 1 { // one more is as short as its name
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), n)
	}
	return strings.Join(names, ", ")
}

// How many causes are told why no node will do, and how many nodes are named for each: a reason is kept with every call that waits.
const (
	maxCauses = 4
	maxNamed  = 3
)

// causes says why none of these nodes will do: those together that will not for the same cause, and most nodes first if there are too many
// causes to tell.
func causes(against []writ.NodeVerdict) string {
	names := make(map[string][]string)
	var all []string
	for _, a := range against {
		if names[a.Reason] == nil {
			all = append(all, a.Reason)
		}
		names[a.Reason] = append(names[a.Reason], a.Name)
	}
	rest := 0
	if len(all) > maxCauses {
		slices.SortStableFunc(all, func(a, b string) int { return len(names[b]) - len(names[a]) })
		for _, cause := range all[maxCauses:] {
			rest += len(names[cause])
		}
		all = all[:maxCauses]
	}
	var why []string
	for _, cause := range all {
		why = append(why, few(names[cause])+": "+cause)
	}
	if rest > 0 {
		why = append(why, fmt.Sprintf("and %d more nodes will not do for other causes", rest))
	}
	return strings.Join(why, "; ")
}

// refuse says why a node will not do, "" if it will; later says that this may pass by itself.
func refuse(w wish, s seat) (reason string, later bool) {
	if w.node != "" && w.node != s.Name && w.node != string(s.ID) {
		return notTheNamed, false
	}
	if s.Admission != writ.AdmissionApproved {
		return "is " + string(s.Admission), s.Admission == writ.AdmissionPending
	}
	for _, module := range w.modules {
		i := slices.IndexFunc(s.Drivers, func(d writ.NodeDriver) bool { return d.Module == module })
		switch {
		case i < 0 && len(s.Drivers) > 0:
			return "has no driver for " + module, false
		case i >= 0 && s.Drivers[i].Lacks != "":
			return "has no driver for " + module + ", for want of " + s.Drivers[i].Lacks, false
		}
	}
	for _, e := range w.engines {
		if reason := e.refuse(s); reason != "" {
			return reason, false
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.labels)) {
		if has, ok := s.Labels[name]; !ok || has != w.labels[name] {
			return fmt.Sprintf(noLabel+"%s=%s", name, w.labels[name]), false
		}
	}
	if s.neverFits(w.need) {
		return tooSmall + compare(w.need, s.Capacity, "in all"), false
	}
	if s.Liveness != writ.LivenessReady {
		return "is " + string(s.Liveness), true
	}
	if s.Fault != "" {
		return "takes no work: " + s.Fault, true
	}
	if s.Scheduling != writ.SchedulingOpen && !w.stays {
		return "is " + string(s.Scheduling), true
	}
	if !fits(w.need, s.free) {
		return shortage(w.need, s.free), false
	}
	return "", false
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
	err := writ.Errorf(writ.CodeNoCapacity, "no node will do: %s", v.why)
	for _, a := range v.against {
		switch {
		case strings.HasPrefix(a.Reason, "has no driver"), strings.HasPrefix(a.Reason, "has no engine"):
			return err.WithHint("`writ node show NODE` says which drivers a node has, and `writ doctor` on the node what others lack")
		case strings.HasPrefix(a.Reason, noLabel):
			return err.WithHint("`writ node list -o wide` shows the labels of nodes; `writ node label NODE %s` gives a node this one", strings.TrimPrefix(a.Reason, noLabel))
		}
	}
	switch {
	case w.node != "" && len(v.against) == 0:
		return err.WithHint("`writ node list` shows the nodes; correct the option node of the call, or leave it out")
	case w.node != "":
		return err.WithHint("`writ node list` shows what the node has left; ask for less, or leave the option node out")
	case len(v.against) > 0 && !slices.ContainsFunc(v.against, func(a writ.NodeVerdict) bool { return !strings.HasPrefix(a.Reason, tooSmall) }):
		return err.WithHint("ask for less, or add a larger node; `writ node list -o wide` shows the sizes")
	default:
		return err.WithHint("`writ node list` shows what nodes have left; ask for less, delete what is not needed, or add a node")
	}
}
