package journal

import (
	"fmt"
	"time"

	"writ"
	"writ/internal/cbor"
	"writ/internal/sqldb"
)

// UsageGrace is how long after an hour its usage may still be told: so long a node may be away from its datacenter and lose nothing.
const UsageGrace = 31 * 24 * time.Hour

// Departed is a resource that a node had and has no more.
type Departed struct {
	writ.ResourceID
	Created time.Time `json:"created"`
}

// depart keeps that a node had a resource, for what is told of it later.
func (tx *Tx) depart(r *Resource) error {
	if r.UID == "" || r.Node == "" { // it was never there
		return nil
	}
	body, err := cbor.Marshal(Departed{r.ResourceID, r.Created})
	if err != nil {
		return fmt.Errorf("encode a resource that is gone: %w", err)
	}
	if body, err = tx.withCode("departed", body, string(r.UID), string(r.Node)); err != nil {
		return err
	}
	return tx.exec(`INSERT INTO departed (uid, node, body, gone) VALUES ($1, $2, $3, $4)
		ON CONFLICT (uid, node) DO UPDATE SET body = excluded.body, gone = excluded.gone`, string(r.UID), string(r.Node), body, sqldb.Micros(tx.Now))
}

// Departed returns what a node had under a UID within the last UsageGrace, nil if it had nothing.
func (tx *Tx) Departed(uid writ.UID, node writ.NodeID) (*Departed, error) {
	return get[Departed](tx, "departed", `SELECT body FROM departed WHERE uid = $1 AND node = $2`, string(uid), string(node))
}

// forgetDeparted deletes the first of the resources of which nothing more is told.
func (tx *Tx) forgetDeparted(now time.Time) (int64, error) {
	return tx.deleted(`DELETE FROM departed WHERE uid IN (SELECT uid FROM departed WHERE gone < $1 ORDER BY gone LIMIT $2) AND gone < $1`,
		sqldb.Micros(now.Add(-UsageGrace)), forgetRows)
}
