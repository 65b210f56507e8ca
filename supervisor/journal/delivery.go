package journal

import (
	"time"

	"writ"
	"writ/internal/sqldb"
)

// Delivery is a job that was sent to a node.
type Delivery struct {
	Attempt  int         `json:"try"`
	Delivery int         `json:"delivery"`
	Node     writ.NodeID `json:"node"`
	Job      writ.Digest `json:"job"`
	Epoch    int64       `json:"epoch"`
	At       time.Time   `json:"at"`
}

// AddDelivery records that the job with this digest is sent to a node as the call's current delivery. PutCall writes
// it. Only a superseded delivery, which is rare, costs a row.
func (tx *Tx) AddDelivery(c *Call, digest writ.Digest, epoch int64) error {
	before := c.Sent
	c.Sent = &Delivery{c.Attempt, c.Delivery, c.Node, digest, epoch, tx.Now}
	if before == nil {
		return nil
	}
	row := []any{
		string(c.Run), c.Seq, before.Attempt, before.Delivery, string(before.Node), before.Job.String(), before.Epoch,
		sqldb.Micros(before.At),
	}
	mac, err := tx.code("deliveries", row...)
	if err != nil {
		return err
	}
	return tx.exec(`INSERT INTO deliveries (run, seq, try, delivery, node, digest, epoch, sent, mac) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		append(row, mac)...)
}

// WasSent reports whether a job with this digest was sent to the node in this attempt.
func (tx *Tx) WasSent(c *Call, attempt int, node writ.NodeID, digest writ.Digest) (bool, error) {
	if c.LastSent(attempt, node, digest) {
		return true, nil
	}
	rows, err := tx.someRows(4, `SELECT delivery, epoch, sent, mac FROM deliveries
		WHERE run = $1 AND seq = $2 AND try = $3 AND node = $4 AND digest = $5`,
		string(c.Run), c.Seq, attempt, string(node), digest.String())
	for _, row := range rows {
		mac, _ := row[3].([]byte)
		err := tx.check("deliveries", mac, string(c.Run), c.Seq, attempt, row[0], string(node), digest.String(), row[1],
			row[2])
		if !isForged(err) {
			return err == nil, err
		}
	}
	return false, err
}

// LastSent reports whether the newest delivery was a job with this digest, sent to the node in this attempt.
func (c *Call) LastSent(attempt int, node writ.NodeID, digest writ.Digest) bool {
	return c.Sent != nil && c.Sent.Attempt == attempt && c.Sent.Node == node && c.Sent.Job == digest
}
