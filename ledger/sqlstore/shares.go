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

// dayOf returns the number of a day since 1970.
func dayOf(at time.Time) int64 {
	const perDay = 24 * int64(time.Hour/time.Microsecond)
	return micros(at) / perDay
}

// shares holds the bytes of a transaction's events by kind.
type shares struct{ events, runs int64 }

// count adds an event with a body of size bytes.
func (s *shares) count(e ledger.Event, size int) {
	of := &s.events
	if e.Run != nil || e.Call != nil {
		of = &s.runs
	}
	*of += int64(size) + rowCost
}

// write stores the position of a journal after its last event, and adds the sizes to its bytes of the current day.
func (s shares) write(ctx context.Context, tx *sqldb.Tx, datacenter writ.DatacenterID, last writ.Event) error {
	return tx.Queue(ctx, `
		INSERT INTO journals (datacenter, journal, seq, at, day, event_bytes, run_bytes)
		VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (datacenter, journal) DO UPDATE SET seq = excluded.seq, at = excluded.at, day = excluded.day,
			event_bytes = journals.event_bytes + excluded.event_bytes, run_bytes = journals.run_bytes + excluded.run_bytes`,
		string(datacenter), last.Journal, last.Seq, micros(last.Time), dayOf(tx.Now), s.events, s.runs)
}

// columnOf holds the column of table journals for each kind.
var columnOf = map[string]string{ofEvents: "event_bytes", ofRuns: "run_bytes"}

// moveShares moves the bytes of a datacenter's journals to the table shares. It is called before the journals count the
// bytes of another day, and before journals are deleted.
func moveShares(ctx context.Context, tx *sqldb.Tx, datacenter writ.DatacenterID) error {
	for _, kind := range []string{ofEvents, ofRuns} {
		if err := tx.Queue(ctx, `
			INSERT INTO shares (datacenter, kind, day, bytes)
			SELECT datacenter, $1, day, SUM(`+columnOf[kind]+`) FROM journals
			WHERE datacenter = $2
			GROUP BY datacenter, day
			HAVING SUM(`+columnOf[kind]+`) > 0
			ON CONFLICT (datacenter, kind, day) DO UPDATE SET bytes = shares.bytes + excluded.bytes`, kind,
			string(datacenter)); err != nil {
			return err
		}
	}
	return tx.Queue(ctx, `UPDATE journals SET event_bytes = 0, run_bytes = 0 WHERE datacenter = $1`, string(datacenter))
}

// Shares returns the bytes used by the events of each datacenter, including their copies.
func (s *eventTables) Shares(ctx context.Context) (map[writ.DatacenterID]int64, error) {
	rows, err := s.db.Query(ctx, `
		SELECT datacenter, CAST(SUM(bytes) AS BIGINT) FROM (
			SELECT datacenter, bytes FROM shares
			UNION ALL
			SELECT datacenter, event_bytes + run_bytes FROM journals WHERE event_bytes > 0 OR run_bytes > 0
		) AS every
		GROUP BY datacenter`)
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

// pruneShares deletes the bytes of days whose events or runs have been pruned. Kept revisions of these days no longer
// count; KeptRevisions limits their number.
func pruneShares(ctx context.Context, tx *sqldb.Tx, kind string, before time.Time) error {
	if err := tx.Queue(ctx, `DELETE FROM shares WHERE kind = $1 AND day < $2`, kind, dayOf(before)); err != nil {
		return err
	}
	column := columnOf[kind]
	return tx.Queue(ctx, `UPDATE journals SET `+column+` = 0 WHERE day < $1 AND `+column+` > 0`, dayOf(before))
}
