package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/sqldb"
	"writ/ledger"
)

// pruneStep limits the rows that one transaction examines and deletes, so that concurrent writers wait only
// milliseconds.
const pruneStep = 500

// Prune deletes old events and runs in small steps.
func (s *Store) Prune(ctx context.Context, events, runs time.Time) error {
	for {
		n, err := s.pruneEvents(ctx, events)
		if err != nil {
			return fmt.Errorf("prune events: %w", err)
		}
		if n < pruneStep {
			break
		}
	}
	if err := s.pruneRuns(ctx, runs, ledger.KeptRevisions); err != nil {
		return fmt.Errorf("prune runs: %w", err)
	}
	return nil
}

func (s *eventTables) pruneEvents(ctx context.Context, before time.Time) (n int64, err error) {
	err = s.write(failpoint.At(ctx, failpoint.EventsForgotten), func(tx *sqldb.Tx) error {
		// The id of a deleted event must not be used again.
		if err := tx.Queue(ctx, `UPDATE counters SET value = `+newestEvent+` WHERE name = 'event'`); err != nil {
			return err
		}
		done, err := tx.ExecContext(ctx, `
			DELETE FROM events
			WHERE id IN (SELECT id FROM events ORDER BY id LIMIT $1)
			AND stored < $2`, pruneStep, micros(before))
		if err != nil {
			return err
		}
		if n, err = done.RowsAffected(); err != nil {
			return err
		}
		if n > 0 {
			newEventsOf(tx).pruned = true
		}
		return pruneShares(ctx, tx, ofEvents, before)
	})
	return n, err
}

// pruneRuns deletes the runs that ended before a time, except for revisions that no newer revision has replaced. It
// keeps at most max of these revisions for each project in each datacenter.
func (s *runTable) pruneRuns(ctx context.Context, before time.Time, max int) error {
	after, last := oldRun{}, oldRun{}
	for n := pruneStep; n == pruneStep; after = last {
		err := deleteRuns(ctx, s.db, func(tx *sqldb.Tx) (ids []string, err error) {
			rows, err := tx.QueryContext(ctx, oldRuns, micros(before), after.ended, after.id, string(writ.CodeRunLost), pruneStep)
			old, err := sqldb.List(rows, err, func(row *sql.Rows) (r oldRun, err error) {
				err = row.Scan(&r.ended, &r.id, &r.kept)
				return r, err
			})
			if err != nil {
				return nil, err
			}
			n = len(old)
			for _, r := range old {
				if last = r; !r.kept {
					ids = append(ids, r.id)
				}
			}
			return ids, pruneShares(ctx, tx, ofRuns, before)
		})
		if err != nil {
			return err
		}
	}
	return pruneKept(ctx, s.db, before, max)
}

// oldRun is a row of oldRuns.
type oldRun struct {
	ended int64
	id    string
	kept  bool
}

// oldRuns lists the runs that ended before $1, in the order of their ends, and whether each must be kept. A newer run
// replaces a revision only if the newer run has also ended before $1, so a replaced revision is kept for a while. The
// condition on newer.created limits the rows that the database reads. A run without a stored submission has no text to
// keep. A run that the datacenter lost ($4) does not count: the next accepted run gets its number.
const oldRuns = `
	SELECT ended, id, deployment <> '' AND accepted > 0 AND failure <> $4
		AND EXISTS (SELECT 1 FROM submissions WHERE submissions.run = runs.id)
		AND NOT EXISTS (
			SELECT 1 FROM runs AS newer
			WHERE newer.deployment <> '' AND newer.datacenter = runs.datacenter AND newer.project = runs.project
			AND newer.deployment = runs.deployment AND (newer.created, newer.id) > (runs.created, runs.id)
			AND newer.created < $1 AND newer.ended > 0 AND newer.ended < $1
			AND newer.accepted > 0 AND newer.failure <> $4
			AND (newer.state = 'succeeded' OR runs.state <> 'succeeded'))
	FROM runs
	WHERE ended > 0 AND ended < $1 AND (ended, id) > ($2, $3)
	ORDER BY ended, id
	LIMIT $5`

// pruneKept deletes the oldest kept runs of each project that has more than max kept runs in a datacenter.
func pruneKept(ctx context.Context, db *sqldb.DB, before time.Time, max int) error {
	type owner struct{ datacenter, project string }
	rows, err := db.Query(ctx, `
		SELECT datacenter, project FROM runs
		WHERE ended > 0 AND ended < $1
		GROUP BY datacenter, project
		HAVING COUNT(*) > $2`, micros(before), max)
	owners, err := collect(rows, err, func(row scanner) (o owner, err error) {
		err = row.Scan(&o.datacenter, &o.project)
		return o, err
	})
	if err != nil {
		return err
	}
	for _, o := range owners {
		for n := pruneStep; n == pruneStep; {
			err := deleteRuns(ctx, db, func(tx *sqldb.Tx) ([]string, error) {
				ids, err := column[string](tx.QueryContext(ctx, `
					SELECT id FROM runs
					WHERE ended > 0 AND ended < $1 AND datacenter = $2 AND project = $3
					ORDER BY ended DESC, id DESC
					LIMIT $4 OFFSET $5`, micros(before), o.datacenter, o.project, pruneStep, max))
				n = len(ids)
				return ids, err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// deleteRuns deletes the runs that choose returns, with their calls and submissions, in one transaction.
func deleteRuns(ctx context.Context, db *sqldb.DB, choose func(tx *sqldb.Tx) ([]string, error)) error {
	return db.Write(failpoint.At(ctx, failpoint.RunsForgotten), func(tx *sqldb.Tx) error {
		runs, err := choose(tx)
		if err != nil || len(runs) == 0 {
			return err
		}
		if err := addEnded(ctx, tx, "-COUNT(*)", runs); err != nil {
			return err
		}
		in := "(" + sqldb.Placeholders(1, len(runs)) + ")"
		ids := anys(runs)
		for _, query := range []string{
			`DELETE FROM calls WHERE run IN ` + in,
			`DELETE FROM submissions WHERE run IN ` + in,
			`DELETE FROM submission_texts WHERE run IN ` + in,
			`DELETE FROM runs WHERE id IN ` + in,
		} {
			if err := tx.Queue(ctx, query, ids...); err != nil {
				return err
			}
		}
		return tx.Queue(ctx, `DELETE FROM ended_counts WHERE runs = 0`)
	})
}
