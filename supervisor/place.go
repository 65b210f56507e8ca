package supervisor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"writ"
	"writ/sal/catalog"
	"writ/supervisor/journal"
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

// choose finds the node for a wish: of those that will do the one with the fewest open calls, then with most memory left, then by name.
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
			return cmp.Or(cmp.Compare(a.open, b.open), cmp.Compare(b.free.MemoryMiB, a.free.MemoryMiB), cmp.Compare(a.Name, b.Name))
		})
		return verdict{node: best.ID, fit: len(fit), against: v.against}
	}
	v.why = causes(v.against)
	if len(seats) == 0 {
		v.later, v.why = true, "the datacenter has no nodes yet"
	}
	return v
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
		named, more := names[cause], ""
		if n := len(named) - maxNamed; n > 1 { // one more is as short as its name
			named, more = named[:maxNamed], fmt.Sprintf(" and %d more", n)
		}
		why = append(why, strings.Join(named, ", ")+more+": "+cause)
	}
	if rest > 0 {
		why = append(why, fmt.Sprintf("and %d more nodes will not do for other causes", rest))
	}
	return strings.Join(why, "; ")
}

// refuse says why a node will not do, "" if it will; later says that this may pass by itself.
func refuse(w wish, s seat) (reason string, later bool) {
	if w.node != "" && w.node != s.Name && w.node != string(s.ID) {
		return "is not the node that was asked for", false
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
			return fmt.Sprintf("has no label %s=%s", name, w.labels[name]), false
		}
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
func shortage(need, free writ.Capacity) string {
	var all []string
	for _, of := range []struct {
		need, free int64
		what       string
	}{{need.CPUs, free.CPUs, "CPUs"}, {need.MemoryMiB, free.MemoryMiB, "MiB of memory"}, {need.DiskGiB, free.DiskGiB, "GiB of disk"}} {
		if has := max(of.free, 0); of.need > has {
			all = append(all, fmt.Sprintf("has %d %s left and %d are needed", has, of.what, of.need))
		}
	}
	return strings.Join(all, ", ")
}

// noCapacity is the error of calls that no node will do for.
func noCapacity(w wish, v verdict) *writ.Error {
	err := writ.Errorf(writ.CodeNoCapacity, "no node will do: %s", v.why)
	lacks := func(a writ.NodeVerdict) bool {
		return strings.HasPrefix(a.Reason, "has no driver") || strings.HasPrefix(a.Reason, "has no engine")
	}
	switch {
	case slices.ContainsFunc(v.against, lacks):
		return err.WithHint("`writ node show NODE` says which drivers a node has, and `writ doctor` on the node what others lack")
	case w.node != "":
		return err.WithHint("`writ node list` shows the nodes and what they have left; ask for less, or leave the option node away")
	default:
		return err.WithHint("`writ node list` shows what nodes have left; ask for less, delete what nobody needs, or add a node")
	}
}

// placeCalls gives every claimed call a node. Calls on node-local things that handles connect go to one node together; where
// something of theirs exists already they go there.
func (t *turn) placeCalls(g ground) error {
	if len(t.groups()) == 0 {
		return nil
	}
	seats, err := t.seats(g)
	if err != nil {
		return err
	}
	for again := true; again; { // a call that finds no place takes those that need it along, and the rest of its group may do without
		again = false
		for _, group := range t.groups() {
			if err := t.placeGroup(group, seats); err != nil {
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

// seats returns the nodes with what is free on them.
func (t *turn) seats(g ground) ([]seat, error) {
	loads, err := g.Loads()
	if err != nil {
		return nil, err
	}
	var seats []seat
	for _, n := range t.s.fleet.list() {
		if n.Admission == writ.AdmissionRemoved || n.Admission == writ.AdmissionRejected {
			continue
		}
		load := loads[n.ID]
		seats = append(seats, seat{n, n.Capacity.Minus(load.Reserved), load.Open()})
	}
	return seats, nil
}

// groups returns the calls that have to be placed, those together that must be on one node. A group with a call that is not claimed yet
// is left out.
func (t *turn) groups() [][]*journal.Call {
	return slices.DeleteFunc(t.connected(), func(group []*journal.Call) bool {
		return slices.ContainsFunc(group, func(c *journal.Call) bool { return !c.Claimed })
	})
}

// connected returns the calls that wait to be sent, those together that must be on one node.
func (t *turn) connected() [][]*journal.Call {
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
		for _, seq := range slices.Concat(t.near(c), c.Orders) {
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

// together reports whether a call must be on the node of one that it needs. A database is reached by its address from anywhere, and so binds
// nobody; the network that it is on is part of a node.
func together(c, need *journal.Call) bool {
	return c.Kind != "" && need.Kind != "" && need.Kind != writ.KindHeroDB && (c.Kind != writ.KindHeroDB || need.Kind == writ.KindNetwork)
}

// label adds the labels that a call asks for to those of its group.
func (w *wish) label(c *journal.Call) *writ.Error {
	for _, name := range slices.Sorted(maps.Keys(c.Options.Labels)) {
		value := c.Options.Labels[name]
		if has, ok := w.labels[name]; ok && has != value {
			return writ.Errorf(writ.CodeResourceConflict, "%s is asked for on a node with %s=%s, and something that it goes with on one with %s=%s",
				describe(c), name, value, name, has).WithHint("give both the same labels")
		}
		w.labels[name] = value
	}
	return nil
}

// placeGroup finds a node for a group, or says why there is none.
func (t *turn) placeGroup(group []*journal.Call, seats []seat) error {
	var w wish
	w.labels = make(map[string]string)
	var pinned writ.NodeID
	homeless := false
	for _, c := range group {
		op, _ := catalog.Lookup(c.Operation)
		if c.Node == "" { // what is there already, its node looks after, whatever that has become
			w.modules = append(w.modules, op.Module)
			if err := w.label(c); err != nil {
				return t.fail(c, writ.CallFailed, err)
			}
		}
		if names, version := op.Args.EngineOf(c.Args); op.Effect == catalog.Make && (len(names) > 0 || version != "") {
			w.engines = append(w.engines, engineWish{op.Module, names, version})
		}
		if c.Node == "" || t.isClaimed(c) { // what was placed before is reserved already
			w.need = w.need.Plus(c.Need)
		}
		if node := c.Options.Node; node != "" {
			if name := t.s.fleet.name; w.node != "" && name(writ.NodeID(w.node)) != name(writ.NodeID(node)) {
				return t.fail(c, writ.CallFailed, writ.Errorf(writ.CodeResourceConflict, "%s is asked for on %s, and something that it goes with on %s",
					describe(c), node, w.node).WithHint("name one node for both"))
			}
			w.node = node
		}
		homeless = homeless || c.Node == ""
		for _, node := range t.homes(c) {
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
		if w.node != "" && w.node != string(pinned) && w.node != t.s.fleet.name(pinned) {
			return t.fail(group[0], writ.CallFailed, writ.Errorf(writ.CodeResourceConflict, "%s is asked for on %s, but what it needs is on %s",
				describe(group[0]), w.node, t.s.fleet.name(pinned)))
		}
		w.node, w.stays = string(pinned), true
	}
	v := choose(w, seats)
	v.bound = w.stays
	for _, c := range group {
		if t.verdicts != nil {
			t.verdicts[c.Seq] = v
		}
		switch {
		case v.node != "":
			t.pin(c, v.node)
			delete(t.claimed, c.Seq)
			c.Reason, c.RetryAt = "", time.Time{}
			t.touch(c)
		case v.later:
			t.holdHomeless(c, v.why)
		default:
			if err := t.fail(c, writ.CallFailed, noCapacity(w, v)); err != nil {
				return err
			}
		}
	}
	for i := range seats {
		if seats[i].ID == v.node {
			seats[i].free = seats[i].free.Minus(w.need)
			seats[i].open += len(group)
		}
	}
	return nil
}

// homelessAgain is how long it stands at least why a call has no node: nodes come and go, and that is so for all calls that wait.
const homelessAgain = 10 * time.Second

// holdHomeless lets a call wait that no node will do for now. That other nodes will not than a moment ago is not worth a write.
func (t *turn) holdHomeless(c *journal.Call, why string) {
	const because = "no node is ready: "
	if t.touched[c.Seq] || !strings.HasPrefix(c.Reason, because) || t.now.Sub(c.RetryAt).Abs() >= homelessAgain {
		t.hold(c, because+why)
	}
}

// checkGrowth fails the calls that want more of the node that has their resource than it has left.
func (t *turn) checkGrowth(group []*journal.Call, seats []seat) error {
	for _, c := range group {
		i := slices.IndexFunc(seats, func(s seat) bool { return s.ID == c.Node })
		if !t.isClaimed(c) || i < 0 {
			continue
		}
		before := t.claimed[c.Seq]
		delete(t.claimed, c.Seq)
		free := &seats[i].free
		switch {
		case fits(c.Need, *free):
		case seats[i].Liveness != writ.LivenessReady: // what it has is not known yet, after a start, or not any more
			t.waitOn(c, before, waitsForIts(c.NodeName, "is "+string(seats[i].Liveness)))
			continue
		default:
			err := writ.Errorf(writ.CodeNoCapacity, "%s %s more", c.NodeName, shortage(c.Need, *free)).
				WithHint("it stays on that node: ask for less, or delete what nobody needs there (writ resource list -o wide)")
			if err := t.fail(c, writ.CallFailed, err); err != nil {
				return err
			}
			continue
		}
		*free = free.Minus(c.Need)
	}
	return nil
}

// torn is the error of a call that is bound to two nodes.
func (t *turn) torn(c *journal.Call, a, b writ.NodeID) *writ.Error {
	err := writ.Errorf(writ.CodeResourceConflict, "%s needs things that are on different nodes, %s and %s", describe(c), t.s.fleet.name(a), t.s.fleet.name(b))
	if len(t.recalledBy(c)) > 0 {
		err = err.WithHint("the journal came from a backup, and a node has this call from before: look at what is on both")
	}
	return err
}

// homes returns the nodes that a call is bound to: its own, those that have it from before the journal came from a backup, and those of the
// node-local things that it needs.
func (t *turn) homes(c *journal.Call) []writ.NodeID {
	var nodes []writ.NodeID
	if c.Node != "" {
		nodes = append(nodes, c.Node)
	}
	nodes = append(nodes, t.recalledBy(c)...)
	for _, seq := range t.near(c) {
		if need := t.call(seq); need != nil && need.Node != "" && together(c, need) {
			nodes = append(nodes, need.Node)
		}
	}
	return nodes
}
