package workflow

import (
	"maps"
	"slices"
	"time"

	"writ"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
	"writ/supervisor/nodes"
	"writ/supervisor/placement"
)

const (
	// startWithin limits how long a delivery may wait in the queue of its node. After that the node refuses the delivery,
	// and the supervisor sends the next delivery.
	startWithin = nodes.StartWithin
	// startMost limits the wait of later deliveries, if long jobs take all slots of the node.
	startMost = 15 * time.Minute
	// StopWithin limits how long a cancelled or expired run waits for reports about its started calls.
	StopWithin = 30 * time.Second
)

// sender prepares the deliveries of placed calls, in the transaction of the step.
type sender struct {
	*Step
	tx      *journal.Tx
	back    map[writ.NodeID]int // see cameBack
	lacking bool                // a call was not sent because of a missing secret
}

// sendCalls sends the planned calls whose needs are met, as far as their nodes have room.
func (t *sender) sendCalls() error {
	t.back = cameBack(t.calls.live)
	byNode := make(map[writ.NodeID][]*journal.Call)
	for _, c := range t.calls.live {
		if c.State != writ.CallPlanned || !c.Claimed || c.Node == "" || t.run.Stop != nil || !t.calls.met(c) {
			continue
		}
		h, err := holdOver(t.Step, t.tx, c)
		if err != nil {
			return err
		}
		if h != nil && !c.RetryAt.After(t.now) {
			t.putOnHold(c, h)
			continue
		}
		if !c.Ready {
			c.Ready = true
			t.touch(c)
		}
		if c.RetryAt.After(t.now) {
			continue
		}
		byNode[c.Node] = append(byNode[c.Node], c)
	}
	for _, node := range slices.Sorted(maps.Keys(byNode)) {
		if err := t.sendTo(node, byNode[node]); err != nil {
			return err
		}
	}
	if t.lacking {
		return t.cascade()
	}
	return nil
}

// sendTo sends calls to a node, limited by its room and by the share of the project.
func (t *sender) sendTo(node writ.NodeID, calls []*journal.Call) error {
	member, why := t.Nodes.Away(node)
	if !why.IsZero() {
		for _, c := range calls {
			why.Node = c.NodeName
			t.delay(c, why)
		}
		return nil
	}
	load, err := t.tx.Load(node)
	if err != nil {
		return err
	}
	room := placement.Room(member.Slots, load.Sent()) + t.back[node]
	if room <= 0 {
		if room, err = t.spareRoom(node, member, load); err != nil {
			return err
		}
	}
	if room > 0 && t.Backlog.HasBacklog(node) {
		ours, others, err := t.shareRoom(node, room, len(calls))
		if err != nil {
			return err
		}
		room, t.out.Runs = ours, append(t.out.Runs, others...)
	}
	for _, c := range calls {
		if room <= 0 {
			t.Backlog.SetBacklog(node, true)
			break
		}
		if err := t.deliver(c); err != nil {
			return err
		}
		t.Backlog.Serve(node, t.run.Project)
		room--
	}
	return nil
}

// cameBack returns, by node, the number of sent calls of the run that ended or were withdrawn in this step. The load in
// the journal still counts these calls.
func cameBack(calls []*journal.Call) map[writ.NodeID]int {
	back := make(map[writ.NodeID]int)
	for _, c := range calls {
		if c.WasOut() && !c.State.Sent() {
			back[c.Node]++
		}
	}
	return back
}

// spareRoom returns the room that a full node still has for the run's project; see placement.Spare.
func (t *sender) spareRoom(node writ.NodeID, member writ.Node, load journal.Load) (int, error) {
	out, err := t.tx.SentByProject(node)
	if err != nil {
		return 0, err
	}
	back := t.back[node]
	return placement.Spare(member.Slots, load.Sent()-back, out[t.run.Project]-back), nil
}

// deliver records the next delivery of a planned call and prepares its job.
func (t *sender) deliver(c *journal.Call) error {
	secrets, missing, err := t.secretsFor(c)
	if err != nil {
		return err
	}
	if missing != nil {
		t.lacking = true
		return t.fail(c, writ.CallFailed, missing)
	}
	if err := c.Move(writ.CallQueued); err != nil {
		return err
	}
	c.Queued = t.now
	return t.addDelivery(c, secrets, startWithin)
}

// deliverAgain sends a call again whose last delivery is neither on its node nor in the queue. If the node
// has reported the job since, deliverAgain returns at once.
func (t *sender) deliverAgain(lost mail.Delivery) error {
	c := t.calls.sent(lost.Key)
	if c == nil || c.Delivery != lost.Number {
		return nil
	}
	if active, _, _ := t.Presence.Works(c.Node, lost.Key); active {
		return nil
	}
	if n, _ := t.Nodes.Get(c.Node); n.Admission == writ.AdmissionRemoved {
		return nil // the node receives no jobs; unstarted calls are placed elsewhere
	}
	if t.run.StopsCalls() { // the order to stop may be lost too
		t.callBack(c)
		return nil
	}
	h, err := holdOver(t.Step, t.tx, c)
	if err != nil {
		return err
	}
	if h != nil {
		t.keepBack(c, h)
		return nil
	}
	if c.State == writ.CallRunning {
		if err := c.Move(writ.CallQueued); err != nil {
			return err
		}
	}
	// if a secret is missing now, the node reports the missing secret, unless it has done the job already
	secrets, _, err := t.secretsFor(c)
	if err != nil {
		return err
	}
	within := startWithin
	if c.State == writ.CallQueued && c.StartBy.Before(t.now) { // the node would refuse a delivery that waited too long
		t.out.Stops.Withdraw[c.Node] = append(t.out.Stops.Withdraw[c.Node], mail.DeliveriesOf(c)...)
		if t.Presence.Busy(c.Node) {
			within = min(startWithin<<min(c.Delivery, 8), startMost)
		}
	}
	return t.addDelivery(c, secrets, within)
}

// shareRoom divides the room of a node that other runs wait for. It returns how many of the run's calls may use it, and
// the runs to wake for the rest.
func (t *sender) shareRoom(node writ.NodeID, room, calls int) (ours int, others []writ.RunID, err error) {
	lines, err := t.Shares.Lines(t.tx, node, t.now, room, t.run.Project)
	if err != nil {
		return 0, nil, err
	}
	for i := range lines {
		if l := &lines[i]; l.Project == t.run.Project {
			l.Sent -= t.back[node]
			l.Runs = placement.Enqueue(l.Runs, t.run.ID, calls)
		}
	}
	for _, run := range placement.Share(room, lines) {
		if run == t.run.ID {
			ours++
		} else {
			others = append(others, run)
		}
	}
	return ours, others, nil
}
