package journal

import (
	"cmp"
	"database/sql"
	"errors"
	"slices"
	"time"

	"writ"
	"writ/internal/sqldb"
)

const sentCalls = `SELECT place, body FROM calls WHERE open AND state <> 'planned'`

const sentByProject = `SELECT project, COUNT(*) FROM calls WHERE open AND state <> 'planned' AND node = $1 GROUP BY project`

// SentCalls returns all calls that are on nodes, ordered by node, the oldest of each node first.
func (tx *Tx) SentCalls() ([]*Call, error) {
	sent, err := tx.soundCalls(sentCalls)
	slices.SortFunc(sent, func(a, b *Call) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), a.Planned.Compare(b.Planned), cmp.Compare(a.place, b.place))
	})
	return sent, err
}

// SentByProject returns the number of calls on a node by project.
func (tx *Tx) SentByProject(node writ.NodeID) (map[writ.ProjectID]int, error) {
	rows, err := tx.QueryContext(tx.ctx, sentByProject, string(node))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	sent := make(map[writ.ProjectID]int)
	for rows.Next() {
		var project writ.ProjectID
		var n int
		if err := rows.Scan(&project, &n); err != nil {
			return nil, err
		}
		sent[project] = n
	}
	return sent, rows.Err()
}

// NextSendable returns the first project after the given one that has calls ready for a node, or "".
func (tx *Tx) NextSendable(node writ.NodeID, after writ.ProjectID, now time.Time) (project writ.ProjectID, err error) {
	err = tx.QueryRowContext(tx.ctx, nextSendable, string(node), string(after), sqldb.Micros(now)).Scan(&project)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return project, err
}

// Sendable returns the runs of at most max calls of a project that are ready for a node: one entry per call, oldest
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
