package sqlstore

import (
	"context"
	"fmt"
	"time"

	"writ"
	"writ/internal/sqldb"
	"writ/ledger"
)

// rowCost is the estimated size in bytes of a row without its body: columns and index entries.
const rowCost = 300

// The kinds of rows in table shares. The events of runs and calls count as ofRuns, because their copies stay until the
// run is deleted.
const (
	ofEvents = "events"
	ofRuns   = "runs"
)

const microsPerDay = 24 * int64(time.Hour/time.Microsecond)

// shares holds the bytes of a transaction's events by kind.
type shares map[string]int64

// count adds an event with a body of size bytes.
func (s shares) count(e ledger.Event, size int) {
	kind := ofEvents
	if e.Run != nil || e.Call != nil {
		kind = ofRuns
	}
	s[kind] += int64(size) + rowCost
}

// write adds the sizes to the row of the current day.
func (s shares) write(ctx context.Context, tx *sqldb.Tx, datacenter writ.DatacenterID) error {
	for _, kind := range []string{ofEvents, ofRuns} {
		if s[kind] == 0 {
			continue
		}
		err := tx.Queue(ctx, `
			INSERT INTO shares (datacenter, kind, day, bytes)
			VALUES ($1, $2, $3, $4)
			ON CONFLICT (datacenter, kind, day) DO UPDATE SET bytes = shares.bytes + excluded.bytes`,
			string(datacenter), kind, micros(tx.Now)/microsPerDay, s[kind])
		if err != nil {
			return err
		}
	}
	return nil
}

// Shares returns the bytes used by the events of each datacenter, including their copies.
func (s *eventTables) Shares(ctx context.Context) (map[writ.DatacenterID]int64, error) {
	rows, err := s.db.Query(ctx, `SELECT datacenter, CAST(SUM(bytes) AS BIGINT) FROM shares GROUP BY datacenter`)
	all := map[writ.DatacenterID]int64{}
	err = each(rows, err, func(row scanner) error {
		var datacenter writ.DatacenterID
		var bytes int64
		err := row.Scan(&datacenter, &bytes)
		all[datacenter] = bytes
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("add up shares: %w", err)
	}
	return all, nil
}

// pruneShares deletes the rows of days whose events or runs have been pruned. Kept revisions of these days no longer
// count; KeptRevisions limits their number.
func pruneShares(ctx context.Context, tx *sqldb.Tx, kind string, before time.Time) error {
	err := tx.Queue(ctx, `DELETE FROM shares WHERE kind = $1 AND day < $2`, kind, micros(before)/microsPerDay)
	return err
}
