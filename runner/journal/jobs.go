package journal

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"writ"
	"writ/internal/cbor"
	"writ/internal/failpoint"
	"writ/internal/sqldb"
)

// Entry is the record of a job.
type Entry struct {
	Incarnation int64        // incarnation that recorded the entry
	Started     time.Time    // by the node's clock
	Result      *writ.Result // nil if the job was started and has not finished
}

// Find returns the entry of a job, or nil.
func (j *Journal) Find(ctx context.Context, key writ.JobKey) (*Entry, error) {
	return scanEntry(j.db.QueryRow(ctx, selectEntry, key.Run, key.Seq, key.Attempt))
}

// Past holds the earlier records about a call when one of its attempts is about to start.
type Past struct {
	Entry *Entry // entry of this attempt; nil if the attempt is new
	// Later reports whether a later attempt has already arrived. The supervisor gave this attempt up before it sent the
	// later one, so the result of this attempt is not needed.
	Later bool
	// Done is the result of a successful earlier attempt, or nil.
	Done *writ.Result
	// Unclear reports whether an earlier attempt may have taken effect although the supervisor did not know its outcome
	// when it sent this attempt.
	Unclear bool
	// Failed is the result of an attempt that sets Unclear, or nil if no such attempt has a result.
	Failed *writ.Result
}

// free reports whether a job may be executed. Earlier attempts matter only if once is set: the job then must act at
// most once.
func (p *Past) free(once bool) bool {
	return p.Entry == nil && !p.Later && !(once && (p.Done != nil || p.Unclear))
}

// Start returns nil if the caller may execute the job. Otherwise it returns the recorded past of the job's call, which
// forbids the execution. If once is set, Start records the start before it returns, and the job never starts again.
// Otherwise only Finish records the job: if the node stops before Finish, the job is repeated.
//
// Only one caller at a time may be between Start and Finish of a job. If once is set, this applies to all attempts of
// the call together, because Start assumes that an attempt has not acted if this incarnation started it and did not
// finish it.
func (j *Journal) Start(
	ctx context.Context, job *writ.Job, digest writ.Digest, incarnation int64, once bool,
) (*Past, error) {
	run := j.recent.hold(job.Run)
	defer j.recent.release(run)
	if !once {
		return j.startRepeatable(ctx, run, job, incarnation)
	}
	run.mark(job.Seq)
	var against *Past
	err := j.db.Write(failpoint.At(ctx, failpoint.JobStarted), func(tx *sqldb.Tx) error {
		past, err := pastOf(tx, job, incarnation)
		if err != nil {
			return err
		}
		if against = past; !past.free(once) {
			return nil
		}
		against = nil
		return insert(tx, job, digest, incarnation, true)
	})
	if err != nil { // the write may still run and set the variable
		return nil, err
	}
	return against, nil
}

// startRepeatable is Start for a repeatable job.
func (j *Journal) startRepeatable(
	ctx context.Context, run *recentRun, job *writ.Job, incarnation int64,
) (against *Past, err error) {
	there, err := run.mayHave(ctx, job.Seq, func(ctx context.Context) ([]int, error) { return j.CallsOf(ctx, job.Run) })
	if err != nil || !there {
		return nil, err
	}
	err = j.db.Read(ctx, func(tx *sqldb.Tx) error {
		past, err := pastOf(tx, job, incarnation)
		if err == nil && !past.free(false) {
			against = past
		}
		return err
	})
	return against, err
}

// CallsOf returns the calls of a run that have a record.
func (j *Journal) CallsOf(ctx context.Context, run writ.RunID) ([]int, error) {
	return sqldb.Column[int](j.db.Query(ctx, "SELECT DISTINCT seq FROM jobs WHERE run = $1", run))
}

// pastOf loads all attempts of a job's call.
func pastOf(tx *sqldb.Tx, job *writ.Job, incarnation int64) (*Past, error) {
	rows, err := tx.Query("SELECT try, began, incarnation, started, result FROM jobs WHERE run = $1 AND seq = $2",
		job.Run, job.Seq)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	past := &Past{}
	for rows.Next() {
		var attempt int
		var began bool
		var row entryRow
		if err := rows.Scan(&attempt, &began, &row.incarnation, &row.started, &row.result); err != nil {
			return nil, err
		}
		e, err := row.entry()
		switch {
		case err != nil:
			return nil, err
		case attempt == job.Attempt:
			past.Entry = e
		case attempt > job.Attempt:
			past.Later = true
		case e.Result != nil && e.Result.Error == nil:
			past.Done = e.Result
		case began && attempt > job.KnownFailures && e.mayHaveActed(incarnation):
			past.Unclear, past.Failed = true, cmp.Or(e.Result, past.Failed)
		}
	}
	return past, rows.Err()
}

// mayHaveActed reports whether a started and unsuccessful job may have taken effect. A retryable error means that it
// has not.
func (e *Entry) mayHaveActed(incarnation int64) bool {
	if e.Result == nil {
		return e.Incarnation < incarnation
	}
	return !e.Result.Error.Retryable()
}

// Finish records the result of a job for which Start returned nil. The result must have the same digest and
// incarnation.
func (j *Journal) Finish(ctx context.Context, job *writ.Job, result *writ.Result, once bool) error {
	encoded, err := cbor.Marshal(result)
	if err != nil {
		return fmt.Errorf("encode the result of %s: %w", result.JobKey, err)
	}
	run := j.recent.hold(job.Run)
	defer j.recent.release(run)
	run.mark(job.Seq)
	return j.db.Write(failpoint.At(ctx, failpoint.JobFinished), func(tx *sqldb.Tx) error {
		if once {
			return finish(tx, job.JobKey, encoded)
		}
		return conclude(tx, job, result, encoded)
	})
}

// Refuse records a job that is answered without execution, in one step. It returns the job's recorded result if the
// journal has one, otherwise the result of answer. Refuse passes answer the entry of a started and unfinished job, or
// nil, and may call answer twice.
func (j *Journal) Refuse(
	ctx context.Context, job *writ.Job, digest writ.Digest, incarnation int64, answer func(before *Entry) *writ.Result,
) (*writ.Result, error) {
	run := j.recent.hold(job.Run)
	defer j.recent.release(run)
	run.mark(job.Seq)
	var stands *writ.Result
	err := j.db.Write(failpoint.At(ctx, failpoint.JobRefused), func(tx *sqldb.Tx) error {
		before, err := scanEntry(tx.QueryRow(selectEntry, job.Run, job.Seq, job.Attempt))
		if err == nil && before == nil {
			err = insert(tx, job, digest, incarnation, false)
		}
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

// acksTogether limits the acknowledgements in one commit, because jobs that want to write wait for the commit.
const acksTogether = 256

// Acknowledge records that the supervisor has the results of these jobs. It sorts keys in place. After an error, some
// of the acknowledgements are not recorded.
func (j *Journal) Acknowledge(ctx context.Context, keys ...writ.JobKey) error {
	slices.SortFunc(keys, func(a, b writ.JobKey) int {
		return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Seq, b.Seq))
	})
	for some := range slices.Chunk(keys, acksTogether) {
		err := j.db.Write(failpoint.At(ctx, failpoint.AcksKept), func(tx *sqldb.Tx) error {
			for row := range consecutive(some) {
				_, err := tx.Exec("UPDATE jobs SET acked = TRUE WHERE run = $1 AND seq BETWEEN $2 AND $3 AND try = $4 AND result IS NOT NULL",
					row[0].Run, row[0].Seq, row[len(row)-1].Seq, row[0].Attempt)
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// consecutive splits sorted keys into parts of consecutive calls of the same run and attempt. Usually the keys of a run
// form a single part.
func consecutive(keys []writ.JobKey) iter.Seq[[]writ.JobKey] {
	return func(yield func([]writ.JobKey) bool) {
		for begin, i := 0, 1; i <= len(keys); i++ {
			if i < len(keys) && follows(keys[i-1], keys[i]) {
				continue
			}
			if !yield(keys[begin:i]) {
				return
			}
			begin = i
		}
	}
}

// follows reports whether key belongs to the same call as the key `before`, or to the next call.
func follows(before, key writ.JobKey) bool {
	return key.Run == before.Run && key.Attempt == before.Attempt && key.Seq-before.Seq <= 1
}

// Unacknowledged is a result that the supervisor has not acknowledged.
type Unacknowledged struct {
	Result *writ.Result
	Until  time.Time // see writ.Job.Until
}

// Unacknowledged returns the results that the supervisor has not acknowledged, in the order of their Until.
func (j *Journal) Unacknowledged(ctx context.Context) ([]Unacknowledged, error) {
	rows, err := j.db.Query(ctx,
		"SELECT result, end_by FROM jobs WHERE result IS NOT NULL AND acked = FALSE ORDER BY end_by")
	return sqldb.List(rows, err, func(row *sql.Rows) (u Unacknowledged, err error) {
		var encoded []byte
		var until int64
		if err = row.Scan(&encoded, &until); err == nil {
			u.Until = sqldb.Time(until)
			u.Result, err = decode(encoded)
		}
		return u, err
	})
}

// insert adds the row of a job. `began` is false if the job is refused instead of started.
func insert(tx *sqldb.Tx, job *writ.Job, digest writ.Digest, incarnation int64, began bool) error {
	_, err := tx.Exec("INSERT INTO jobs (run, seq, try, operation, digest, incarnation, started, end_by, began)"+
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
		job.Run, job.Seq, job.Attempt, job.Operation, digest[:], incarnation, sqldb.Micros(tx.Now), sqldb.Micros(job.Until()),
		began)
	return err
}

// conclude adds the row of a job with its result. The row may exist already: from Start (a resumed job), from an
// earlier version of writ, or from an earlier commit with an unknown outcome. Then conclude sets the result if it is
// missing.
func conclude(tx *sqldb.Tx, job *writ.Job, result *writ.Result, encoded []byte) error {
	_, err := tx.Exec("INSERT INTO jobs (run, seq, try, operation, digest, incarnation, started, end_by, began, result)"+
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, TRUE, $9)"+
		" ON CONFLICT (run, seq, try) DO UPDATE SET result = COALESCE(jobs.result, excluded.result)",
		job.Run, job.Seq, job.Attempt, job.Operation, result.Job[:], result.Incarnation,
		sqldb.Micros(time.UnixMilli(result.Started)), sqldb.Micros(job.Until()), encoded)
	return err
}

// finish sets the result of a row. An existing result stays, because finish is called again after a commit with an
// unknown outcome.
func finish(tx *sqldb.Tx, key writ.JobKey, encoded []byte) error {
	done, err := tx.Exec("UPDATE jobs SET result = COALESCE(result, $1) WHERE run = $2 AND seq = $3 AND try = $4",
		encoded, key.Run, key.Seq, key.Attempt)
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
	var r entryRow
	err := row.Scan(&r.incarnation, &r.started, &r.result)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return r.entry()
}

// entryRow is an entry as stored in the table.
type entryRow struct {
	incarnation, started int64
	result               []byte
}

func (r *entryRow) entry() (*Entry, error) {
	e := &Entry{Incarnation: r.incarnation, Started: sqldb.Time(r.started)}
	var err error
	if r.result != nil {
		e.Result, err = decode(r.result)
	}
	return e, err
}

func decode(encoded []byte) (*writ.Result, error) {
	var result writ.Result
	if err := cbor.Unmarshal(encoded, &result); err != nil {
		return nil, fmt.Errorf("decode a recorded result: %w", err)
	}
	return &result, nil
}
