package workflow

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/internal/cbor"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/supervisor/journal"
	"writ/supervisor/outbox"
)

// addDelivery records a delivery that must start within the given time, and prepares its job. The job is sent after the
// commit.
func (t *sender) addDelivery(c *journal.Call, secrets map[string][]byte, within time.Duration) error {
	op, _ := catalog.Lookup(c.Operation)
	args, err := op.Args.ReplaceHandles(c.Args, t.calls.ref)
	if err != nil {
		return fmt.Errorf("call %d of run %s: %w", c.Seq, c.Run, err)
	}
	timeout, err := t.timeout(op, c)
	if err != nil {
		return err
	}
	c.Delivery++
	c.Why, c.KeptBack = writ.Reason{}, false
	c.StartBy = earlier(t.now.Add(within), t.run.Deadline)
	c.EndBy = earlier(c.StartBy.Add(timeout), t.run.Deadline)
	t.touch(c)
	if op.Effect == catalog.Run { // no resource is stored, but its usage is charged
		ran := writ.Resource{ResourceID: c.Resource(), UID: c.UID, Node: c.Node, Created: c.Queued}
		if err := journal.Depart(t.tx, &journal.Resource{Resource: ran}); err != nil {
			return err
		}
	}
	grant, err := t.transferGrant(op, c)
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
	return t.tx.AddDelivery(c, writ.DigestOf(body), t.Epoch)
}

// timeout returns the time limit of one attempt of a call.
func (t *sender) timeout(op *catalog.Operation, c *journal.Call) (time.Duration, error) {
	if c.Options.Timeout > 0 {
		return time.Duration(c.Options.Timeout) * time.Millisecond, nil
	}
	var made map[string]any
	if op.Effect == catalog.Remove || op.AwaitsHealth { // the operation ends or starts the program of its resource
		have, err := t.tx.Resource(c.Resource())
		if err != nil {
			return 0, err
		}
		if have != nil {
			made = have.Args
		}
	}
	return op.TimeLimit(c.Args, made), nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// secretsFor returns the secrets that a call names, encrypted to its node. missing is the error about a secret that is
// unknown or unreadable.
func (t *sender) secretsFor(c *journal.Call) (ciphertext map[string][]byte, missing *writ.Error, err error) {
	op, _ := catalog.Lookup(c.Operation)
	names := op.Args.Secrets(c.Args)
	if len(names) == 0 {
		return nil, nil, nil
	}
	ciphertext = make(map[string][]byte, len(names))
	for _, name := range names {
		one, err := t.secretFor(c, string(name))
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
func (t *sender) secretFor(c *journal.Call, ref string) ([]byte, error) {
	name, version := SplitRef(ref)
	have, err := t.tx.Secret(c.Project, name, version)
	if err != nil {
		return nil, err
	}
	if have == nil {
		return nil, SecretUnknown(ref, t.run.ProjectName)
	}
	node := t.Nodes.Record(c.Node)
	if node == nil {
		return nil, fmt.Errorf("call %d of run %s is to be sent to an unknown node", c.Seq, c.Run)
	}
	return t.Secrets.Encrypted(have, node)
}

// SecretUnknown returns the error about a missing secret.
func SecretUnknown(ref, project string) *writ.Error {
	return writ.Errorf(writ.CodeSecretUnknown, "project %s has no secret %s in this datacenter", project, ref).
		WithHint("`writ secret list` shows the secrets; set it with `writ secret set`, then sign the script again")
}

// SplitRef splits a secret reference of a payload, such as "db-password@3", into name and version.
func SplitRef(ref string) (name string, version int) {
	name, text, _ := strings.Cut(ref, "@")
	version, _ = strconv.Atoi(text)
	return name, version
}

// transferGrant signs the permission for the node of a call to copy from another node. It returns nil if the call
// copies from its own node or does not copy. It also returns nil if the source is gone; the node then reports the
// error.
func (t *sender) transferGrant(op *catalog.Operation, c *journal.Call) ([]byte, error) {
	if op.Origin == "" {
		return nil, nil
	}
	from, err := originOf(t.tx, &t.calls, op, c)
	if err != nil || from == nil || from.Node == "" || from.Node == c.Node {
		return nil, err
	}
	giver, fetcher := t.Nodes.Record(from.Node), t.Nodes.Record(c.Node)
	_, _, beats := t.Presence.Works(from.Node, writ.JobKey{})
	if giver == nil || fetcher == nil {
		return nil, fmt.Errorf("call %d of run %s copies from or to an unknown node", c.Seq, c.Run)
	}
	snapshot, _ := c.Args["snapshot"].(string)
	return envelope.Sign(envelope.TransferGrant, t.Key, writ.TransferGrant{
		Cluster: t.Cluster, Datacenter: t.Datacenter, Transfer: fmt.Sprintf("%s-%d", c.Run, c.Seq),
		From: giver.ID, FromName: giver.Name, FromKey: giver.PublicKey, Address: giver.Transfers, Unheard: beats == 0,
		To: fetcher.ID, ToKey: fetcher.PublicKey, Resource: from.ResourceID, UID: from.UID, Snapshot: snapshot,
		Expires: c.EndBy.UnixMilli(),
	})
}

// isOrigin reports whether the call c copies the resource of the call `need`.
func isOrigin(op *catalog.Operation, c, need *journal.Call) bool {
	if name, ok := c.Args[op.Origin].(string); ok {
		field, _ := op.Args.Field(op.Origin)
		return need.Resource() == writ.ResourceID{Project: c.Project, Kind: field.Kinds[0], Name: name}
	}
	seq, ok := scripts.RefOf(c.Args[op.Origin])
	return ok && seq == need.Seq
}

// originOf returns the resource that a call copies, nil if it is gone.
func originOf(tx *journal.Tx, calls *callList, op *catalog.Operation, c *journal.Call) (*writ.Resource, error) {
	var id writ.ResourceID
	var uid writ.UID
	if name, ok := c.Args[op.Origin].(string); ok {
		field, _ := op.Args.Field(op.Origin)
		id = writ.ResourceID{Project: c.Project, Kind: field.Kinds[0], Name: name}
	} else if seq, ok := scripts.RefOf(c.Args[op.Origin]); ok && calls.at(seq) != nil {
		id, uid = calls.at(seq).Resource(), calls.at(seq).UID
	}
	have, err := tx.Resource(id)
	if err != nil || have == nil || uid != "" && have.UID != uid {
		return nil, err
	}
	return &have.Resource, nil
}
