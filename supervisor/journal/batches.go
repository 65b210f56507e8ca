package journal

import (
	"fmt"
	"slices"
	"time"

	"writ/internal/cbor"
	"writ/internal/sqldb"
)

// NodeBatch is a batch of nodes that a person has approved by the serial numbers of their machines. What the person said is in the signed text only:
// it is verified whenever a node is admitted by it.
type NodeBatch struct {
	ID       string    `json:"id"`
	Signed   []byte    `json:"signed"` // the statement that made it
	Made     time.Time `json:"made"`   // when the supervisor did what that says
	Until    time.Time `json:"until"`  // as the statement says, or when it was revoked
	Revoked  time.Time `json:"revoked,omitzero"`
	Admitted []string  `json:"admitted,omitempty"` // serial numbers of the nodes that it has admitted, in that order
}

// Used reports whether the batch has admitted a node with a serial number.
func (b *NodeBatch) Used(serial string) bool { return slices.Contains(b.Admitted, serial) }

// Ended reports whether the batch was revoked, or its time is over.
func (b *NodeBatch) Ended(now time.Time) bool { return !b.Revoked.IsZero() || !b.Until.After(now) }

// PutNodeBatch keeps a batch, new or changed.
func (tx *Tx) PutNodeBatch(b *NodeBatch) error {
	body, err := cbor.Marshal(b)
	if err != nil {
		return fmt.Errorf("encode batch: %w", err)
	}
	if body, err = tx.withCode("batches", body, b.ID); err != nil {
		return err
	}
	return tx.exec(`INSERT INTO batches (id, until, body) VALUES ($1, $2, $3)
		ON CONFLICT (id) DO UPDATE SET until = excluded.until, body = excluded.body`, b.ID, sqldb.Micros(b.Until), body)
}

// NodeBatch returns a batch, nil if there is none.
func (tx *Tx) NodeBatch(id string) (*NodeBatch, error) {
	return get[NodeBatch](tx, "batches", `SELECT body FROM batches WHERE id = $1`, id)
}

// NodeBatches returns batches, those that last longest first, at most so many.
func (tx *Tx) NodeBatches(most int) ([]*NodeBatch, error) {
	return list[NodeBatch](tx, "batches", `SELECT id, body FROM batches ORDER BY until DESC, id LIMIT $1`, most)
}
