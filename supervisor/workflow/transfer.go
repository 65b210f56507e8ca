package workflow

import (
	"fmt"
	"slices"

	"writ"
	"writ/identity/envelope"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/supervisor/journal"
)

// transfer grants a node access to the source of a copy on another node.
type transfer struct{ *Step }

// near returns the needs of a call that must be on its node: all needs except the source of a copy.
func (t transfer) near(c *journal.Call) []int {
	op, _ := catalog.Lookup(c.Operation)
	if op.Origin == "" {
		return c.After
	}
	return slices.DeleteFunc(slices.Clone(c.After), func(seq int) bool {
		need := t.call(seq)
		return need != nil && t.isOrigin(op, c, need)
	})
}

// isOrigin reports whether a call concerns the resource that another one copies.
func (t transfer) isOrigin(op *catalog.Operation, c, need *journal.Call) bool {
	if name, ok := c.Args[op.Origin].(string); ok {
		field, _ := op.Args.Field(op.Origin)
		return need.Resource() == writ.ResourceID{Project: c.Project, Kind: field.Kinds[0], Name: name}
	}
	seq, ok := scripts.RefOf(c.Args[op.Origin])
	return ok && seq == need.Seq
}

// grant signs a transfer grant for the node of a call that copies from another node. It returns nil if the call copies
// nothing or copies on its own node. It also returns nil if the source is gone; the node then reports the error.
func (t transfer) grant(tx *journal.Tx, op *catalog.Operation, c *journal.Call) ([]byte, error) {
	if op.Origin == "" {
		return nil, nil
	}
	from, err := t.originOf(tx, op, c)
	if err != nil || from == nil || from.Node == "" || from.Node == c.Node {
		return nil, err
	}
	giver, fetcher := t.Nodes.Record(from.Node), t.Nodes.Record(c.Node)
	_, _, beats := t.Presence.Works(from.Node, writ.JobKey{})
	if giver == nil || fetcher == nil {
		return nil, fmt.Errorf("call %d of run %s copies from or to a node that is not known", c.Seq, c.Run)
	}
	snapshot, _ := c.Args["snapshot"].(string)
	return envelope.Sign(envelope.TransferGrant, t.Key, writ.TransferGrant{
		Cluster: t.Cluster, Datacenter: t.Datacenter, Transfer: fmt.Sprintf("%s-%d", c.Run, c.Seq),
		From: giver.ID, FromName: giver.Name, FromKey: giver.PublicKey, Address: giver.Transfers, Unheard: beats == 0,
		To: fetcher.ID, ToKey: fetcher.PublicKey, Resource: from.ResourceID, UID: from.UID, Snapshot: snapshot,
		Expires: c.EndBy.UnixMilli(),
	})
}

// originOf returns the resource that a call copies, nil if it is gone.
func (t transfer) originOf(tx *journal.Tx, op *catalog.Operation, c *journal.Call) (*writ.Resource, error) {
	var id writ.ResourceID
	var uid writ.UID
	if name, ok := c.Args[op.Origin].(string); ok {
		field, _ := op.Args.Field(op.Origin)
		id = writ.ResourceID{Project: c.Project, Kind: field.Kinds[0], Name: name}
	} else if seq, ok := scripts.RefOf(c.Args[op.Origin]); ok && t.call(seq) != nil {
		id, uid = t.call(seq).Resource(), t.call(seq).UID
	}
	have, err := tx.Resource(id)
	if err != nil || have == nil || uid != "" && have.UID != uid {
		return nil, err
	}
	return &have.Resource, nil
}
