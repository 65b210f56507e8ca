package workflow

import (
	"writ"
	"writ/identity"
	"writ/sal/catalog"
	"writ/supervisor/hold"
	"writ/supervisor/journal"
)

// waiter keeps calls and runs from starting: during a hold, or until nodes have reported their inventories.
type waiter struct{ *Step }

// onHold returns the hold under which no job of a call may be made, nil if there is none: one of the run's, or one of the deployment that owns what the
// call changes. Otherwise a script of no deployment, or of another one, would get past the hold by taking the resource over.
func (t waiter) onHold(g ground, c *journal.Call) (*identity.Hold, error) {
	work := identity.Scope{Project: t.run.Project, Deployment: t.run.Deployment, Operation: c.Operation}
	if h := t.Holds.Over(work); h != nil || !t.Holds.AboutDeployments(work.Project) {
		return h, nil
	}
	op, _ := catalog.Lookup(c.Operation)
	if !op.Named() || op.Effect == catalog.Look || op.Effect == catalog.Find {
		return nil, nil
	}
	have, err := g.Resource(c.Resource())
	if have == nil || have.Deployment == "" || err != nil {
		return nil, err
	}
	work.Deployment = have.Deployment
	return t.Holds.Over(work), nil
}

// mayStart reports whether nothing of a group of calls is on hold. Of each call it says why it waits: because it is on hold, or goes with one that is.
func (t waiter) mayStart(g ground, group []*journal.Call) (bool, error) {
	var held *journal.Call
	var by *identity.Hold
	var with []*journal.Call
	for _, c := range group {
		h, err := t.onHold(g, c)
		switch {
		case err != nil:
			return false, err
		case h == nil || !needsNode(c):
			with = append(with, c)
			continue
		case !c.RetryAt.After(t.now): // it is not being tried again
			t.delay(c, t.Holds.Reason(h))
		}
		held, by = c, h
	}
	if held == nil {
		return true, nil
	}
	for _, c := range with {
		why := t.Holds.Reason(by)
		why.Seq, why.Call = held.Seq, describe(held)
		t.delay(c, why)
	}
	return false, nil
}

// needsNode reports whether a call is done by a node: others the supervisor answers itself.
func needsNode(c *journal.Call) bool {
	op, ok := catalog.Lookup(c.Operation)
	return ok && op.Effect != catalog.Find
}

// notBegun returns the hold under which a run is that was accepted and must not begin, nil if it may.
func (t waiter) notBegun() *identity.Hold {
	if t.run.State != writ.RunAccepted {
		return nil
	}
	return t.Holds.Over(identity.Scope{Project: t.run.Project, Deployment: t.run.Deployment})
}

// putOnHold lets a call wait that was to be sent. It is not ready, so that nobody offers it room which it does not take.
func (t waiter) putOnHold(c *journal.Call, h *identity.Hold) {
	if c.Ready {
		c.Ready = false
		t.touch(c)
	}
	t.delay(c, t.Holds.Reason(h))
}

// keepBack lets a call that is out wait whose delivery got lost: its node has nothing of it, and would begin it now. Its time does not run meanwhile.
func (t waiter) keepBack(c *journal.Call, h *identity.Hold) {
	if why := t.Holds.Reason(h); !c.KeptBack || !c.Why.Equal(why) {
		c.KeptBack, c.Why = true, why
		t.touch(c)
	}
}

// sayHeld adds to why a run ends, because its time is over, what held it.
func (t waiter) sayHeld(why *writ.Error) {
	h := t.notBegun()
	for _, c := range t.calls {
		if h == nil && (c.State == writ.CallPlanned || c.KeptBack) {
			h = t.Holds.Over(identity.Scope{Project: t.run.Project, Deployment: t.run.Deployment, Operation: c.Operation})
		}
	}
	if h != nil {
		why.Hint = hold.Text(h) + "; a hold does not move the deadline. Hand the script in again once it is released"
	}
}

// reconciles reports whether nodes may have calls of the run that the journal does not know of. A preview asks nobody.
func (t waiter) reconciles() bool {
	return t.verdicts == nil && t.run.Reconciles(t.Inventories.RestoredUntil(), identity.Skew)
}

// waitsForInventories reports whether a run waits for the inventory of a node. Until then, what was never sent, as far as the journal
// knows, waits too.
func (t waiter) waitsForInventories() bool {
	if t.run.Stop != nil || !t.reconciles() {
		return false
	}
	why := t.Inventories.Missing(t.run.ID)
	if why.IsZero() {
		return false
	}
	for _, c := range t.calls {
		if c.State != writ.CallPlanned || c.Claimed && !neverSent(c) {
			continue
		}
		if c.Claimed { // where the journal has it may not be where it was sent
			t.unclaim(c)
		}
		t.delay(c, why)
	}
	return true
}

// holders returns the nodes that have a call of which the journal does not know that it was sent. Of those that have one which leaves
// nothing behind the first will do; of any other there are not two, unless one of them lies, and nobody can tell which.
func (t waiter) holders(c *journal.Call) []writ.NodeID {
	if !t.reconciles() || c.Node != "" && !neverSent(c) {
		return nil
	}
	nodes := t.Inventories.Having(t.run.ID, c.Seq)
	if len(nodes) > 1 && leavesNothing(c) {
		return nodes[:1]
	}
	return nodes
}
