package workflow

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"writ"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/supervisor/bound"
	"writ/supervisor/journal"
)

// callList holds the calls of a run and answers questions about their order and their needs.
//
// A run may have thousands of ended calls, and a step concerns few calls. So a step visits the live calls, and the
// indexes below stay from step to step. The list lacks the first calls of a long run, which have all ended: see
// journal.Run.FirstEnded. A step adds the calls among them that it needs.
type callList struct {
	first   int                                // number of first calls that all lacks
	old     map[int]*journal.Call              // some of them, by seq
	all     []*journal.Call                    // by sequence number: all[i].Seq == first+i+1
	live    []*journal.Call                    // the calls that were open at some time in this step, in order
	on      map[writ.ResourceID]*resourceCalls // all[:indexed] by resource; see onResource
	indexed int
	parts   partList
	entries entryList // of the first calls
}

// newCallList returns the list of the calls of a run after its first ones, which have ended.
func newCallList(first int, all []*journal.Call) callList {
	l := callList{first: first, old: make(map[int]*journal.Call), all: all, parts: partList{known: first}}
	for _, c := range all {
		if !c.State.Ended() {
			l.live = append(l.live, c)
		}
	}
	return l
}

// countOf returns the number of calls of the run.
func countOf(l *callList) int { return l.first + len(l.all) }

// lacks reports whether the run has a call that the list lacks.
func lacks(l *callList, seq int) bool { return seq >= 1 && seq <= l.first && l.old[seq] == nil }

// fetch adds the calls that the list lacks.
func fetch(l *callList, tx *journal.Tx, run *journal.Run, seqs ...int) error {
	var missing []int
	for _, seq := range seqs {
		if lacks(l, seq) {
			missing = append(missing, seq)
		}
	}
	slices.Sort(missing)
	calls, err := journal.CallsOf(tx, run, slices.Compact(missing))
	for _, c := range calls {
		l.old[c.Seq] = c
	}
	return err
}

// fetchNeeds adds the calls that the live calls need.
func fetchNeeds(l *callList, tx *journal.Tx, run *journal.Run) error {
	var needs []int
	for _, c := range l.live {
		needs = append(needs, c.After...)
	}
	return fetch(l, tx, run, needs...)
}

// fetchNamed adds the calls that a pass names, the needs of its new calls and the cause of its failure, and the causes
// of their failures.
func fetchNamed(l *callList, tx *journal.Tx, run *journal.Run, p *pass) error {
	var needs []int
	for _, n := range p.Calls {
		needs = append(needs, n.After...)
	}
	if p.Failure != nil {
		needs = append(needs, p.Failure.Seq)
	}
	if err := fetch(l, tx, run, needs...); err != nil {
		return err
	}
	seen := make(map[int]bool)
	for _, seq := range needs {
		if err := fetchCauses(l, tx, run, l.at(seq), seen); err != nil {
			return err
		}
	}
	return nil
}

// causesAtOnce is the number of calls that fetchCauses reads before a call: a chain of causes may have thousands.
const causesAtOnce = 100

// fetchCauses adds the failed calls that caused the failure of a call: see causes. It ignores the calls in seen, and
// adds the others to it.
func fetchCauses(l *callList, tx *journal.Tx, run *journal.Run, c *journal.Call, seen map[int]bool) error {
	for c != nil && !seen[c.Seq] && c.Error != nil && c.Error.Code == writ.CodeDependencyFailed {
		seen[c.Seq] = true
		needs := slices.DeleteFunc(slices.Clone(c.After), func(seq int) bool { return !lacks(l, seq) })
		if len(needs) > 0 {
			for seq := max(needs[0]-causesAtOnce, 1); seq < needs[0]; seq++ {
				needs = append(needs, seq)
			}
		}
		if err := fetch(l, tx, run, needs...); err != nil {
			return err
		}
		c = failedNeed(l, c)
	}
	return nil
}

// dropFirst removes the first calls of the run from the list, except the needs of live calls and `part`, see
// journal.Run.FirstPart. They have ended.
func dropFirst(l *callList, first, part int) {
	gone := first - l.first
	if gone <= 0 {
		return
	}
	old := make(map[int]*journal.Call)
	if c := l.at(part); c != nil {
		old[part] = c
	}
	for _, c := range l.live {
		for _, seq := range c.After {
			if seq <= first && l.at(seq) != nil {
				old[seq] = l.at(seq)
			}
		}
	}
	l.first, l.old, l.all = first, old, slices.Clone(l.all[gone:])
	l.on, l.indexed = nil, 0
	l.entries = slices.Clone(l.entries[min(gone, len(l.entries)):])
	l.parts.known = max(l.parts.known, first)
	l.parts.seqs = slices.DeleteFunc(l.parts.seqs, func(seq int) bool { return seq <= first && seq != part })
}

// dropEnded removes the ended calls from the live calls of l, at the end of a step.
func dropEnded(l *callList) {
	l.live = slices.DeleteFunc(l.live, func(c *journal.Call) bool { return c.State.Ended() })
}

// resourceCalls holds the calls of a run on one resource, in order. Searches remove the ended calls that they find, so
// a step that reopens calls must call forgetIndex. A nil pointer means that the run has no calls on the resource.
type resourceCalls struct {
	open     []*journal.Call
	changing []*journal.Call // open calls that make, change or remove the resource, or run a program under its name
	changes  bool            // a call of the run, open or ended, may change the resource
}

// at returns a call by its sequence number, nil if it is unknown or the list lacks it.
func (l *callList) at(seq int) *journal.Call {
	switch {
	case seq < 1 || seq > countOf(l):
		return nil
	case seq <= l.first:
		return l.old[seq]
	}
	return l.all[seq-l.first-1]
}

// sent returns the call of a key if the attempt of the key is its current attempt and is sent, else nil.
func (l *callList) sent(key writ.JobKey) *journal.Call {
	if c := l.at(key.Seq); c != nil && c.Attempt == key.Attempt && c.State.Sent() {
		return c
	}
	return nil
}

// anySent reports whether a call of the run is sent. The result of a sent call causes the next step of the run.
func (l *callList) anySent() bool {
	return slices.ContainsFunc(l.live, func(c *journal.Call) bool { return c.State.Sent() })
}

// anyOpen reports whether a call of the run has not ended.
func (l *callList) anyOpen() bool {
	return slices.ContainsFunc(l.live, func(c *journal.Call) bool { return !c.State.Ended() })
}

// firstEnded returns the number of first calls that have ended.
func firstEnded(l *callList) int {
	for _, c := range l.live {
		if !c.State.Ended() {
			return c.Seq - 1
		}
	}
	return countOf(l)
}

// bytes returns the total size of arguments and values of the calls in the list.
func (l *callList) bytes() (n int) {
	for _, c := range l.all {
		n += bound.Size(c.Args) + bound.Size(c.Values)
	}
	return n
}

// onResource returns the calls on a resource, nil if the run has no calls on it. The index is built once for all claims
// of a step.
func (l *callList) onResource(id writ.ResourceID) *resourceCalls {
	if l.on == nil {
		l.on = make(map[writ.ResourceID]*resourceCalls)
	}
	for ; l.indexed < len(l.all); l.indexed++ {
		c := l.all[l.indexed]
		r := l.on[c.Resource()]
		if r == nil {
			r = new(resourceCalls)
			l.on[c.Resource()] = r
		}
		op, known := catalog.Lookup(c.Operation)
		changes := known && op.Effect != catalog.Find && op.Effect != catalog.Look
		r.changes = r.changes || changes
		if c.State.Ended() {
			continue
		}
		r.open = append(r.open, c)
		if changes {
			r.changing = append(r.changing, c)
		}
	}
	return l.on[id]
}

// forgetIndex drops the indexes and finds the live calls again. Callers that reopen ended calls must call it.
func (l *callList) forgetIndex() { *l = newCallList(l.first, l.all) }

// partList lists the calls on images and networks, and on volumes that no call uses.
type partList struct {
	seqs  []int // ascending
	known int   // number of calls that were considered
}

// update considers the new calls of a run.
func (p *partList) update(l *callList) {
	for ; p.known < countOf(l); p.known++ {
		c := l.all[p.known-l.first]
		for _, seq := range c.After {
			if need := l.at(seq); need != nil && need.Kind == writ.KindVolume {
				if i, found := slices.BinarySearch(p.seqs, seq); found {
					p.seqs = slices.Delete(p.seqs, i, i+1)
				}
			}
		}
		if isPart(c.Kind) {
			p.seqs = append(p.seqs, c.Seq)
		}
	}
}

// mayChange reports whether a call of the run may change the resource, or may have changed it.
func (r *resourceCalls) mayChange() bool { return r != nil && r.changes }

// openBefore returns the open calls on the resource before seq, in order. The result is valid until the next call.
func (r *resourceCalls) openBefore(seq int) []*journal.Call {
	if r == nil {
		return nil
	}
	r.open = slices.DeleteFunc(r.open, func(c *journal.Call) bool { return c.State.Ended() })
	return r.open[:position(r.open, seq)]
}

// last returns the last open call before seq that makes, changes or removes the resource or runs a program under its
// name. It returns nil without such a call.
func (r *resourceCalls) last(seq int) *journal.Call {
	if r == nil {
		return nil
	}
	n := position(r.changing, seq)
	first := n
	for first > 0 && r.changing[first-1].State.Ended() {
		first--
	}
	r.changing = slices.Delete(r.changing, first, n)
	if first == 0 {
		return nil
	}
	return r.changing[first-1]
}

// position returns the number of calls before seq in a list that is ordered by seq.
func position(calls []*journal.Call, seq int) int {
	n, _ := slices.BinarySearchFunc(calls, seq, func(c *journal.Call, seq int) int { return cmp.Compare(c.Seq, seq) })
	return n
}

// needs maps each open call, by seq, to the calls of the run that must end before it. These are the targets of its
// handles, the previous call on its resource, and the last call on each resource that it names. The result is not
// transitive.
func (l *callList) needs() map[int][]int {
	needs := make(map[int][]int)
	last := make(map[writ.ResourceID]int)
	for _, c := range l.live {
		if c.State.Ended() {
			continue
		}
		op, _ := catalog.Lookup(c.Operation)
		needs[c.Seq] = slices.Clone(c.After)
		for _, ref := range op.Args.Named(c.Args) {
			if seq, open := last[writ.ResourceID{Project: c.Project, Kind: ref.Kind, Name: ref.Name}]; open {
				needs[c.Seq] = append(needs[c.Seq], seq)
			}
		}
		if !op.Named() {
			continue
		}
		if seq, open := last[c.Resource()]; open {
			needs[c.Seq] = append(needs[c.Seq], seq)
		}
		last[c.Resource()] = c.Seq
	}
	return needs
}

// colocated returns the needs that must be on the same node as the call: all needs except the source of a copy.
func (l *callList) colocated(c *journal.Call) []int {
	op, _ := catalog.Lookup(c.Operation)
	if op.Origin == "" {
		return c.After
	}
	return slices.DeleteFunc(slices.Clone(c.After), func(seq int) bool {
		need := l.at(seq)
		return need != nil && isOrigin(op, c, need)
	})
}

// met reports whether all needs of a call have succeeded and all earlier calls on its resource have ended.
func (l *callList) met(c *journal.Call) bool {
	return !slices.ContainsFunc(c.After, func(seq int) bool {
		need := l.at(seq)
		return need == nil || need.State != writ.CallSucceeded
	}) && !anyOpenOf(l, c.Orders)
}

// anyOpenOf reports whether one of the calls has not ended. It checks the last call first, which usually ends last.
func anyOpenOf(l *callList, seqs []int) bool {
	for _, seq := range slices.Backward(seqs) {
		if c := l.at(seq); c != nil && !c.State.Ended() {
			return true
		}
	}
	return false
}

// describe formats a call: "volume.create web-0".
func describe(c *journal.Call) string {
	if c.Name == "" {
		return c.Operation
	}
	return c.Operation + " " + c.Name
}

// ref returns the resource of the call behind a handle of the script.
func (l *callList) ref(handle any) (any, error) {
	seq, ok := scripts.RefOf(handle)
	c := l.at(seq)
	if !ok || c == nil {
		return nil, fmt.Errorf("%v is not a handle of this run", handle)
	}
	return map[string]any{"kind": string(c.Kind), "name": c.Name, "uid": string(c.UID)}, nil
}

// describe formats a call with its number: "3 (volume.create web-0)".
func (l *callList) describe(seq int) string {
	c := l.at(seq)
	if c == nil {
		return strconv.Itoa(seq)
	}
	return fmt.Sprintf("%d (%s)", seq, describe(c))
}

// withResources returns the arguments of a call with resources in place of handles. A handle that names no call of the
// run stays.
func (l *callList) withResources(op *catalog.Operation, c *journal.Call) map[string]any {
	args, _ := op.Args.ReplaceHandles(c.Args, func(handle any) (any, error) { // cannot fail: the callback never does
		if ref, err := l.ref(handle); err == nil {
			return ref, nil
		}
		return handle, nil
	})
	return args
}
