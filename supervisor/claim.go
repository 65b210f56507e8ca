package supervisor

import (
	"slices"
	"time"

	"writ"
	"writ/sal/catalog"
	"writ/supervisor/journal"
)

// claimCalls settles, for each planned call, which resource it is about: its uid, who owns it, where it is and what the call will use
// there. Calls that the supervisor can answer by itself are answered.
func (t *turn) claimCalls(tx *journal.Tx) error {
	for _, c := range t.calls {
		if c.State != writ.CallPlanned || c.Claimed || t.run.Stop != nil {
			continue
		}
		op, _ := catalog.Lookup(c.Operation)
		if err := t.claim(tx, op, c); err != nil {
			return err
		}
	}
	return nil
}

func (t *turn) claim(tx *journal.Tx, op *catalog.Operation, c *journal.Call) error {
	switch {
	case !slices.Contains(t.run.Allow, op.Name()) && op.Module != "run":
		return t.fail(c, writ.CallFailed, writ.Errorf(writ.CodeOperationNotAllowed, "the signed header does not allow %s", op.Name()))
	case op.Destructive && !t.run.Destructive:
		return t.fail(c, writ.CallFailed, writ.Errorf(writ.CodeDestructiveDenied, "%s destroys, and the script was signed with `destructive: no`", op.Name()).
			WithHint("sign it with --destructive"))
	case op.Effect == catalog.Find && !op.Named():
		return t.succeed(c, map[string]any{"unix_ms": t.now.UnixMilli()})
	case !op.Named():
		c.Claimed = true
		t.touch(c)
		return nil
	}
	free, err := t.isFree(tx, c)
	if err != nil || !free {
		return err
	}
	have, err := tx.Resource(c.Resource())
	if err != nil {
		return err
	}
	if op.Effect == catalog.Find {
		return t.find(c, have)
	}
	if err := t.claimNamed(tx, op, c); err != nil || c.State != writ.CallPlanned {
		return err
	}
	return t.claimResource(op, c, have)
}

// isFree reports whether no other run still has an open call on the resource; if one has, the call waits.
func (t *turn) isFree(tx *journal.Tx, c *journal.Call) (bool, error) {
	other, err := tx.OpenCallOn(c.Resource(), t.run.ID)
	if err != nil || other == "" {
		return err == nil, err
	}
	t.hold(c, "another run, "+string(other)+", still works on the "+c.Resource().String())
	return false, nil
}

// find answers get(name).
func (t *turn) find(c *journal.Call, have *journal.Resource) error {
	if have == nil {
		return t.fail(c, writ.CallFailed, writ.Errorf(writ.CodeResourceUnknown, "project %s has no %s", t.run.ProjectName, c.Resource()).
			WithHint("`writ resource list` shows what there is"))
	}
	c.UID, c.Node, c.NodeName, c.Driver, c.Simulated = have.UID, have.Node, t.s.fleet.name(have.Node), have.Driver, have.Simulated
	return t.succeed(c, have.Values)
}

// succeed ends a call that the supervisor answered itself.
func (t *turn) succeed(c *journal.Call, values map[string]any) error {
	c.Claimed, c.Values, c.Started, c.Ended = true, values, t.now, t.now
	if c.Driver == "" {
		c.Driver = "supervisor"
	}
	return t.move(c, writ.CallSucceeded)
}

// claimNamed makes dependencies of the resources that the arguments give by name: made by an earlier call of this run, or there already.
func (t *turn) claimNamed(tx *journal.Tx, op *catalog.Operation, c *journal.Call) error {
	for _, ref := range op.Args.Named(c.Args) {
		id := writ.ResourceID{Project: c.Project, Kind: ref.Kind, Name: ref.Name}
		if maker := t.lastOn(id, c.Seq); maker != nil {
			if !slices.Contains(c.After, maker.Seq) {
				c.After = append(c.After, maker.Seq)
				slices.Sort(c.After)
			}
			continue
		}
		have, err := tx.Resource(id)
		if err != nil {
			return err
		}
		if have == nil {
			return t.fail(c, writ.CallFailed, writ.Errorf(writ.CodeResourceUnknown, "%s needs the %s, which project %s does not have", describe(c), id, t.run.ProjectName).
				WithHint("make it first, in this script or in an earlier one"))
		}
		if c.Node != "" && c.Node != have.Node {
			return t.fail(c, writ.CallFailed, t.apart(c, id, have.Node))
		}
		t.pin(c, have.Node)
	}
	return nil
}

// claimResource decides what the call is to its resource, given what exists and what earlier calls of the run do.
func (t *turn) claimResource(op *catalog.Operation, c *journal.Call, have *journal.Resource) error {
	earlier := t.lastOn(c.Resource(), c.Seq)
	c.Orders = nil
	for _, e := range t.calls[:c.Seq-1] {
		if e.Resource() == c.Resource() && !e.State.Ended() {
			c.Orders = append(c.Orders, e.Seq)
		}
	}
	switch {
	case earlier != nil && !removes(earlier): // it is being made or changed by this run
		c.UID = earlier.UID
		t.pin(c, earlier.Node)
		if have != nil {
			c.Need = grows(op, c, have.Need)
		} else if op.Effect != catalog.Make {
			c.Need = grows(op, c, earlier.Need)
		}
	case have != nil && earlier == nil:
		if op.Effect != catalog.Look && have.Deployment != t.run.Deployment && !c.Options.Adopt {
			return t.fail(c, writ.CallFailed, t.notOwner(have))
		}
		c.UID, c.Need = have.UID, grows(op, c, have.Need)
		t.pin(c, have.Node)
	case op.Effect == catalog.Make:
		c.UID, c.Need = writ.UID(writ.NewUUID()), grows(op, c, writ.Capacity{})
	case op.Effect == catalog.Remove: // to delete what is not there is success, as long as no earlier call may still make it
		c.Change = writ.ChangeUnchanged
		return t.succeed(c, map[string]any{"name": c.Name, "uid": "", "simulated": false})
	default:
		return t.fail(c, writ.CallFailed, writ.Errorf(writ.CodeResourceUnknown, "project %s has no %s", t.run.ProjectName, c.Resource()).
			WithHint("make it first: %s.create(%q, …)", op.Module, c.Name))
	}
	c.Claimed, c.Reason, c.RetryAt = true, "", time.Time{}
	t.touch(c)
	return nil
}

// lastOn returns the last call before seq that makes, changes or removes a resource and has not failed.
func (t *turn) lastOn(id writ.ResourceID, seq int) *journal.Call {
	for i := seq - 2; i >= 0; i-- {
		c := t.calls[i]
		if c.Resource() != id || c.State.Ended() {
			continue
		}
		if op, _ := catalog.Lookup(c.Operation); op.Effect == catalog.Make || op.Effect == catalog.Remove || op.Effect == catalog.Alter {
			return c
		}
	}
	return nil
}

func removes(c *journal.Call) bool {
	op, _ := catalog.Lookup(c.Operation)
	return op.Effect == catalog.Remove
}

// grows returns what the call uses up beyond what its resource uses already.
func grows(op *catalog.Operation, c *journal.Call, before writ.Capacity) writ.Capacity {
	if op.Effect == catalog.Remove {
		return writ.Capacity{}
	}
	more := uses(op, c.Args, before).Minus(before)
	return writ.Capacity{CPUs: max(more.CPUs, 0), MemoryMiB: max(more.MemoryMiB, 0), DiskGiB: max(more.DiskGiB, 0)}
}

// pin binds a call to the node that has what it is about.
func (t *turn) pin(c *journal.Call, node writ.NodeID) {
	if node != "" {
		c.Node, c.NodeName = node, t.s.fleet.name(node)
	}
}

func (t *turn) notOwner(have *journal.Resource) *writ.Error {
	owner := "deployment " + have.Deployment
	if have.Deployment == "" {
		owner = "the project itself"
	}
	return writ.Errorf(writ.CodeNotOwner, "the %s belongs to %s", have.ResourceID, owner).WithHint("take it over with the option adopt: true")
}

func (t *turn) apart(c *journal.Call, id writ.ResourceID, node writ.NodeID) *writ.Error {
	return writ.Errorf(writ.CodeResourceConflict, "%s cannot be on one node with all that it needs: the %s is on %s", describe(c), id, t.s.fleet.name(node))
}
