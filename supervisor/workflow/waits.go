package workflow

import (
	"fmt"

	"writ"
	"writ/identity"
	"writ/sal/catalog"
	"writ/supervisor/hold"
	"writ/supervisor/journal"
)

// holdOver returns the hold under which a call must not be sent, nil if the call is free. It considers the deployment
// of the run and the deployment that owns the resource. Otherwise a script could evade a hold by adopting the resource.
func holdOver(t *Step, records resourceReader, c *journal.Call) (*identity.Hold, error) {
	work := identity.Scope{Project: t.run.Project, Deployment: t.run.Deployment, Operation: c.Operation}
	if h := t.Holds.Over(work); h != nil || !t.Holds.AboutDeployments(work.Project) {
		return h, nil
	}
	op, _ := catalog.Lookup(c.Operation)
	if !op.Named() || op.Effect == catalog.Look || op.Effect == catalog.Find {
		return nil, nil
	}
	have, err := records.Resource(c.Resource())
	if have == nil || have.Deployment == "" || err != nil {
		return nil, err
	}
	work.Deployment = have.Deployment
	return t.Holds.Over(work), nil
}

// mayStart reports whether no call of a group is on hold. Otherwise it sets the wait reason of each call: its own hold,
// or the call of the group that is on hold.
func (t claimer) mayStart(group []*journal.Call) (bool, error) {
	var held *journal.Call
	var by *identity.Hold
	var with []*journal.Call
	for _, c := range group {
		h, err := holdOver(t.Step, t.records, c)
		switch {
		case err != nil:
			return false, err
		case h == nil || !needsNode(c):
			with = append(with, c)
			continue
		case !c.RetryAt.After(t.now): // a call that waits for its retry keeps that reason
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

// needsNode reports whether a node performs a call. The supervisor answers other calls itself.
func needsNode(c *journal.Call) bool {
	op, ok := catalog.Lookup(c.Operation)
	return ok && op.Effect != catalog.Find
}

// heldRun returns the hold under which an accepted run must not start, nil if it may start.
func heldRun(t *Step) *identity.Hold {
	if t.run.State != writ.RunAccepted {
		return nil
	}
	return t.Holds.Over(identity.Scope{Project: t.run.Project, Deployment: t.run.Deployment})
}

// putOnHold makes a call wait under a hold. The call is no longer ready, so it is not offered any room.
func (t *sender) putOnHold(c *journal.Call, h *identity.Hold) {
	if c.Ready {
		c.Ready = false
		t.touch(c)
	}
	t.delay(c, t.Holds.Reason(h))
}

// keepBack makes a sent call wait for the release of a hold after its delivery was lost. Its node would start a new
// delivery at once. Meanwhile the time until its EndBy does not pass.
func (t *sender) keepBack(c *journal.Call, h *identity.Hold) {
	if why := t.Holds.Reason(h); !c.KeptBack || !c.Why.Equal(why) {
		c.KeptBack, c.Why = true, why
		t.touch(c)
	}
}

// addWait adds the wait of an expired run to its error. It adds the reason of the run itself, or of its first call
// whose reason is outside of the run.
func addWait(t *Step, why *writ.Error) {
	waiting, reason := "it", t.run.Why
	for _, c := range t.calls.live {
		internal := c.Why.Code == writ.ReasonCall || c.Why.Code == writ.ReasonUnused || c.Why.Code == writ.ReasonProgress
		if reason.IsZero() && !c.State.Ended() && !internal {
			waiting, reason = fmt.Sprintf("call %d %s", c.Seq, describe(c)), c.Why
		}
	}
	if reason.IsZero() {
		return
	}
	why.Message += fmt.Sprintf("; %s waited at the end: %s", waiting, reason.Sentence())
	why.Hint = "remove the cause of the wait, and submit the script again; --deadline gives it more time"
}

// setHoldHint sets the hint of an expired run's error to the hold that delayed the run, if any.
func setHoldHint(t *Step, why *writ.Error) {
	h := heldRun(t)
	for _, c := range t.calls.live {
		if h == nil && (c.State == writ.CallPlanned || c.KeptBack) {
			h = t.Holds.Over(identity.Scope{Project: t.run.Project, Deployment: t.run.Deployment, Operation: c.Operation})
		}
	}
	if h != nil {
		why.Hint = hold.Text(h) + "; a hold does not move the deadline. Submit the script again after the release"
	}
}

// setWaitReason sets the reason why an accepted run cannot start: a hold, or an earlier run of its deployment.
func setWaitReason(t *Step) {
	h := heldRun(t)
	if t.blocked == "" && h == nil || t.run.State.Ended() || t.run.Stop != nil {
		return
	}
	why := writ.Reason{Code: writ.ReasonRun, Run: t.blocked, Deployment: t.run.Deployment}
	if h != nil {
		why = t.Holds.Reason(h)
	}
	if !t.run.Why.Equal(why) {
		t.run.Why, t.runDirty, t.runMoved = why, true, true
	}
}

// reconciles reports whether nodes may have calls of the run that are missing in the journal. It is false in a preview,
// which must not query nodes.
func reconciles(t *Step) bool {
	return t.verdicts == nil && t.run.Reconciles(t.Inventories.RestoredUntil(), identity.Skew)
}

// waitsForInventories reports whether the run waits for inventories of nodes. Meanwhile, the calls that were never sent
// according to the journal must wait.
func (t claimer) waitsForInventories() bool {
	if t.run.Stop != nil || !reconciles(t.Step) {
		return false
	}
	why := t.Inventories.Missing(t.run.ID)
	if why.IsZero() {
		return false
	}
	for _, c := range t.calls.live {
		if c.State != writ.CallPlanned || c.Claimed && !neverSent(c) {
			continue
		}
		if c.Claimed { // before the restore, the call may have been sent to a different node
			t.unclaim(c)
		}
		t.delay(c, why)
	}
	return true
}

// reportingNodes returns the nodes that reported a call which was never sent according to the journal. If any node may
// repeat the call, it returns only one of them. Otherwise, two nodes in the result mean that one of them lies.
func reportingNodes(t *Step, c *journal.Call) []writ.NodeID {
	if !reconciles(t) || c.Node != "" && !neverSent(c) {
		return nil
	}
	nodes := t.Inventories.Having(t.run.ID, c.Seq)
	if len(nodes) > 1 && leavesNothing(c) {
		return nodes[:1]
	}
	return nodes
}
