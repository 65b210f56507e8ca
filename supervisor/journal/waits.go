package journal

import (
	"database/sql"
	"errors"
	"time"

	"writ"
	"writ/internal/sqldb"
)

// OldestPlaced returns the creation time of the oldest call that is placed on a node and not sent, zero if there is
// none.
func (tx *Tx) OldestPlaced(node writ.NodeID) (time.Time, error) {
	return tx.oldest(oldestPlaced, string(node))
}

const oldestPlaced = `SELECT planned FROM calls WHERE open AND state = 'planned' AND node <> '' AND node = $1 ORDER BY planned LIMIT 1`

// OldestWait returns the start of the longest current wait for a node, a resource, a release or a retry. It is zero if
// no call waits. For a retry the wait may start later.
func (tx *Tx) OldestWait() (time.Time, error) {
	due, err := tx.oldest(oldestDue)
	if err != nil {
		return due, err
	}
	held, err := tx.oldest(oldestHeld)
	if due.IsZero() || !held.IsZero() && held.Before(due) {
		due = held
	}
	return due, err
}

const (
	oldestDue  = `SELECT retry_at FROM calls WHERE open AND retry_at > 0 AND NOT ready AND claimed ORDER BY retry_at LIMIT 1`
	oldestHeld = `SELECT retry_at FROM calls WHERE open AND retry_at > 0 AND NOT ready AND NOT claimed ORDER BY retry_at LIMIT 1`
)

func (tx *Tx) oldest(query string, args ...any) (time.Time, error) {
	var us int64
	err := tx.QueryRowContext(tx.ctx, query, args...).Scan(&us)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	return sqldb.Time(us), err
}

// Unconfirmed returns the number of unacknowledged events per coordinator that has ever acknowledged any, and the total
// number of events.
func (tx *Tx) Unconfirmed() (open map[string]int64, all int64, err error) {
	if err := tx.QueryRowContext(tx.ctx, `SELECT seq FROM event_counter WHERE only_row = 1`).Scan(&all); err != nil {
		return nil, 0, err
	}
	rows, err := tx.QueryContext(tx.ctx, `SELECT coordinator, seq FROM acknowledgements`)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	open = make(map[string]int64)
	for rows.Next() {
		var coordinator string
		var seq int64
		if err := rows.Scan(&coordinator, &seq); err != nil {
			return nil, 0, err
		}
		open[coordinator] = all - seq
	}
	return open, all, rows.Err()
}
