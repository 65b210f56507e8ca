package journal

import (
	"fmt"
	"slices"
	"time"

	"writ/internal/cbor"
	"writ/internal/sqldb"
)

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

// Used reports whether the batch has admitted the node with a serial number.
func (b *NodeBatch) Used(serial string) bool { return slices.Contains(b.Admitted, serial) }

// Ended reports whether the batch is revoked or has expired.
func (b *NodeBatch) Ended(now time.Time) bool { return !b.Revoked.IsZero() || !b.Until.After(now) }

// PutNodeBatch stores a new or changed batch.
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

// NodeBatch returns a batch, or nil if it is unknown.
func (tx *Tx) NodeBatch(id string) (*NodeBatch, error) {
	return get[NodeBatch](tx, "batches", `SELECT body FROM batches WHERE id = $1`, id)
}

// NodeBatches lists batches, the latest expiry first. most limits their number.
func (tx *Tx) NodeBatches(most int) ([]*NodeBatch, error) {
	return list[NodeBatch](tx, "batches", `SELECT id, body FROM batches ORDER BY until DESC, id LIMIT $1`, most)
}
