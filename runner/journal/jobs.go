package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"writ"
	"writ/internal/cbor"
	"writ/internal/sqldb"
)

// Entry is what the journal holds under the key of a job.
type Entry struct {
	Incarnation int64        // that began it
	Started     time.Time    // by the node's clock
	Result      *writ.Result // nil if it was begun and not ended
}

// Find returns the entry of a job, nil if there is none.
func (j *Journal) Find(ctx context.Context, key writ.JobKey) (*Entry, error) {
	return scanEntry(j.db.QueryRow(ctx, selectEntry, key.Run, key.Seq, key.Try))
}

// Start records that the runner begins with a job. If there is an entry already it changes nothing and returns that; nil means
// that this is the first time and the caller may act.
func (j *Journal) Start(ctx context.Context, job *writ.Job, digest writ.Digest, incarnation int64) (*Entry, error) {
	var before *Entry
	err := j.db.Write(ctx, func(tx *sqldb.Tx) error {
		var err error
		before, err = insert(tx, job, digest, incarnation)
		return err
	})
	if err != nil { // the change may still be under way, and write the variable
		return nil, err
	}
	return before, nil
}

// Finish records the result of a job that was started.
func (j *Journal) Finish(ctx context.Context, result *writ.Result) error {
	encoded, err := cbor.Marshal(result)
	if err != nil {
		return fmt.Errorf("encode the result of %s: %w", result.JobKey, err)
	}
	return j.db.Write(ctx, func(tx *sqldb.Tx) error {
		return finish(tx, result.JobKey, encoded)
	})
}

// Refuse records a job that is answered without acting, in one step, and returns the result that now stands: an earlier one if there
// is one, else that of answer. It gets the entry of a job that was started and not ended, nil if there is none, and may be called twice.
func (j *Journal) Refuse(ctx context.Context, job *writ.Job, digest writ.Digest, incarnation int64, answer func(before *Entry) *writ.Result) (*writ.Result, error) {
	var stands *writ.Result
	err := j.db.Write(ctx, func(tx *sqldb.Tx) error {
		before, err := insert(tx, job, digest, incarnation)
		if err != nil {
			return err
		}
		if before != nil && before.Result != nil {
			stands = before.Result
			return nil
		}
		stands = answer(before)
		encoded, err := cbor.Marshal(stands)
		if err != nil {
			return fmt.Errorf("encode the result of %s: %w", job.JobKey, err)
		}
		return finish(tx, job.JobKey, encoded)
	})
	if err != nil {
		return nil, err
	}
	return stands, nil
}

// Acknowledge records that the supervisor has the results of these jobs.
func (j *Journal) Acknowledge(ctx context.Context, keys ...writ.JobKey) error {
	if len(keys) == 0 {
		return nil
	}
	return j.db.Write(ctx, func(tx *sqldb.Tx) error {
		for _, key := range keys {
			_, err := tx.Exec("UPDATE jobs SET acked = TRUE WHERE run = $1 AND seq = $2 AND try = $3 AND result IS NOT NULL",
				key.Run, key.Seq, key.Try)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Unacknowledged is a result that the supervisor has not acknowledged.
type Unacknowledged struct {
	Result *writ.Result
	EndBy  time.Time // of its job
}

// Unacknowledged returns the results that the supervisor may not have, in the order of their jobs' end-by.
func (j *Journal) Unacknowledged(ctx context.Context) ([]Unacknowledged, error) {
	rows, err := j.db.Query(ctx, "SELECT result, end_by FROM jobs WHERE result IS NOT NULL AND acked = FALSE ORDER BY end_by")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []Unacknowledged
	for rows.Next() {
		var encoded []byte
		var endBy int64
		if err := rows.Scan(&encoded, &endBy); err != nil {
			return nil, err
		}
		result, err := decode(encoded)
		if err != nil {
			return nil, err
		}
		all = append(all, Unacknowledged{result, sqldb.Time(endBy)})
	}
	return all, rows.Err()
}

// insert adds the row of a job that begins, or returns the one that is there.
func insert(tx *sqldb.Tx, job *writ.Job, digest writ.Digest, incarnation int64) (*Entry, error) {
	done, err := tx.Exec("INSERT INTO jobs (run, seq, try, operation, digest, incarnation, started, end_by)"+
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (run, seq, try) DO NOTHING",
		job.Run, job.Seq, job.Try, job.Operation, digest[:], incarnation, sqldb.Micros(tx.Now),
		sqldb.Micros(time.UnixMilli(job.EndBy)))
	if err != nil {
		return nil, err
	}
	if n, err := done.RowsAffected(); err != nil || n == 1 {
		return nil, err
	}
	return scanEntry(tx.QueryRow(selectEntry, job.Run, job.Seq, job.Try))
}

// finish sets the result of a row; the first one stays, because a commit whose outcome was unknown is tried again.
func finish(tx *sqldb.Tx, key writ.JobKey, encoded []byte) error {
	done, err := tx.Exec("UPDATE jobs SET result = COALESCE(result, $1) WHERE run = $2 AND seq = $3 AND try = $4",
		encoded, key.Run, key.Seq, key.Try)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return fmt.Errorf("%s was not started", key)
}

const selectEntry = "SELECT incarnation, started, result FROM jobs WHERE run = $1 AND seq = $2 AND try = $3"

func scanEntry(row interface{ Scan(into ...any) error }) (*Entry, error) {
	var e Entry
	var started int64
	var encoded []byte
	err := row.Scan(&e.Incarnation, &started, &encoded)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	e.Started = sqldb.Time(started)
	if encoded != nil {
		e.Result, err = decode(encoded)
	}
	return &e, err
}

func decode(encoded []byte) (*writ.Result, error) {
	var result writ.Result
	if err := cbor.Unmarshal(encoded, &result); err != nil {
		return nil, fmt.Errorf("decode a recorded result: %w", err)
	}
	return &result, nil
}
