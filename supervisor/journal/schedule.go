package journal

import (
	"cmp"
	"database/sql"
	"slices"
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

// DueCalls returns at most max calls that have claimed their resource, wait for a time or a node, and are due for a
// check. The list begins after a position; the longest wait is first.
func (tx *Tx) DueCalls(after Due, now time.Time, max int) ([]Due, error) {
	return tx.dueAfter(dueCalls, after, now, max)
}

// dueCalls is called with two limits in turn. SQLite uses a bare LIMIT $5 in its plan and prepares the statement again
// when the limit changes; the cast prevents that.
const dueCalls = `SELECT retry_at, run, seq FROM calls WHERE open AND retry_at > 0 AND NOT ready AND claimed AND retry_at <= $1
	AND (retry_at, run, seq) > ($2, $3, $4) ORDER BY retry_at, run, seq LIMIT CAST($5 AS BIGINT)`

// HeldCalls returns at most max calls that wait for another call on their resource. The list begins after a position;
// the longest wait is first.
func (tx *Tx) HeldCalls(after Due, now time.Time, max int) ([]Due, error) {
	return tx.dueAfter(heldCalls, after, now, max)
}

const heldCalls = `SELECT retry_at, run, seq FROM calls WHERE open AND retry_at > 0 AND NOT ready AND NOT claimed AND retry_at <= $1
	AND (retry_at, run, seq) > ($2, $3, $4) ORDER BY retry_at, run, seq LIMIT $5`

func (tx *Tx) dueAfter(query string, after Due, now time.Time, max int) ([]Due, error) {
	rows, err := tx.QueryContext(tx.ctx, query, sqldb.Micros(now), sqldb.Micros(after.At), string(after.Run), after.Seq,
		max)
	return sqldb.List(rows, err, func(row *sql.Rows) (d Due, err error) {
		var us int64
		err = row.Scan(&us, &d.Run, &d.Seq)
		d.At = sqldb.Time(us)
		return d, err
	})
}

const sentCalls = `SELECT place, body FROM calls WHERE open AND state <> 'planned'`

const sentByProject = `SELECT project, COUNT(*) FROM calls WHERE open AND state <> 'planned' AND node = $1 GROUP BY project`

// SentCalls returns the open calls that were sent to nodes, ordered by node, the oldest call of each node first.
func (tx *Tx) SentCalls() ([]*Call, error) {
	sent, err := tx.soundCalls(sentCalls)
	slices.SortFunc(sent, func(a, b *Call) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), a.Planned.Compare(b.Planned), cmp.Compare(a.place, b.place))
	})
	return sent, err
}

// SentByProject returns the number of open calls that were sent to a node, by project.
func (tx *Tx) SentByProject(node writ.NodeID) (map[writ.ProjectID]int, error) {
	return tx.byProject(sentByProject, string(node))
}

// NextSendable returns the lowest project ID above `after` with calls ready for a node, or "".
func (tx *Tx) NextSendable(node writ.NodeID, after writ.ProjectID, now time.Time) (writ.ProjectID, error) {
	return sqldb.First[writ.ProjectID](tx.QueryRowContext(tx.ctx, nextSendable, string(node), string(after),
		sqldb.Micros(now)))
}

// Sendable returns the runs of at most `max` calls of a project that are ready for a node: one entry per call, oldest
// first.
func (tx *Tx) Sendable(node writ.NodeID, project writ.ProjectID, now time.Time, max int) ([]writ.RunID, error) {
	return tx.runIDs(sendable, string(node), string(project), sqldb.Micros(now), max)
}

// RunsStampedAfter returns the runs with a call whose next check is after the given time.
func (tx *Tx) RunsStampedAfter(at time.Time) ([]writ.RunID, error) {
	return tx.runIDs(`SELECT DISTINCT run FROM calls WHERE open AND state = 'planned' AND retry_at > $1`, sqldb.Micros(at))
}

const (
	nextSendable = `SELECT project FROM calls WHERE open AND state = 'planned' AND ready AND node = $1 AND project > $2 AND retry_at <= $3
	ORDER BY project LIMIT 1`
	sendable = `SELECT run FROM calls WHERE open AND state = 'planned' AND ready AND node = $1 AND project = $2 AND retry_at <= $3
	ORDER BY planned, run, seq LIMIT $4`
)

// OldestPlaced returns the creation time of the oldest call that is placed on a node and not sent, zero without such a
// call.
func (tx *Tx) OldestPlaced(node writ.NodeID) (time.Time, error) {
	return tx.firstTime(oldestPlaced, string(node))
}

const oldestPlaced = `SELECT planned FROM calls WHERE open AND state = 'planned' AND node <> '' AND node = $1 ORDER BY planned LIMIT 1`

// OldestWait returns the start of the longest current wait for a node, a resource, a release or a retry. It is zero if
// no call waits. The wait for a retry starts at the time of the retry, which may be in the future.
func (tx *Tx) OldestWait() (time.Time, error) {
	due, err := tx.firstTime(oldestDue)
	if err != nil {
		return due, err
	}
	held, err := tx.firstTime(oldestHeld)
	if due.IsZero() || !held.IsZero() && held.Before(due) {
		due = held
	}
	return due, err
}

const (
	oldestDue  = `SELECT retry_at FROM calls WHERE open AND retry_at > 0 AND NOT ready AND claimed ORDER BY retry_at LIMIT 1`
	oldestHeld = `SELECT retry_at FROM calls WHERE open AND retry_at > 0 AND NOT ready AND NOT claimed ORDER BY retry_at LIMIT 1`
)

// firstTime returns the first time that query selects, zero without a row.
func (tx *Tx) firstTime(query string, args ...any) (time.Time, error) {
	us, err := sqldb.First[int64](tx.QueryRowContext(tx.ctx, query, args...))
	return sqldb.Time(us), err
}
