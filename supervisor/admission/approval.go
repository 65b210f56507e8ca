package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"writ"
	"writ/identity"
	"writ/internal/failpoint"
	"writ/internal/sqldb"
	"writ/supervisor/decision"
	"writ/supervisor/fleet"
	"writ/supervisor/journal"
	"writ/supervisor/link"
)

// mayReport reports whether the serial number in a claim may be looked up. To make guessing slow, each network may
// report a burst of serialsAtOnce new numbers, and then one number per minute. A waiting node may repeat its number
// without limit.
func (o *Batches) mayReport(n *journal.Node, network string) bool {
	if n.Serial == "" {
		return true
	}
	if waits := o.site.Pending.Get(n.ID); waits != nil && waits.Serial == n.Serial {
		return true
	}
	_, may := o.reported.Reserve(network, 1, 0)
	if times, say := o.site.Refusals.Say("serials", time.Now()); !may && say {
		o.site.Log.Warn("a network reports many serial numbers; they are not compared with batches", "network", network,
			"most", serialsAtOnce, "times", times)
	}
	return may
}

// forSerial returns the oldest batch that admits a node with this serial number, or nil.
func (o *Batches) forSerial(serial string) *openBatch {
	if serial == "" {
		return nil
	}
	for _, b := range o.listing(serial, o.site.Now()) {
		if _, err := o.approve(&b.NodeBatch, serial); err == nil {
			return b
		}
	}
	return nil
}

// errNotApproved reports that a batch does not admit a node. The node does not receive this error: it waits.
var errNotApproved = errors.New("the batch does not approve the node")

// approve returns the verified statement of a batch if the batch admits a node with this serial number. A number that
// another node holds is rejected even if the batch record in the database claims that the number is unused.
func (o *Batches) approve(b *journal.NodeBatch, serial string) (*identity.VerifiedStatement, error) {
	if b.Ended(o.site.Now()) || b.Used(serial) || holder(o.site.Fleet.Members, serial, b) != nil {
		return nil, errNotApproved
	}
	v, says, err := o.verify(b)
	if err != nil {
		return nil, err
	}
	if !says.Lists(serial) || max(len(b.Admitted), len(admittedBy(o.site.Fleet.Members, b.ID))) >= says.Most {
		return nil, errNotApproved
	}
	return v, nil
}

// verify verifies the stored statement of a batch. It returns an error if the signer would not have the right to sign
// the statement now, or if the datacenter has manual approval.
func (o *Batches) verify(b *journal.NodeBatch) (*identity.VerifiedStatement, identity.Batch, error) {
	v, err := o.site.Verifier().PastStatement(b.Signed)
	if err != nil {
		return nil, identity.Batch{}, err
	}
	if v.Statement.Subject != "batch/"+b.ID || v.Statement.Decision != "create" {
		return nil, identity.Batch{}, writ.Errorf(writ.CodeRecordForged,
			"the journal returned another statement for the batch %s", b.ID)
	}
	if err := v.Roster.Allows(v.Signer, v.Rule.Action, "", o.site.Now()); err != nil {
		return nil, identity.Batch{}, err
	}
	if err := TakesBatches(v.Roster.Datacenter(o.site.Datacenter)); err != nil {
		return nil, identity.Batch{}, err
	}
	says, err := identity.ParseBatch(v.Statement)
	return v, says, err
}

// TakesBatches returns an error if the datacenter has manual approval: a person then compares the key of each node on
// its machine.
func TakesBatches(d *identity.Datacenter) error {
	if !d.ManualApproval {
		return nil
	}
	return writ.Errorf(writ.CodeConflict, "%s has manual approval: each node is approved by its key", d.Name).
		WithHint("approve each node with `writ node approve`, "+
			"or have a root operator sign `writ dc set %s --manual-approval=false`", d.Name)
}

// admit writes the node record and marks its serial number as used in the batch, in one transaction. It returns
// errNotApproved if the batch no longer admits the node.
func (o *Batches) admit(ctx context.Context, asks journal.Node, id string) (*journal.Node, error) {
	var n journal.Node
	err := o.site.Journal.Write(failpoint.At(ctx, failpoint.NodeBatched), func(tx *journal.Tx) error {
		if was, err := tx.Node(asks.ID); err != nil || was != nil {
			return cmp.Or[error](err, errDecidedMeanwhile)
		}
		b, err := tx.NodeBatch(id)
		if err != nil || b == nil {
			return cmp.Or[error](err, errNotApproved)
		}
		v, err := o.approve(b, asks.Serial)
		if err != nil {
			return errNotApproved
		}
		b.Admitted = append(b.Admitted, asks.Serial)
		n = asks
		n.Joined, n.Admission, n.Batch, n.Decisions, n.Revision = tx.Now, writ.AdmissionApproved, id, 1, 1
		n.Decided = []writ.Decision{{
			Decision: "approve", Signer: v.Signer, Reason: fmt.Sprintf("batch %s lists its serial number %s", id, n.Serial),
			Time: tx.Now,
		}}
		if err := tx.PutNodeBatch(b); err != nil {
			return err
		}
		if err := tx.PutNode(&n); err != nil {
			return err
		}
		shown := n.Node
		tx.AddEvents(writ.Event{Node: &shown})
		kept := *b
		tx.Then(func() {
			o.site.Apply(n)
			o.Put(kept)
		})
		return nil
	})
	if sqldb.IsDuplicate(err) {
		return nil, decision.NameTaken(asks.Name)
	}
	if err != nil {
		return nil, err
	}
	o.site.Log.Info("node joined by a batch", "node", n.Name, "id", n.ID, "key", n.Key, "batch", id, "serial", n.Serial)
	return &n, nil
}

// holder returns a node that prevents batch b from admitting another node with this serial number, or nil.
func holder(members *fleet.Members, serial string, b *journal.NodeBatch) *journal.Node {
	if all := members.Select(func(n *journal.Node) bool { return holds(n, serial, b) }); len(all) > 0 {
		return &all[0]
	}
	return nil
}

// holds reports whether n prevents batch b from admitting another node with this serial number. n must have the number.
// In addition, one condition must hold: b admitted n; n is approved or pending; the last decision about n is not older
// than b.
func holds(n *journal.Node, serial string, b *journal.NodeBatch) bool {
	if n.Serial != serial {
		return false
	}
	last := len(n.Decided) - 1
	return n.Batch == b.ID || n.Admission == writ.AdmissionApproved || n.Admission == writ.AdmissionPending ||
		last >= 0 && !n.Decided[last].Time.Before(b.Made)
}

// List returns the batches with their admitted nodes, and the pending nodes whose serial number another node
// holds.
func (o *Batches) List(ctx context.Context) ([]link.Batch, error) {
	kept, err := journal.Query(ctx, o.site.Journal, func(tx *journal.Tx) ([]*journal.NodeBatch, error) {
		return tx.NodeBatches(MaxBatches)
	})
	list := []link.Batch{}
	for _, b := range kept {
		list = append(list, o.show(b))
	}
	return list, err
}

func (o *Batches) show(b *journal.NodeBatch) link.Batch {
	shown := link.Batch{
		ID: b.ID, Datacenter: o.site.Datacenter, Until: b.Until, Revoked: b.Revoked,
		Admitted: admittedBy(o.site.Fleet.Members, b.ID),
	}
	statement, says, err := readBatch(b.Signed)
	if err == nil {
		shown.CreatedBy, shown.Reason = statement.Signer, statement.Reason
		_, _, err = o.verify(b)
	}
	if err != nil && !b.Ended(o.site.Now()) {
		shown.Void = writ.AsError(err).Message
	}
	shown.Serials, shown.Max = len(says.Serials), says.Most
	for _, n := range o.site.Pending.List() {
		if n.Host == nil || !says.Lists(n.Host.Serial) {
			continue
		}
		if holder := holder(o.site.Fleet.Members, n.Host.Serial, b); holder != nil {
			shown.Contested = append(shown.Contested, link.BatchNode{
				Serial: n.Host.Serial, Name: n.Name, Key: n.Key, Admission: n.Admission, Holder: holder.Name,
			})
		}
	}
	return shown
}

// admittedBy returns the nodes that a batch has admitted, sorted by name and key.
func admittedBy(members *fleet.Members, batch string) []link.BatchNode {
	all := []link.BatchNode{}
	for _, n := range members.Select(func(n *journal.Node) bool { return n.Batch == batch }) {
		all = append(all, link.BatchNode{Serial: n.Serial, Name: n.Name, Key: n.Key, Admission: n.Admission})
	}
	return all
}
