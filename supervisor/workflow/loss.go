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

// loss handles the calls of one run on a lost node.
type loss struct {
	*Step
	node writ.Node
}

// newLoss returns the loss of node id for the run of a step.
func newLoss(t *Step, id writ.NodeID) loss {
	n, _ := t.Nodes.Get(id)
	n.ID = id
	return loss{t, n}
}

// apply handles the calls of the run on a lost node. Calls that were never sent are placed again. Queued jobs are
// withdrawn and placed again. Calls that may have started fail, unless the script asked to wait for the node or for a
// signed decision. If a person has signed that the node is gone, calls that another node can perform are placed again,
// unless they need another lost resource. All other calls fail.
func (t *loss) apply() error {
	n, node := &t.node, t.node.ID
	var without map[int]need
	if n.Gone {
		without = t.callsLosingNeeds()
	}
	for _, c := range t.calls.live {
		if c.Node != node || c.State.Ended() {
			continue
		}
		var err error
		switch {
		case c.State == writ.CallPlanned && neverSent(c):
			t.unclaim(c)
		case n.Gone && without[c.Seq] != (need{}):
			err = t.failWithNeed(c, without[c.Seq])
		case n.Gone && repeatableElsewhere(c):
			err = t.moveAway(c, writ.Reason{Code: writ.ReasonMoved, Node: c.NodeName, State: "gone"})
		case n.Gone:
			err = t.failBegun(c)
		case neverBegan(c): // withdrawn before, while the node was back for a moment
			err = t.moveNeverBegun(c)
		case mayBeWaiting(c):
			t.out.Stops.Reclaim[node] = append(t.out.Stops.Reclaim[node], mail.DeliveriesOf(c)...)
		case !waitsForLost(c, *n):
			err = t.failBegun(c)
		case c.State.Sent():
			t.waitForLost(c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// waitsForLost reports whether a call that may have started on a lost node keeps waiting. With on_loss "wait", it waits
// for the node until the node is removed; with "replace", it waits for a signed decision.
func waitsForLost(c *journal.Call, n writ.Node) bool {
	return c.Options.OnLoss == "replace" || c.Options.OnLoss == "wait" && n.Admission != writ.AdmissionRemoved
}

// IsAway reports whether a node is lost or removed, and thus does not read its queue.
func IsAway(n writ.Node) bool {
	return n.Liveness == writ.LivenessLost || n.Admission == writ.AdmissionRemoved
}

// waitForLost sets the reason of a call that waits for a lost node.
func (t *loss) waitForLost(c *journal.Call) {
	why := writ.Reason{Code: writ.ReasonLostNode, Node: c.NodeName}
	if c.Options.OnLoss == "replace" {
		why.Code = writ.ReasonLostWord
	}
	if !c.Why.Equal(why) {
		c.Why = why
		t.touch(c)
	}
}

// mayBeWaiting reports whether all deliveries of a sent call may still be in the queue. No earlier attempt was sent
// since the call was last moved, and the node never reported the call.
func mayBeWaiting(c *journal.Call) bool {
	return c.State == writ.CallQueued && c.Attempt == c.Moved+1 && c.Started.IsZero()
}

// neverBegan reports whether all deliveries of a call that mayBeWaiting were withdrawn, so that no node has started it.
func neverBegan(c *journal.Call) bool { return mayBeWaiting(c) && c.Withdrawn == c.Delivery }

// repeatableElsewhere reports whether another node can perform a call after its node is gone with all its resources.
func repeatableElsewhere(c *journal.Call) bool {
	op, ok := catalog.Lookup(c.Operation)
	if !ok {
		return false
	}
	runs := op.Effect == catalog.Run && c.Options.Idempotent
	return op.Effect == catalog.Make || op.Effect == catalog.Remove || runs || leavesNothing(c)
}

// giveUp prevents a lost node from starting or continuing a call after the node has returned.
func (t *loss) giveUp(c *journal.Call) {
	t.out.Stops.Stale[c.Node] = append(t.out.Stops.Stale[c.Node], mail.DeliveriesOf(c)...)
	t.out.Stops.GivenUp[c.Node] = append(t.out.Stops.GivenUp[c.Node], c.Key())
}

// nodeLost returns an error with the code NODE_LOST and the node, which programs read.
func nodeLost(node writ.NodeID, format string, args ...any) *writ.Error {
	err := writ.Errorf(writ.CodeNodeLost, format, args...)
	err.Node = node
	return err
}

// failBegun fails a call that its lost node may have started.
func (t *loss) failBegun(c *journal.Call) error {
	if c.State.Sent() {
		t.giveUp(c)
	}
	n, is := &t.node, "is lost"
	if n.Admission == writ.AdmissionRemoved {
		is = "was removed"
	}
	err := nodeLost(c.Node, "%s %s; whether it did %s is unknown", c.NodeName, is, c.Operation)
	switch {
	case n.Gone:
		err = err.WithHint("submit the script again: it creates the resources of %s on another node", c.NodeName)
	case n.Admission == writ.AdmissionRemoved:
		err = err.WithHint("inspect its resources; if it never returns, sign that with `writ node lost %s`: then their names are free", c.NodeName)
	default:
		err = err.WithHint("if the node comes back, inspect the resource; if it never does, sign that with `writ node lost %s`; "+
			"with on_loss: \"wait\" the script waits, with \"replace\" until that is signed", c.NodeName)
	}
	return t.fail(c, writ.CallFailed, err)
}

// failWithNeed fails a call that no other node can perform, because it needs a resource on a node that is gone.
func (t *loss) failWithNeed(c *journal.Call, lost need) error {
	if c.State.Sent() {
		t.giveUp(c)
	}
	why := fmt.Sprintf("the %s was on it", lost.resource)
	if lost.resource == c.Resource() {
		why = "and its resource is lost with the node"
	}
	err := nodeLost(lost.node, "%s is gone, and no other node can do %s: %s", t.Nodes.Name(lost.node), describe(c), why).
		WithHint("submit the script again: it creates the %s again, without its content", lost.resource)
	return t.fail(c, writ.CallFailed, err)
}

// moveAway plans the next attempt of a call, for any node. Results of the old attempt have no further effect on the
// run.
func (t *loss) moveAway(c *journal.Call, why writ.Reason) error {
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

// moveNeverBegun plans the next attempt of a call that its node never received.
func (t *loss) moveNeverBegun(c *journal.Call) error {
	return t.moveAway(c, writ.Reason{Code: writ.ReasonMoved, Node: c.NodeName, State: string(writ.LivenessLost)})
}

// callsLosingNeeds returns the open calls of the run that lose a need with the lost node, by seq.
func (t *loss) callsLosingNeeds() map[int]need {
	stakes := make([]stake, 0, len(t.calls.all))
	for _, c := range t.calls.all {
		s := stake{seq: c.Seq, resource: c.Resource(), open: !c.State.Ended(), there: c.Node == t.node.ID}
		s.moves = neverSent(c) && c.State == writ.CallPlanned || repeatableElsewhere(c)
		if s.open && s.there {
			s.needs = t.needsThere(c)
		}
		stakes = append(stakes, s)
	}
	return withoutNeeds(t.node.ID, stakes)
}

// needsThere returns the needs that must be on the same node as the call: the targets of its handles and the resources
// that it names.
func (t *loss) needsThere(c *journal.Call) (needs []need) {
	for _, seq := range t.calls.colocated(c) {
		if made := t.calls.at(seq); made != nil && together(c, made) {
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
			t.calls.onResource(id).last(c.Seq) != nil {
			continue
		}
		needs = append(needs, need{0, id, c.Node})
	}
	return needs
}

// FreeNames removes the resources of a node from the journal, in the transaction of a signed decision that the node is
// gone. It adds these resources, and the calls that were sent to the node, to Node.Superseded: the node must not
// continue them. It returns the runs with open calls on the node.
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
		r, err := tx.Run(run)
		if err != nil {
			return nil, err
		}
		if r == nil { // the database has lost the run
			continue
		}
		calls, err := tx.CallsAfter(run, r.FirstEnded)
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
