package workflow

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"writ"
	"writ/internal/cbor"
	"writ/sal/catalog"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
	"writ/supervisor/outbox"
	"writ/supervisor/placement"
)

const (
	// startWithin limits how long a delivery may wait in the queue of its node. After that the node refuses it and the
	// next delivery is sent.
	startWithin = 60 * time.Second
	// startMost limits the wait of later deliveries, if long jobs take all slots of the node.
	startMost = 15 * time.Minute
	// StopWithin limits how long a cancelled or expired run waits for reports about its started calls.
	StopWithin = 30 * time.Second
)

// sender prepares the deliveries of placed calls.
type sender struct{ *Step }

// sendCalls sends the planned calls whose needs are met, as far as their nodes have room.
func (t sender) sendCalls(tx *journal.Tx) error {
	byNode := make(map[writ.NodeID][]*journal.Call)
	for _, c := range t.calls {
		if c.State != writ.CallPlanned || !c.Claimed || c.Node == "" || t.run.Stop != nil || !t.met(c) {
			continue
		}
		h, err := waiter(t).onHold(tx, c)
		if err != nil {
			return err
		}
		if h != nil && !c.RetryAt.After(t.now) {
			waiter(t).putOnHold(c, h)
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
		if err := t.sendTo(tx, node, byNode[node]); err != nil {
			return err
		}
	}
	if t.lacking {
		return ender(t).cascade()
	}
	return nil
}

// met reports whether all needs of a call have succeeded and all earlier calls on its resource have ended.
func (t sender) met(c *journal.Call) bool {
	return !slices.ContainsFunc(c.After, func(seq int) bool { return t.call(seq).State != writ.CallSucceeded }) &&
		!slices.ContainsFunc(c.Orders, func(seq int) bool { return !t.call(seq).State.Ended() })
}

// sendTo sends calls to a node, limited by its room and by the share of the project.
func (t sender) sendTo(tx *journal.Tx, node writ.NodeID, calls []*journal.Call) error {
	member, why := t.Nodes.Away(node)
	if !why.IsZero() {
		for _, c := range calls {
			why.Node = c.NodeName
			t.delay(c, why)
		}
		return nil
	}
	load, err := tx.Load(node)
	if err != nil {
		return err
	}
	room := placement.Room(member.Slots, load.Sent()) + t.cameBack(node)
	if room <= 0 {
		if room, err = t.spareRoom(tx, node, member, load); err != nil {
			return err
		}
	}
	if room > 0 && t.Backlog.HasBacklog(node) {
		ours, others, err := t.shareRoom(tx, node, room, len(calls))
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
		if err := t.deliver(tx, c); err != nil {
			return err
		}
		t.Backlog.Serve(node, t.run.Project)
		room--
	}
	return nil
}

// cameBack returns the number of the run's calls on a node that ended in this step. The load from the journal still
// counts them.
func (t sender) cameBack(node writ.NodeID) (n int) {
	for _, c := range t.calls {
		if c.WasOut() && !c.State.Sent() && c.Node == node {
			n++
		}
	}
	return n
}

// spareRoom returns the spare room of a full node for the run's project.
func (t sender) spareRoom(tx *journal.Tx, node writ.NodeID, member writ.Node, load journal.Load) (int, error) {
	out, err := tx.SentByProject(node)
	if err != nil {
		return 0, err
	}
	back := t.cameBack(node)
	return placement.Spare(member.Slots, load.Sent()-back, out[t.run.Project]-back), nil
}

// deliver records the next delivery of a planned call and prepares its job.
func (t sender) deliver(tx *journal.Tx, c *journal.Call) error {
	secrets, missing, err := t.secretsFor(tx, c)
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
	return t.addDelivery(tx, c, secrets, startWithin)
}

// deliverAgain sends a call again whose last delivery is neither on its node nor in the queue. It does nothing if the
// node has reported the job since.
func (t sender) deliverAgain(tx *journal.Tx, lost mail.Delivery) error {
	c := t.open(lost.Key)
	if c == nil || c.Delivery != lost.Number {
		return nil
	}
	if active, _, _ := t.Presence.Works(c.Node, lost.Key); active {
		return nil
	}
	if n, _ := t.Nodes.Get(c.Node); n.Admission == writ.AdmissionRemoved {
		return nil // it receives no jobs; unstarted calls are placed elsewhere
	}
	if t.run.Stop != nil && t.run.StopState != writ.RunFailed { // the stop message may be lost too
		ender(t).callBack(c)
		return nil
	}
	h, err := waiter(t).onHold(tx, c)
	if err != nil {
		return err
	}
	if h != nil {
		waiter(t).keepBack(c, h)
		return nil
	}
	if c.State == writ.CallRunning {
		if err := c.Move(writ.CallQueued); err != nil {
			return err
		}
	}
	// if a secret is missing now, the node reports that, unless it has done the job already
	secrets, _, err := t.secretsFor(tx, c)
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
	return t.addDelivery(tx, c, secrets, within)
}

// addDelivery records a delivery that must start within the given time, and prepares its job. The job is sent after the
// commit.
func (t sender) addDelivery(tx *journal.Tx, c *journal.Call, secrets map[string][]byte, within time.Duration) error {
	op, _ := catalog.Lookup(c.Operation)
	args, err := op.Args.ReplaceHandles(c.Args, t.ref)
	if err != nil {
		return fmt.Errorf("call %d of run %s: %w", c.Seq, c.Run, err)
	}
	timeout := op.Timeout
	if c.Options.Timeout > 0 {
		timeout = time.Duration(c.Options.Timeout) * time.Millisecond
	}
	c.Delivery++
	c.Why, c.KeptBack = writ.Reason{}, false
	c.StartBy = earlier(t.now.Add(within), t.run.Deadline)
	c.EndBy = earlier(c.StartBy.Add(timeout), t.run.Deadline)
	t.touch(c)
	grant, err := transfer(t).grant(tx, op, c)
	if err != nil {
		return err
	}
	job := writ.Job{
		JobKey: c.Key(), Cluster: t.Cluster, Datacenter: t.Datacenter, Node: c.Node, Delivery: c.Delivery, Epoch: t.Epoch,
		Operation: c.Operation, Project: c.Project, Name: c.Name, UID: c.UID, Args: args, Secrets: secrets, Grant: grant,
		Idempotent: c.Options.Idempotent, Weight: t.Shares.Weight(c.Project),
		Resumes: t.run.Resumes, KnownFailures: c.KnownFailures, Payload: t.run.Payload, Accepted: t.run.Accepted.UnixMilli(),
		StartBy: c.StartBy.UnixMilli(), EndBy: c.EndBy.UnixMilli(), Deadline: t.run.Deadline.UnixMilli(),
	}
	body, err := cbor.Marshal(job)
	if err != nil {
		return fmt.Errorf("encode job: %w", err)
	}
	t.out.Jobs[c.Node] = append(t.out.Jobs[c.Node], outbox.Job{Task: job.TaskID(), Body: body, EndBy: c.EndBy})
	return tx.AddDelivery(c, writ.DigestOf(body), t.Epoch)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// shareRoom divides the room of a node that other runs wait for. It returns how many of the run's calls may use it, and
// the runs to wake for the rest.
func (t sender) shareRoom(
	tx *journal.Tx, node writ.NodeID, room, calls int,
) (ours int, others []writ.RunID, err error) {
	lines, err := t.Shares.Lines(tx, node, t.now, room, t.run.Project)
	if err != nil {
		return 0, nil, err
	}
	for i := range lines {
		if l := &lines[i]; l.Project == t.run.Project {
			l.Sent -= t.cameBack(node)
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

// secretsFor returns the secrets that a call names, encrypted to its node. missing is the error about a secret that is
// unknown or unreadable.
func (t sender) secretsFor(
	tx *journal.Tx, c *journal.Call,
) (ciphertext map[string][]byte, missing *writ.Error, err error) {
	op, _ := catalog.Lookup(c.Operation)
	names := op.Args.Secrets(c.Args)
	if len(names) == 0 {
		return nil, nil, nil
	}
	ciphertext = make(map[string][]byte, len(names))
	for _, name := range names {
		one, err := t.secretFor(tx, c, string(name))
		switch code := writ.CodeOf(err); {
		case code == writ.CodeSecretUnknown || code == writ.CodeSecretUnreadable:
			missing = writ.AsError(err)
		case err != nil:
			return nil, nil, err
		default:
			ciphertext[string(name)] = one
		}
	}
	return ciphertext, missing, nil
}

// secretFor returns one secret, encrypted to the node of a call.
func (t sender) secretFor(tx *journal.Tx, c *journal.Call, ref string) ([]byte, error) {
	name, version := SplitRef(ref)
	have, err := tx.Secret(c.Project, name, version)
	if err != nil {
		return nil, err
	}
	if have == nil {
		return nil, SecretUnknown(ref, t.run.ProjectName)
	}
	node := t.Nodes.Record(c.Node)
	if node == nil {
		return nil, fmt.Errorf("call %d of run %s is to be sent to a node that is not known", c.Seq, c.Run)
	}
	return t.Secrets.Encrypted(have, node)
}
