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

// lose takes the calls away from a lost node. What was never sent goes elsewhere. What was sent and waits in the queue is taken back, and goes
// elsewhere if it was still there. What may have begun ends, unless the script said that it waits: for the node, as long as that may come back,
// or for a person's word. Of a node that is gone for good nothing is left that another one could do twice: calls that make or delete something
// go elsewhere, all others end.
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

// lostNow adds the nodes that were removed and still have calls of the run: the supervisor may have ended between the transaction that says so
// and the step that follows from it.
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

// waitsForLost reports whether a call that may have begun on a lost node goes on to wait: for the node, which one that was removed never is
// again, or for a person's word that it never comes back.
func waitsForLost(c *journal.Call, n writ.Node) bool {
	return c.Options.OnLoss == "replace" || c.Options.OnLoss == "wait" && n.Admission != writ.AdmissionRemoved
}

// IsAway reports whether a node does not take what is in its queue: it is lost, or was removed.
func IsAway(n writ.Node) bool {
	return n.Liveness == writ.LivenessLost || n.Admission == writ.AdmissionRemoved
}

// waitForLost says why such a call waits.
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

// mayBeWaiting reports whether a call that is out has no other attempt that may be anywhere, and its node never said that it began: all its
// deliveries may still be in the queue.
func mayBeWaiting(c *journal.Call) bool {
	return c.State == writ.CallQueued && c.Attempt == c.Moved+1 && c.Started.IsZero()
}

// neverBegan reports whether the queue gave back each delivery of such a call before a node had it.
func neverBegan(c *journal.Call) bool { return mayBeWaiting(c) && c.Withdrawn == c.Delivery }

// repeatableElsewhere reports whether a call can be done by another node once its node, with all that is on it, is gone: it makes or deletes
// its resource, or it leaves nothing.
func repeatableElsewhere(c *journal.Call) bool {
	op, ok := catalog.Lookup(c.Operation)
	return ok && (op.Effect == catalog.Make || op.Effect == catalog.Remove || leavesNothing(c))
}

// giveUp has a lost node neither find what it did not take yet, when it is back, nor go on with what it did.
func (t losses) giveUp(c *journal.Call) {
	t.out.Stops.Stale[c.Node] = append(t.out.Stops.Stale[c.Node], mail.DeliveriesOf(c)...)
	t.out.Stops.GivenUp[c.Node] = append(t.out.Stops.GivenUp[c.Node], c.Key())
}

// loseBegun ends a call that its lost node may have begun.
func (t losses) loseBegun(c *journal.Call) error {
	if c.State.Sent() {
		t.giveUp(c)
	}
	n, _ := t.Nodes.Get(c.Node)
	is := "is lost"
	if n.Admission == writ.AdmissionRemoved {
		is = "was removed"
	}
	err := writ.Errorf(writ.CodeNodeLost, "%s %s; whether it did %s is unknown", c.NodeName, is, c.Operation)
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

// loseNeed ends a call that no node can do because of what was on one that is gone.
func (t losses) loseNeed(c *journal.Call, lost need) error {
	if c.State.Sent() {
		t.giveUp(c)
	}
	why := fmt.Sprintf("the %s was on it", lost.resource)
	if lost.resource == c.Resource() {
		why = "and what it is about is lost with it"
	}
	err := writ.Errorf(writ.CodeNodeLost, "%s is gone, and no other node can do %s: %s", t.Nodes.Name(lost.node), describe(c), why).
		WithHint("hand the script in again: it makes the %s anew, without what it held", lost.resource)
	return t.fail(c, writ.CallFailed, err)
}

// moveAway plans a call anew under the next attempt, for any node. What becomes of the old one on its node counts no more.
func (t losses) moveAway(c *journal.Call, why writ.Reason) error {
	if c.State.Sent() {
		t.giveUp(c)
		for _, to := range []writ.CallState{writ.CallFailed, writ.CallPlanned} {
			if err := t.move(c, to); err != nil {
				return err
			}
		}
		noteFailureKnown(c, writ.CodeNodeLost) // that it did not act there, or that nothing is left of it, is known
		c.Attempt++
	}
	c.Moved = c.Attempt - 1
	c.Spared = c.Moved - c.Before // nothing was tried
	t.unclaim(c)
	c.Delivery, c.Withdrawn, c.Started, c.Why = 0, 0, time.Time{}, why
	return nil
}

// receiveWithdrawn takes what the queue said of jobs that were to be taken back.
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
		case t.run.Stop != nil && taken.Number < c.Delivery: // the newest one says what becomes of it
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
			continue // it is back, and says itself what it does
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

// FreeNames forgets what a node had, in the transaction in which a person's word is recorded that it never comes back, and writes into its
// record what it must not go on with: another node may have that from then on. It returns the runs that have open calls there; each is to be
// told.
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
