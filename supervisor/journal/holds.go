package journal

import (
	"database/sql"
	"errors"
	"fmt"

	"writ/identity"
	"writ/internal/cbor"
)

// theHolds is the ID of the only row of table holds.
const theHolds = int64(1)

// holdsRow is the content of the only row of table holds.
type holdsRow struct {
	// Revision is the revision of the newest decision, even if that decision is no longer in All.
	Revision int64          `json:"revision"`
	All      identity.Holds `json:"all"`
}

// Holds returns the current hold decisions, and the revision of the newest one.
func (tx *Tx) Holds() (all identity.Holds, revision int64, err error) {
	var stored []byte
	err = tx.QueryRowContext(tx.ctx, selectHolds, theHolds).Scan(&stored)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	body, err := tx.open("holds", stored, theHolds)
	if err != nil {
		return nil, 0, err
	}
	var row holdsRow
	if err := cbor.Unmarshal(body, &row); err != nil {
		return nil, 0, fmt.Errorf("decode holds: %w", err)
	}
	return row.All, row.Revision, nil
}

const selectHolds = `SELECT body FROM holds WHERE id = $1`

// PutHolds replaces the hold decisions.
func (tx *Tx) PutHolds(all identity.Holds, revision int64) error {
	return tx.putHolds(theHolds, all, revision)
}

func (tx *Tx) putHolds(id int64, all identity.Holds, revision int64) error {
	body, err := cbor.Marshal(holdsRow{revision, all})
	if err == nil {
		body, err = tx.withCode("holds", body, id)
	}
	if err != nil {
		return fmt.Errorf("encode holds: %w", err)
	}
	return tx.exec(`INSERT INTO holds (id, body) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET body = excluded.body`, id,
		body)
}
