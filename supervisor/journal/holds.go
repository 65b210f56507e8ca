package journal

import (
	"writ/identity"
)

// theHolds is the ID of the only row of table holds.
const theHolds = int64(1)

// holdsRow is the content of the only row of table holds.
type holdsRow struct {
	// Revision is the revision of the newest decision, even if that decision is no longer in All.
	Revision int64          `json:"revision"`
	All      identity.Holds `json:"all"`
}

// Holds returns the current hold decisions, and the revision of the newest decision.
func (tx *Tx) Holds() (all identity.Holds, revision int64, err error) {
	row, err := get[holdsRow](tx, "holds", `SELECT body FROM holds WHERE id = $1`, theHolds)
	if row == nil {
		return nil, 0, err
	}
	return row.All, row.Revision, nil
}

// PutHolds replaces the hold decisions.
func (tx *Tx) PutHolds(all identity.Holds, revision int64) error {
	return tx.putHolds(theHolds, all, revision)
}

func (tx *Tx) putHolds(id int64, all identity.Holds, revision int64) error {
	body, err := encode(tx, "holds", holdsRow{revision, all}, id)
	if err != nil {
		return err
	}
	return tx.exec(`INSERT INTO holds (id, body) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET body = excluded.body`, id,
		body)
}
