package workflow

import (
	"fmt"
	"slices"
	"time"

	"writ"
	"writ/sal/catalog"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
)

// losses decides about the calls on lost nodes.
type losses struct{ *Step }

// lose handles the calls of the run on a lost node. Calls that were never sent are placed again. Queued jobs are
// withdrawn and placed again. Calls that may have started fail, unless the script asked to wait for the node or for a
// signed decision. If the node is gone for good, calls that make or remove a resource are placed again, unless they
// need another lost resource; all others fail.
func (t losses) lose(node writ.NodeID) error {
	n, _ := t.Nodes.Get(node)
	var without map[int]need
	if n.Gone {
		without = t.bereft(node)
	}
	for _, c := range t.calls {
		if c.Node != node || c.State.Ended() {
			continue
		}
		var err error
		switch {
		case c.State == writ.CallPlanned && neverSent(c):
			t.unclaim(c)
		case n.Gone && without[c.Seq] != (need{}):
			err = t.loseNeed(c, without[c.Seq])
		case n.Gone && repeatableElsewhere(c):
			err = t.moveAway(c, writ.Reason{Code: writ.ReasonMoved, Node: c.NodeName, State: "gone"})
		case n.Gone:
			err = t.loseBegun(c)
		case mayBeWaiting(c):
			t.out.Stops.Reclaim[node] = append(t.out.Stops.Reclaim[node], mail.DeliveriesOf(c)...)
		case !waitsForLost(c, n):
			err = t.loseBegun(c)
		case c.State.Sent():
			t.waitForLost(c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lostNow returns the lost nodes of the mail and all removed nodes that still have calls of the run. The supervisor may
// have ended between the removal and the step that follows from it.
func (t losses) lostNow(told []writ.NodeID) []writ.NodeID {
	nodes := slices.Clone(told)
	for _, c := range t.calls {
		if c.Node == "" || c.State.Ended() || slices.Contains(nodes, c.Node) {
			continue
		}
		if n, _ := t.Nodes.Get(c.Node); n.Admission == writ.AdmissionRemoved {
			nodes = append(nodes, c.Node)
		}
	}
	return nodes
}

// waitsForLost reports whether a call that may have started on a lost node keeps waiting: for the node, unless it was
// removed, or for a signed decision.
func waitsForLost(c *journal.Call, n writ.Node) bool {
	return c.Options.OnLoss == "replace" || c.Options.OnLoss == "wait" && n.Admission != writ.AdmissionRemoved
}

// IsAway reports whether a node is lost or removed, and thus does not read its queue.
func IsAway(n writ.Node) bool {
	return n.Liveness == writ.LivenessLost || n.Admission == writ.AdmissionRemoved
}

// waitForLost sets the reason of a call that waits for a lost node.
func (t losses) waitForLost(c *journal.Call) {
	why := writ.Reason{Code: writ.ReasonLostNode, Node: c.NodeName}
	if c.Options.OnLoss == "replace" {
		why.Code = writ.ReasonLostWord
	}
	if !c.Why.Equal(why) {
		c.Why = why
		t.touch(c)
	}
}

// mayBeWaiting reports whether all deliveries of a sent call may still be in the queue: no earlier attempt was sent
// since the call was last moved, and its node never reported it.
func mayBeWaiting(c *journal.Call) bool {
	return c.State == writ.CallQueued && c.Attempt == c.Moved+1 && c.Started.IsZero()
}

// neverBegan reports whether all deliveries of a call that mayBeWaiting were withdrawn, so that no node has started it.
func neverBegan(c *journal.Call) bool { return mayBeWaiting(c) && c.Withdrawn == c.Delivery }

// repeatableElsewhere reports whether another node can perform a call after its node is gone with all its resources.
func repeatableElsewhere(c *journal.Call) bool {
	op, ok := catalog.Lookup(c.Operation)
	return ok && (op.Effect == catalog.Make || op.Effect == catalog.Remove || leavesNothing(c))
}

// giveUp prevents a lost node from starting or continuing a call after its return.
func (t losses) giveUp(c *journal.Call) {
	t.out.Stops.Stale[c.Node] = append(t.out.Stops.Stale[c.Node], mail.DeliveriesOf(c)...)
	t.out.Stops.GivenUp[c.Node] = append(t.out.Stops.GivenUp[c.Node], c.Key())
}

// nodeLost returns an error with the code NODE_LOST that names the node for programs.
func nodeLost(node writ.NodeID, format string, args ...any) *writ.Error {
	err := writ.Errorf(writ.CodeNodeLost, format, args...)
	err.Node = node
	return err
}

// loseBegun fails a call that its lost node may have started.
func (t losses) loseBegun(c *journal.Call) error {
	if c.State.Sent() {
		t.giveUp(c)
	}
	n, _ := t.Nodes.Get(c.Node)
	is := "is lost"
	if n.Admission == writ.AdmissionRemoved {
		is = "was removed"
	}
	err := nodeLost(c.Node, "%s %s; whether it did %s is unknown", c.NodeName, is, c.Operation)
	switch {
	case n.Gone:
		err = err.WithHint("hand the script in again: what was on %s is made anew elsewhere", c.NodeName)
	case n.Admission == writ.AdmissionRemoved:
		err = err.WithHint("look at what is on it; if it never comes back, sign that with `writ node lost %s`: then its names are free", c.NodeName)
	default:
		err = err.WithHint("if it comes back, look at the resource; if it never does, sign that with `writ node lost %s`; "+
			"with on_loss: \"wait\" the script waits, with \"replace\" until that is signed", c.NodeName)
	}
	return t.fail(c, writ.CallFailed, err)
}

// loseNeed fails a call that no other node can perform, because it needs a resource on a node that is gone.
func (t losses) loseNeed(c *journal.Call, lost need) error {
	if c.State.Sent() {
		t.giveUp(c)
	}
	why := fmt.Sprintf("the %s was on it", lost.resource)
	if lost.resource == c.Resource() {
		why = "and what it is about is lost with it"
	}
	err := nodeLost(lost.node, "%s is gone, and no other node can do %s: %s", t.Nodes.Name(lost.node), describe(c), why).
		WithHint("hand the script in again: it makes the %s anew, without what it held", lost.resource)
	return t.fail(c, writ.CallFailed, err)
}

// moveAway plans the next attempt of a call, for any node. Results of the old attempt have no further effect on the
// run.
func (t losses) moveAway(c *journal.Call, why writ.Reason) error {
	if c.State.Sent() {
		t.giveUp(c)
		for _, to := range []writ.CallState{writ.CallFailed, writ.CallPlanned} {
			if err := t.move(c, to); err != nil {
				return err
			}
		}
		noteFailureKnown(c, writ.CodeNodeLost) // the old attempt did not act, or its effects are gone with the node
		c.Attempt++
	}
	c.Moved = c.Attempt - 1
	c.Spared = c.Moved - c.Before // the lost attempts do not count as retries
	t.unclaim(c)
	c.Delivery, c.Withdrawn, c.Started, c.Why = 0, 0, time.Time{}, why
	return nil
}

// receiveWithdrawn applies the queue's answers about the deliveries to withdraw: withdrawn, or possibly started.
func (t losses) receiveWithdrawn(m mail.Mail) error {
	for _, taken := range m.Withdrawn {
		c := t.open(taken.Key)
		if c == nil {
			continue
		}
		if taken.Number == c.Withdrawn+1 {
			c.Withdrawn++
			t.touch(c)
		}
		var err error
		switch n, _ := t.Nodes.Get(c.Node); {
		case t.run.Stop != nil && taken.Number < c.Delivery: // the answer about the newest delivery decides
		case t.run.Stop != nil:
			err = t.fail(c, ender(t).stoppedCall(), t.run.Stop)
		case IsAway(n) && neverBegan(c):
			err = t.moveAway(c, writ.Reason{Code: writ.ReasonMoved, Node: c.NodeName, State: string(writ.LivenessLost)})
		case IsAway(n) && mayBeWaiting(c) && taken.Number < c.Delivery: // another delivery was sent meanwhile
			t.out.Stops.Reclaim[c.Node] = append(t.out.Stops.Reclaim[c.Node], mail.DeliveriesOf(c)...)
		}
		if err != nil {
			return err
		}
	}
	for _, key := range m.MaybeStarted {
		c := t.open(key)
		if c == nil || t.run.Stop != nil {
			continue
		}
		n, _ := t.Nodes.Get(c.Node)
		if !IsAway(n) {
			continue // the node is back and reports its own jobs
		}
		if waitsForLost(c, n) {
			t.waitForLost(c)
			continue
		}
		if err := t.loseBegun(c); err != nil {
			return err
		}
	}
	return nil
}

// FreeNames removes the resources of a node from the journal, in the transaction of a signed decision that the node is
// gone. It adds the resources and the sent calls to the node's list of superseded things, which the node must stop
// using. It returns the runs with open calls there.
func FreeNames(tx *journal.Tx, n *journal.Node) ([]writ.RunID, error) {
	resources, err := tx.ResourcesOn(n.ID)
	if err != nil {
		return nil, err
	}
	for _, r := range resources {
		n.Superseded = append(n.Superseded, journal.Superseded{ResourceID: r.ResourceID, UID: r.UID})
		gone := r.Resource
		gone.Deleted, gone.Updated, gone.State = true, tx.Now, "gone"
		tx.AddEvents(writ.Event{Resource: EventResource(gone)})
		if err := tx.RemoveResource(r.ResourceID); err != nil {
			return nil, err
		}
	}
	runs, err := tx.RunsOn(n.ID)
	if err != nil {
		return nil, err
	}
	for _, run := range runs {
		calls, err := tx.Calls(run)
		if err != nil {
			return nil, err
		}
		for _, c := range calls {
			if c.Node == n.ID && c.State.Sent() {
				key := c.Key()
				n.Superseded = append(n.Superseded, journal.Superseded{ResourceID: c.Resource(), UID: c.UID, Job: &key})
			}
		}
	}
	if n.Fence == nil {
		n.Fence = &writ.Fence{Ordered: tx.Now}
	}
	n.Fence.Superseded = len(n.Superseded)
	return runs, nil
}

// bereft returns the open calls of the run that lose a need with a node that is gone, by seq.
func (t losses) bereft(gone writ.NodeID) map[int]need {
	stakes := make([]stake, 0, len(t.calls))
	for _, c := range t.calls {
		s := stake{seq: c.Seq, resource: c.Resource(), open: !c.State.Ended(), there: c.Node == gone}
		s.moves = neverSent(c) && c.State == writ.CallPlanned || repeatableElsewhere(c)
		if s.open && s.there {
			s.needs = t.needsThere(c)
		}
		stakes = append(stakes, s)
	}
	return withoutNeeds(gone, stakes)
}

// needsThere returns the needs of a call that must be on its node: the targets of its handles and the resources that it
// names.
func (t losses) needsThere(c *journal.Call) (needs []need) {
	for _, seq := range (transfer(t)).near(c) {
		if made := t.call(seq); made != nil && together(c, made) {
			needs = append(needs, need{seq, made.Resource(), made.Node})
		}
	}
	op, ok := catalog.Lookup(c.Operation)
	if !ok {
		return needs
	}
	for _, ref := range op.Args.Named(c.Args) {
		id := writ.ResourceID{Project: c.Project, Kind: ref.Kind, Name: ref.Name}
		origin, _ := c.Args[op.Origin].(string)
		known := slices.ContainsFunc(needs, func(n need) bool { return n.resource == id })
		if known || origin == ref.Name || !together(c, &journal.Call{Call: writ.Call{Kind: ref.Kind}}) ||
			t.lastOn(id, c.Seq) != nil {
			continue
		}
		needs = append(needs, need{0, id, c.Node})
	}
	return needs
}
