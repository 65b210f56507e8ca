package journal

import (
	"time"

	"writ"
	"writ/internal/sqldb"
)

// Due is a position in the order of DueCalls and HeldCalls.
type Due struct {
	At  time.Time
	Run writ.RunID
	Seq int
}

// DueCalls returns at most max calls after a position that have claimed their resource, wait for a time or a node, and
// are due for a check now, longest wait first.
func (tx *Tx) DueCalls(after Due, now time.Time, max int) ([]Due, error) {
	return tx.dueAfter(dueCalls, after, now, max)
}

// dueCalls is called with two limits in turn. SQLite uses a bare LIMIT $5 in its plan and prepares the statement again
// when it changes; the cast prevents that.
const dueCalls = `SELECT retry_at, run, seq FROM calls WHERE open AND retry_at > 0 AND NOT ready AND claimed AND retry_at <= $1
	AND (retry_at, run, seq) > ($2, $3, $4) ORDER BY retry_at, run, seq LIMIT CAST($5 AS BIGINT)`

// HeldCalls returns at most max calls after a position that wait for another call on their resource, longest wait
// first.
func (tx *Tx) HeldCalls(after Due, now time.Time, max int) ([]Due, error) {
	return tx.dueAfter(heldCalls, after, now, max)
}

const heldCalls = `SELECT retry_at, run, seq FROM calls WHERE open AND retry_at > 0 AND NOT ready AND NOT claimed AND retry_at <= $1
	AND (retry_at, run, seq) > ($2, $3, $4) ORDER BY retry_at, run, seq LIMIT $5`

func (tx *Tx) dueAfter(query string, after Due, now time.Time, max int) ([]Due, error) {
	rows, err := tx.QueryContext(tx.ctx, query, sqldb.Micros(now), sqldb.Micros(after.At), string(after.Run), after.Seq,
		max)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var due []Due
	for rows.Next() {
		var d Due
		var us int64
		if err := rows.Scan(&us, &d.Run, &d.Seq); err != nil {
			return nil, err
		}
		d.At = sqldb.Time(us)
		due = append(due, d)
	}
	return due, rows.Err()
}
