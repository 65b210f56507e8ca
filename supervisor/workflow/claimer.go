package workflow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"writ"
	"writ/identity/target"
	"writ/internal/imageref"
	"writ/internal/meant"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/supervisor/bound"
	"writ/supervisor/inuse"
	"writ/supervisor/journal"
	"writ/supervisor/placement"
	"writ/supervisor/published"
)

// placementReader is the part of the journal that claiming and placing read. A step reads a transaction. A preview
// reads a transaction overlaid with the calls of its plan; see Draft.
type placementReader interface {
	resourceReader
	OpenCallOn(id writ.ResourceID, except writ.RunID) (writ.RunID, error)
	Loads() (map[writ.NodeID]journal.Load, error) // callers must not change the map
	// UsersOfPorts returns the resources that publish one of these ports.
	UsersOfPorts(ports []placement.Port) ([]published.User, error)
	// Users returns the users of the resources of a project.
	Users(project writ.ProjectID) (*inuse.Index, error)
}

// resourceReader returns resources, nil if they are missing.
type resourceReader interface {
	Resource(id writ.ResourceID) (*journal.Resource, error)
}

// txReader reads the records of a transaction for one step. It reads each record once, because claims and placements
// change no records.
type txReader struct {
	*journal.Tx
	resources map[writ.ResourceID]*journal.Resource
	open      map[writ.ResourceID]writ.RunID
	users     *inuse.Index
}

func newTxReader(tx *journal.Tx) *txReader {
	return &txReader{
		Tx: tx, resources: make(map[writ.ResourceID]*journal.Resource), open: make(map[writ.ResourceID]writ.RunID),
	}
}

// Resource implements placementReader.
func (r *txReader) Resource(id writ.ResourceID) (*journal.Resource, error) {
	return once(r.resources, id, func() (*journal.Resource, error) { return r.Tx.Resource(id) })
}

// OpenCallOn implements placementReader. Its cache ignores `except`, which is the same run for the whole step.
func (r *txReader) OpenCallOn(id writ.ResourceID, except writ.RunID) (writ.RunID, error) {
	return once(r.open, id, func() (writ.RunID, error) { return r.Tx.OpenCallOn(id, except) })
}

// Users implements placementReader. Its cache ignores `project`, which is the same for the whole step.
func (r *txReader) Users(project writ.ProjectID) (*inuse.Index, error) {
	if r.users == nil {
		all, err := r.ProjectResources(project)
		if err != nil {
			return nil, err
		}
		r.users = inuse.NewIndex(all)
	}
	return r.users, nil
}

// UsersOfPorts implements placementReader.
func (r *txReader) UsersOfPorts(ports []placement.Port) ([]published.User, error) {
	return journal.UsersOfPorts(r.Tx, ports)
}

// once returns the value of a key in `known`. A missing value is read and stored.
func once[K comparable, V any](known map[K]V, key K, read func() (V, error)) (V, error) {
	if v, is := known[key]; is {
		return v, nil
	}
	v, err := read()
	if err == nil {
		known[key] = v
	}
	return v, err
}

// claimer decides which resource each planned call concerns, given the records of the journal or of a draft.
type claimer struct {
	*Step
	records placementReader
}

// arrange decides about planned calls: calls that cannot succeed fail, and the other calls get their resource and node.
func arrange(t *Step, records placementReader) error {
	if err := t.cascade(); err != nil {
		return err
	}
	claims := claimer{t, records}
	if claims.waitsForInventories() {
		return nil
	}
	if err := claims.claimCalls(); err != nil {
		return err
	}
	if err := t.cascade(); err != nil {
		return err
	}
	return placeCalls(t, records)
}

// claimCalls decides which resource each planned call concerns: its UID, owner and node, and the capacity that the call
// will use. It also ends calls that the supervisor can answer without a node.
func (t claimer) claimCalls() error {
	waiting, err := t.waitingCalls()
	if err != nil {
		return err
	}
	for _, c := range t.calls.live {
		if c.State != writ.CallPlanned || c.Claimed || t.run.Stop != nil || waiting[c.Seq] {
			continue
		}
		op, _ := catalog.Lookup(c.Operation)
		if err := t.claim(op, c); err != nil {
			return err
		}
	}
	return nil
}

// waitingCalls returns the calls that must wait, by seq. These are calls on hold, calls whose resource another run
// uses, and all calls that need such a call. Each of these calls waits together with its group, the calls that must be
// on the same node. Waiting calls release their claims. Otherwise two runs that each hold one of two resources would
// wait for each other. The calls that a waiting call needs do not wait.
func (t claimer) waitingCalls() (map[int]bool, error) {
	waiting := make(map[int]bool)
	groups := groups(t.Step)
	for _, group := range groups {
		free, err := t.areFree(group)
		if err != nil {
			return nil, err
		}
		if !free {
			t.keepWaiting(group, waiting)
		}
	}
	if len(waiting) == 0 {
		return waiting, nil
	}
	keepDependentsWaiting(t, groups, waiting)
	return waiting, nil
}

// keepDependentsWaiting marks as waiting the groups that need a waiting call, directly or through other calls.
func keepDependentsWaiting(t claimer, groups [][]*journal.Call, waiting map[int]bool) {
	needs := t.calls.needs()
	dependents := make(map[int][]int) // indexes of groups, by the seq of a call that they need
	for i, group := range groups {
		for _, c := range group {
			for _, seq := range needs[c.Seq] {
				dependents[seq] = append(dependents[seq], i)
			}
		}
	}
	for next := slices.Collect(maps.Keys(waiting)); len(next) > 0; {
		seq := next[len(next)-1]
		next = next[:len(next)-1]
		for _, i := range dependents[seq] {
			if group := groups[i]; !waiting[group[0].Seq] {
				t.keepWaiting(group, waiting)
				for _, c := range group {
					next = append(next, c.Seq)
				}
			}
		}
		delete(dependents, seq)
	}
}

// areFree reports whether no call of a group is on hold and no other run uses the resources of the group. Otherwise it
// sets the wait reasons of the calls.
func (t claimer) areFree(group []*journal.Call) (bool, error) {
	free, err := t.mayStart(group)
	if err != nil {
		return false, err
	}
	for _, c := range group {
		if c.Claimed || c.Kind == "" {
			continue
		}
		itsFree, err := t.isFree(c)
		if err != nil {
			return false, err
		}
		free = free && itsFree
	}
	return free, nil
}

// keepWaiting marks the calls of a group as waiting and releases their claims.
func (t claimer) keepWaiting(group []*journal.Call, waiting map[int]bool) {
	for _, c := range group {
		waiting[c.Seq] = true
		if c.Claimed && neverSent(c) {
			t.unclaim(c)
		}
	}
}

// neverSent reports whether no node can have a call, because it was not sent since its last move; see
// journal.Call.Moved.
func neverSent(c *journal.Call) bool { return c.Attempt == c.Moved+1 && c.Delivery == 0 }

// claim decides which resource a call concerns. It fails calls that the signed header does not allow.
func (t claimer) claim(op *catalog.Operation, c *journal.Call) error {
	switch {
	case !slices.Contains(t.run.Allow, op.Name()) && op.Module != "run":
		return t.fail(c, writ.CallFailed,
			writ.Errorf(writ.CodeOperationNotAllowed, "the signed header does not allow %s", op.Name()))
	case op.Destructive && !t.run.MayDestroy(op.Kind, c.Name):
		return t.fail(c, writ.CallFailed,
			writ.Errorf(writ.CodeDestructiveDenied, "%s destroys, and the signed header does not name the %s %s",
				op.Name(), op.Kind, c.Name).
				WithHint("sign it with --destructive=%s", target.Of(op.Kind, c.Name)))
	case op.Effect == catalog.Find && !op.Named():
		return t.succeed(c, map[string]any{"unix_ms": t.now.UnixMilli()})
	case !op.Named():
		c.Claimed = true
		t.touch(c)
		return nil
	}
	earlier := t.calls.onResource(c.Resource()).last(c.Seq)
	alone := op.Effect == catalog.Find || op.Effect == catalog.Run
	if earlier != nil && (alone || freesName(earlier) || !earlier.Claimed) {
		t.delay(c, writ.Reason{Code: writ.ReasonCall, Seq: earlier.Seq, Call: describe(earlier)})
		return nil
	}
	have, err := t.records.Resource(c.Resource())
	if err != nil {
		return err
	}
	if op.Effect == catalog.Find {
		return t.find(c, have)
	}
	if waits, err := t.claimNamed(op, c); waits || err != nil || c.State != writ.CallPlanned {
		return err
	}
	return t.claimResource(op, c, have, earlier)
}

// isFree reports whether no other run has an open call on the resource. Otherwise it sets the wait reason of the call.
// A call that runs aside never waits if its resource exists; see catalog.Operation.
func (t claimer) isFree(c *journal.Call) (bool, error) {
	if c.Aside {
		if have, err := t.records.Resource(c.Resource()); have != nil || err != nil {
			return err == nil, err
		}
	}
	other, err := t.records.OpenCallOn(c.Resource(), t.run.ID)
	if err != nil || other == "" {
		return err == nil, err
	}
	t.delay(c, writ.Reason{Code: writ.ReasonResource, Run: other, Resource: c.Resource().String()})
	return false, nil
}

// find answers an operation like volume.get(name) from the journal.
func (t claimer) find(c *journal.Call, have *journal.Resource) error {
	if have == nil {
		return t.fail(c, writ.CallFailed,
			writ.Errorf(writ.CodeResourceUnknown, "project %s has no %s", t.run.ProjectName, c.Resource()).
				WithHint("`writ resource list` shows the resources"))
	}
	c.UID = have.UID
	c.Node = have.Node
	c.NodeName = t.Nodes.Name(have.Node)
	c.Driver = have.Driver
	c.Simulated = have.Simulated
	return t.succeed(c, have.Values)
}

// succeed ends a call that the supervisor answers without a node.
func (t claimer) succeed(c *journal.Call, values map[string]any) error {
	c.Claimed, c.Values, c.Started, c.Ended = true, values, t.now, t.now
	t.run.Bytes += bound.Size(c.Values)
	if c.Driver == "" {
		c.Driver = "supervisor"
	}
	return t.move(c, writ.CallSucceeded)
}

// claimNamed adds the resources that the arguments name to the needs of a call. If such a resource does not exist and
// no earlier call of the run makes it, the call fails. claimNamed reports whether the call must wait because an earlier
// call removes such a resource.
func (t claimer) claimNamed(op *catalog.Operation, c *journal.Call) (waits bool, err error) {
	for _, ref := range op.Args.Named(c.Args) {
		id := writ.ResourceID{Project: c.Project, Kind: ref.Kind, Name: ref.Name}
		if maker := t.calls.onResource(id).last(c.Seq); maker != nil {
			if freesName(maker) {
				t.delay(c, writ.Reason{Code: writ.ReasonCall, Seq: maker.Seq, Call: describe(maker)})
				return true, nil
			}
			if !slices.Contains(c.After, maker.Seq) {
				c.After = append(slices.Clone(c.After), maker.Seq) // copied: published events share the old list
				slices.Sort(c.After)
			}
			continue
		}
		have, err := t.records.Resource(id)
		if err != nil {
			return false, err
		}
		if have == nil {
			return false, t.fail(c, writ.CallFailed,
				writ.Errorf(writ.CodeResourceUnknown, "%s needs the %s, which project %s does not have", describe(c), id,
					t.run.ProjectName).
					WithHint("%s", missing(op, ref, madeBefore(&t.calls, ref.Kind, c.Seq))))
		}
		if name, named := c.Args[op.Origin].(string); named && name == ref.Name {
			continue // the source of a copy may be on another node
		}
		if c.Node != "" && c.Node != have.Node {
			return false, t.fail(c, writ.CallFailed, t.apart(c, id, have.Node))
		}
		t.pin(c, have.Node)
	}
	return false, nil
}

// mostMeant limits the candidates for the name in a hint. Each candidate is compared with the wrong name, for each call
// that fails.
const mostMeant = 50

// madeBefore returns the names of resources that the last calls before seq make, at most mostMeant.
func madeBefore(calls *callList, kind writ.ResourceKind, seq int) (names []string) {
	for i := seq - calls.first - 2; i >= 0 && len(names) < mostMeant; i-- {
		if c := calls.all[i]; c.Kind == kind && !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}

// missing returns the hint for an argument of op that names a resource which does not exist. made are names that the
// script may mean.
func missing(op *catalog.Operation, ref writ.Ref, made []string) string {
	hint := "create it first, in this script or in an earlier one"
	if ref.Kind == writ.KindImage {
		hint = fmt.Sprintf("fetch it first with image.fetch(%q, …), in this script or in an earlier one", ref.Name)
		if catalog.TakesImages(op.Args) {
			hint += fmt.Sprintf("; an image at a registry has a tag: %q", imageref.Example)
		}
	}
	return meant.Hint(ref.Name, made, hint)
}

// claimResource gives a call the UID and the node of its resource, and the capacity that it needs. `have` is the
// existing resource; earlier is the last open call of the run that makes or changes it. Both may be nil.
func (t claimer) claimResource(
	op *catalog.Operation, c *journal.Call, have *journal.Resource, earlier *journal.Call,
) error {
	var before writ.Capacity // capacity of the resource after all earlier open calls of the run
	if have != nil {
		before = have.Need
	}
	c.Orders = nil
	for _, e := range t.calls.onResource(c.Resource()).openBefore(c.Seq) {
		c.Orders = append(c.Orders, e.Seq)
		before = before.Plus(e.Need)
	}
	switch {
	case earlier != nil: // an earlier call of the run makes or changes the resource
		c.UID, c.Need = earlier.UID, grows(op, c, before)
		t.pin(c, earlier.Node)
	case have != nil && op.Effect == catalog.Run:
		return t.fail(c, writ.CallFailed,
			writ.Errorf(writ.CodeResourceConflict, "the %s exists, and %s needs a name that no %s has", have.ResourceID,
				op.Name(), have.Kind).
				WithHint("use another name, or %s.exec for a program in it", op.Module))
	case have != nil:
		if op.Effect != catalog.Look && !mayChange(t.run, have, c) {
			return t.fail(c, writ.CallFailed, notOwner(have))
		}
		if op.Effect == catalog.Remove {
			if user, err := t.user(have); user != nil || err != nil {
				return cmp.Or(err, t.fail(c, writ.CallFailed, inUse(have, user)))
			}
		}
		if n, ok := t.Nodes.Get(have.Node); !ok || n.Admission == writ.AdmissionRemoved {
			name := t.Nodes.Name(have.Node)
			return t.fail(c, writ.CallFailed,
				nodeLost(have.Node, "the %s was on %s, which was removed", have.ResourceID, name).
					WithHint("if it never returns, `writ node lost %s` frees the names of its resources; until then use "+
						"another name", name))
		}
		c.UID, c.Need = have.UID, grows(op, c, before)
		t.pin(c, have.Node)
	case op.Makes:
		if c.UID == "" { // a set UID is kept: an attempt before a resume may have begun to make the resource
			c.UID = newUID(c)
		}
		c.Need = grows(op, c, before)
	case op.Effect == catalog.Remove: // deleting a missing resource succeeds, unless an earlier call may still make it
		c.Change = writ.ChangeUnchanged
		return t.succeed(c, map[string]any{"name": c.Name, "uid": "", "simulated": false})
	default:
		return t.fail(c, writ.CallFailed,
			writ.Errorf(writ.CodeResourceUnknown, "project %s has no %s", t.run.ProjectName, c.Resource()).
				WithHint("create it first: %s.create(%q, …)", op.Module, c.Name))
	}
	t.claimed[c.Seq] = t.waits(c)
	c.Claimed, c.Why, c.RetryAt = true, writ.Reason{}, time.Time{}
	t.touch(c)
	return nil
}

// newUID returns the UID of the resource that a call makes. It is derived from the call, so that a supervisor with a
// restored journal requests the same resource and finds it.
func newUID(c *journal.Call) writ.UID {
	return writ.UID(writ.UUIDOf(fmt.Appendf(nil, "writ-uid-v1\x00%s-%d", c.Run, c.Seq)))
}

// freesName reports whether a call leaves the name of its resource free.
func freesName(c *journal.Call) bool {
	op, _ := catalog.Lookup(c.Operation)
	return op.Effect == catalog.Remove || op.Effect == catalog.Run
}

// grows returns the capacity that a call needs beyond the present capacity of its resource. If only the result
// determines the size, the call reserves at least 1 GiB of disk.
func grows(op *catalog.Operation, c *journal.Call, before writ.Capacity) writ.Capacity {
	if op.Effect == catalog.Remove {
		return writ.Capacity{}
	}
	more := uses(op, c.Args, nil, before).Minus(before)
	least := int64(0)
	if op.Measured {
		least = 1
	}
	more.MemoryMiB, more.DiskGiB = max(more.MemoryMiB, 0), max(more.DiskGiB, least)
	return more.WithCPU(max(more.CPU(), 0))
}

// notOwner returns the error of a call on another deployment's resource. The hint first names a missing --deployment
// flag, the usual cause.
func notOwner(have *journal.Resource) *writ.Error {
	owner, flag := "deployment "+have.Deployment, fmt.Sprintf("with --deployment %s, or for another deployment with --uses %s",
		have.Deployment, have.Deployment)
	if have.Deployment == "" {
		owner, flag = "the project itself", "without --deployment"
	}
	return writ.Errorf(writ.CodeNotOwner, "the %s belongs to %s", have.ResourceID, owner).
		WithHint("submit the script %s; the option adopt: true takes the %s over", flag, have.ResourceID.Kind)
}

// user returns a resource that uses `have`, which a call is going to remove, or nil. The driver would refuse the
// removal only after some retries. This check fails the run at once, and a preview shows the error. A user does not
// count if it belongs to the deployment of `have` or of the run, and the run may change or delete it.
func (t claimer) user(have *journal.Resource) (*journal.Resource, error) {
	index, err := t.records.Users(t.run.Project)
	if err != nil {
		return nil, err
	}
	for _, user := range index.Users(have.Kind, have.Name) {
		own := user.Deployment == have.Deployment || user.Deployment == t.run.Deployment
		if user.Uses(have.UID) && !(own && (user.Run == t.run.ID || t.calls.onResource(user.ResourceID).mayChange())) {
			return user.Resource, nil
		}
	}
	return nil, nil
}

// mayChange reports whether a call of a run may change a resource. The run's deployment must own it, the signed header
// must name the owner, or the call must adopt the resource. A run prunes resources of its own deployment only.
func mayChange(run *journal.Run, have *journal.Resource, c *journal.Call) bool {
	uses := slices.Contains(run.Uses, have.Deployment) && c.Position != scripts.PrunePosition
	return have.Deployment == run.Deployment || uses || c.Options.Adopt
}

// inUse returns the error of a call that would remove a resource with a user.
func inUse(have, user *journal.Resource) *writ.Error {
	owner, flag := "the deployment "+user.Deployment, "with --deployment "+user.Deployment
	if user.Deployment == "" {
		owner, flag = "the project itself", "without --deployment"
	}
	return writ.Errorf(writ.CodeResourceInUse, "the %s of %s uses the %s", user.ResourceID, owner, have.ResourceID).
		WithHint("delete the %s first, with a script that is submitted %s", user.Kind, flag)
}

// apart returns the error of a call whose needs are on different nodes.
func (t claimer) apart(c *journal.Call, id writ.ResourceID, node writ.NodeID) *writ.Error {
	return writ.Errorf(writ.CodeResourceConflict, "%s and its needs cannot be on one node: the %s is on %s",
		describe(c), id, t.Nodes.Name(node))
}
