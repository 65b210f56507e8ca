package journal

import (
	"fmt"
	"slices"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/internal/cbor"
	"writ/internal/sqldb"
)

// Node is a node with its keys.
type Node struct {
	writ.Node
	PublicKey []byte `json:"public_key"` // ed25519, 32 bytes
	AgeKey    string `json:"age_key,omitempty"`
	// Decisions is the number of decisions about the node. Of two records of a node, the record with more decisions is
	// newer.
	Decisions int    `json:"decisions,omitempty"`
	Token     string `json:"token,omitempty"` // ID of the token it joined with
	Batch     string `json:"batch,omitempty"` // ID of the batch that admitted it
	// Serial is the serial number of its machine, from its request to join. Later reports do not change it.
	Serial string `json:"serial,omitempty"`
	// Lost is the signed statement that declares the node lost. The node verifies it.
	Lost []byte `json:"lost,omitempty"`
	// Superseded lists the resources and attempts that a lost node must not continue. FenceAnswer is the node's signed
	// answer to the order to stop them.
	Superseded  []Superseded `json:"superseded,omitempty"`
	FenceAnswer []byte       `json:"fence_answer,omitempty"`
	FenceRound  int64        `json:"fence_round,omitempty"` // round of that answer; a later answer replaces it
}

// Superseded is a resource or a call that a node had when a person declared it lost. The call was sent and may have
// started.
type Superseded struct {
	writ.ResourceID
	UID writ.UID     `json:"uid,omitempty"`
	Job *writ.JobKey `json:"job,omitempty"` // set for a call
}

// column returns the node's value of the unique name column: only an admitted node owns its name.
func (n *Node) column() string {
	if n.Admission == writ.AdmissionApproved {
		return n.Name
	}
	return "~" + string(n.ID) // not a valid name
}

// PutNode stores a new or changed node. Keys are unique in the datacenter, and names among the admitted nodes. For a
// duplicate it returns an error that sqldb.IsDuplicate recognizes.
func (tx *Tx) PutNode(n *Node) error {
	body, err := encode(tx, "nodes", n, string(n.ID))
	if err != nil {
		return err
	}
	return tx.exec(`INSERT INTO nodes (id, name, key_id, body) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, body = excluded.body`,
		string(n.ID), n.column(), string(envelope.IDOf(n.PublicKey)), body)
}

// Node returns a node, or nil if it is unknown.
func (tx *Tx) Node(id writ.NodeID) (*Node, error) {
	return get[Node](tx, "nodes", `SELECT body FROM nodes WHERE id = $1`, string(id))
}

// NodeNamed returns the admitted node with a name, or nil.
func (tx *Tx) NodeNamed(name string) (*Node, error) {
	id, err := sqldb.First[writ.NodeID](tx.QueryRowContext(tx.ctx, `SELECT id FROM nodes WHERE name = $1`, name))
	if id == "" {
		return nil, err
	}
	n, err := tx.Node(id)
	if n != nil && n.column() != name { // column and record differ
		return nil, err
	}
	return n, err
}

// Nodes returns all nodes, sorted by name. Removed nodes are kept, so that no ID is reused.
func (tx *Tx) Nodes() ([]*Node, error) {
	return list[Node](tx, "nodes", `SELECT id, body FROM nodes ORDER BY name`)
}

// NodeBatch is a batch of nodes that a person approved by the serial numbers of their machines. The conditions are only
// in the signed text, which is verified at each admission.
type NodeBatch struct {
	ID       string    `json:"id"`
	Signed   []byte    `json:"signed"` // statement that created it
	Made     time.Time `json:"made"`   // when the supervisor carried out the statement
	Until    time.Time `json:"until"`  // from the statement, or the time of revocation
	Revoked  time.Time `json:"revoked,omitzero"`
	Admitted []string  `json:"admitted,omitempty"` // serial numbers of the admitted nodes, in order of admission
}

// Used reports whether the batch has admitted a node with this serial number.
func (b *NodeBatch) Used(serial string) bool { return slices.Contains(b.Admitted, serial) }

// Ended reports whether the batch is revoked or has expired.
func (b *NodeBatch) Ended(now time.Time) bool { return !b.Revoked.IsZero() || !b.Until.After(now) }

// PutNodeBatch stores a new or changed batch.
func (tx *Tx) PutNodeBatch(b *NodeBatch) error {
	body, err := encode(tx, "batches", b, b.ID)
	if err != nil {
		return err
	}
	return tx.exec(`INSERT INTO batches (id, until, body) VALUES ($1, $2, $3)
		ON CONFLICT (id) DO UPDATE SET until = excluded.until, body = excluded.body`, b.ID, sqldb.Micros(b.Until), body)
}

// NodeBatch returns a batch, or nil if it is unknown.
func (tx *Tx) NodeBatch(id string) (*NodeBatch, error) {
	return get[NodeBatch](tx, "batches", `SELECT body FROM batches WHERE id = $1`, id)
}

// NodeBatches lists batches, the latest expiry first. most limits their number.
func (tx *Tx) NodeBatches(most int) ([]*NodeBatch, error) {
	return list[NodeBatch](tx, "batches", `SELECT id, body FROM batches ORDER BY until DESC, id LIMIT $1`, most)
}

// Life holds the supervisor's observations of a node and its machine. They are shown to people and affect no decision.
type Life struct {
	Node writ.NodeID `json:"node"`
	writ.HostFacts
	Last *LastBeat `json:"last,omitempty"` // nil if no beat arrived, or if an earlier version of writ stored the row
}

// LastBeat holds facts of the last beat of a node. They are shown after a restart of the supervisor until the next beat.
type LastBeat struct {
	// Time is the arrival in unix microseconds. If the supervisor is killed while the node is ready, the stored time is
	// up to fleet.BeatEvery too early.
	Time     int64         `json:"time"`
	Version  string        `json:"version,omitempty"`
	Slots    int           `json:"slots,omitempty"`
	Capacity writ.Capacity `json:"capacity,omitzero"`
}

// PutLife stores the observations of a node's machine.
func (tx *Tx) PutLife(l Life) error {
	body, err := cbor.Marshal(l)
	if err != nil {
		return fmt.Errorf("encode the facts about a machine: %w", err)
	}
	return tx.exec(`INSERT INTO lives (node, body) VALUES ($1, $2) ON CONFLICT (node) DO UPDATE SET body = excluded.body`,
		string(l.Node), body)
}

// Lives returns the observations of all nodes' machines. An unreadable row is omitted; its node reports the facts
// again.
func (tx *Tx) Lives() (all []Life, err error) {
	rows, err := tx.someRows(2, `SELECT node, body FROM lives ORDER BY node`)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		body, _ := row[1].([]byte)
		var l Life
		if cbor.Unmarshal(body, &l) == nil && row[0] == string(l.Node) {
			all = append(all, l)
		}
	}
	return all, nil
}
