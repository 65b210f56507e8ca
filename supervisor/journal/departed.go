package journal

import (
	"fmt"
	"time"

	"writ"
	"writ/internal/cbor"
	"writ/internal/sqldb"
)

// UsageGrace is how long after an hour its usage may still be reported. A node that is disconnected for less loses
// none.
const UsageGrace = 31 * 24 * time.Hour

// Departed is a resource that is no longer on a node.
type Departed struct {
	writ.ResourceID
	Created time.Time `json:"created"`
}

// depart records that a node had a resource, for later reports about it.
func (tx *Tx) depart(r *Resource) error {
	if r.UID == "" || r.Node == "" { // it never existed
		return nil
	}
	body, err := cbor.Marshal(Departed{r.ResourceID, r.Created})
	if err != nil {
		return fmt.Errorf("encode a departed resource: %w", err)
	}
	if body, err = tx.withCode("departed", body, string(r.UID), string(r.Node)); err != nil {
		return err
	}
	return tx.exec(`INSERT INTO departed (uid, node, body, gone) VALUES ($1, $2, $3, $4)
		ON CONFLICT (uid, node) DO UPDATE SET body = excluded.body, gone = excluded.gone`, string(r.UID), string(r.Node),
		body, sqldb.Micros(tx.Now))
}

// Departed returns the resource that a node had under a UID within the last UsageGrace, or nil.
func (tx *Tx) Departed(uid writ.UID, node writ.NodeID) (*Departed, error) {
	return get[Departed](tx, "departed", `SELECT body FROM departed WHERE uid = $1 AND node = $2`, string(uid),
		string(node))
}

// forgetDeparted deletes the oldest resources that are past UsageGrace.
func (tx *Tx) forgetDeparted(now time.Time) (int64, error) {
	return tx.deleted(`DELETE FROM departed WHERE uid IN (SELECT uid FROM departed WHERE gone < $1 ORDER BY gone LIMIT $2) AND gone < $1`,
		sqldb.Micros(now.Add(-UsageGrace)), forgetRows)
}
