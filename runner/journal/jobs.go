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

// Entry is what the journal holds under the key of a job.
type Entry struct {
	Incarnation int64        // that began it
	Started     time.Time    // by the node's clock
	Result      *writ.Result // nil if it was begun and not ended
}

// Find returns the entry of a job, nil if there is none.
func (j *Journal) Find(ctx context.Context, key writ.JobKey) (*Entry, error) {
	return scanEntry(j.db.QueryRow(ctx, selectEntry, key.Run, key.Seq, key.Attempt))
}

// Past is what the journal holds of the attempts of a call when one of them is to begin.
type Past struct {
	Entry *Entry // of this very attempt, nil if there is none
	// Later says that a later attempt came already. The supervisor gave this one up before it sent that, so nobody waits for it.
	Later bool
	// Done is the result with which an earlier attempt succeeded, nil if none did.
	Done *writ.Result
	// Unclear says that an earlier attempt may have taken effect, and whoever had this one sent was not told so.
	Unclear bool
}

// free reports whether nothing of the past keeps a job from being carried out. Only a job that is to act once cares for earlier attempts.
func (p *Past) free(once bool) bool {
	return p.Entry == nil && !p.Later && !(once && (p.Done != nil || p.Unclear))
}

// Start returns nil if a job comes for the first time and the caller may act, or else the past of its call, which speaks against it. One
// that is to act once is recorded as begun before: it never begins again. Of another one nothing is recorded until Finish. It may be
// done again in any case, and is, if the node stops before that.
//
// The caller sees to it that no job is between Start and Finish twice, and no two attempts of a job that is to act once: what this incarnation
// began and did not end has not acted.
func (j *Journal) Start(ctx context.Context, job *writ.Job, digest writ.Digest, incarnation int64, once bool) (*Past, error) {
	run := j.recent.hold(job.Run)
	defer j.recent.let(run)
	if !once {
		return j.look(ctx, run, job, incarnation)
	}
	run.note(job.Seq)
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
	if err != nil { // the change may still be under way, and write the variable
		return nil, err
	}
	return against, nil
}

// look is Start for a job that may be done again.
func (j *Journal) look(ctx context.Context, run *recentRun, job *writ.Job, incarnation int64) (against *Past, err error) {
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

// CallsOf returns the calls of a run of which there is something.
func (j *Journal) CallsOf(ctx context.Context, run writ.RunID) ([]int, error) {
	rows, err := j.db.Query(ctx, "SELECT DISTINCT seq FROM jobs WHERE run = $1", run)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var calls []int
	for rows.Next() {
		var seq int
		if err := rows.Scan(&seq); err != nil {
			return nil, err
		}
		calls = append(calls, seq)
	}
	return calls, rows.Err()
}

// pastOf looks at all attempts of a job's call.
func pastOf(tx *sqldb.Tx, job *writ.Job, incarnation int64) (*Past, error) {
	rows, err := tx.Query("SELECT try, began, incarnation, started, result FROM jobs WHERE run = $1 AND seq = $2", job.Run, job.Seq)
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
			past.Unclear = true
		}
	}
	return past, rows.Err()
}

// mayHaveActed reports whether a job that began and did not succeed may have taken effect all the same. A failure that invites another
// attempt says that it has not.
func (e *Entry) mayHaveActed(incarnation int64) bool {
	if e.Result == nil {
		return e.Incarnation < incarnation
	}
	return !e.Result.Error.Retryable()
}

// Finish records the result of a job for which Start returned nil, with the same digest and incarnation in it.
func (j *Journal) Finish(ctx context.Context, job *writ.Job, result *writ.Result, once bool) error {
	encoded, err := cbor.Marshal(result)
	if err != nil {
		return fmt.Errorf("encode the result of %s: %w", result.JobKey, err)
	}
	run := j.recent.hold(job.Run)
	defer j.recent.let(run)
	run.note(job.Seq)
	return j.db.Write(failpoint.At(ctx, failpoint.JobFinished), func(tx *sqldb.Tx) error {
		if once {
			return finish(tx, job.JobKey, encoded)
		}
		return conclude(tx, job, result, encoded)
	})
}

// Refuse records a job that is answered without acting, in one step, and returns the result that now stands: an earlier one if there
// is one, else that of answer. It gets the entry of a job that was started and not ended, nil if there is none, and may be called twice.
func (j *Journal) Refuse(ctx context.Context, job *writ.Job, digest writ.Digest, incarnation int64, answer func(before *Entry) *writ.Result) (*writ.Result, error) {
	run := j.recent.hold(job.Run)
	defer j.recent.let(run)
	run.note(job.Seq)
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

// acksTogether bounds the results whose acknowledgement one change records, because jobs wait for it.
const acksTogether = 256

// Acknowledge records that the supervisor has the results of these jobs, which it puts in order. A failure in the middle leaves out the rest.
func (j *Journal) Acknowledge(ctx context.Context, keys ...writ.JobKey) error {
	slices.SortFunc(keys, func(a, b writ.JobKey) int {
		return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Seq, b.Seq))
	})
	for some := range slices.Chunk(keys, acksTogether) {
		err := j.db.Write(failpoint.At(ctx, failpoint.AcksKept), func(tx *sqldb.Tx) error {
			for row := range inARow(some) {
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

// inARow cuts a list that is in order into parts in which each key is that of the next call of the same run: mostly all that a list has of a run.
func inARow(keys []writ.JobKey) iter.Seq[[]writ.JobKey] {
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

// follows reports whether a key is that of the call after another one's, or of the same.
func follows(before, key writ.JobKey) bool {
	return key.Run == before.Run && key.Attempt == before.Attempt && key.Seq-before.Seq <= 1
}

// Unacknowledged is a result that the supervisor has not acknowledged.
type Unacknowledged struct {
	Result *writ.Result
	Until  time.Time // see writ.Job.Until
}

// Unacknowledged returns the results that the supervisor may not have, in the order in which they lose their meaning.
func (j *Journal) Unacknowledged(ctx context.Context) ([]Unacknowledged, error) {
	rows, err := j.db.Query(ctx, "SELECT result, end_by FROM jobs WHERE result IS NOT NULL AND acked = FALSE ORDER BY end_by")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []Unacknowledged
	for rows.Next() {
		var encoded []byte
		var until int64
		if err := rows.Scan(&encoded, &until); err != nil {
			return nil, err
		}
		result, err := decode(encoded)
		if err != nil {
			return nil, err
		}
		all = append(all, Unacknowledged{result, sqldb.Time(until)})
	}
	return all, rows.Err()
}

// insert adds the row of a job.
func insert(tx *sqldb.Tx, job *writ.Job, digest writ.Digest, incarnation int64, began bool) error {
	_, err := tx.Exec("INSERT INTO jobs (run, seq, try, operation, digest, incarnation, started, end_by, began)"+
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
		job.Run, job.Seq, job.Attempt, job.Operation, digest[:], incarnation, sqldb.Micros(tx.Now), sqldb.Micros(job.Until()), began)
	return err
}

// conclude adds the row of a job that was not recorded before, with its result, or sets that of the row that an earlier version, or an
// earlier commit with an unknown outcome, has made.
func conclude(tx *sqldb.Tx, job *writ.Job, result *writ.Result, encoded []byte) error {
	_, err := tx.Exec("INSERT INTO jobs (run, seq, try, operation, digest, incarnation, started, end_by, began, result)"+
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, TRUE, $9)"+
		" ON CONFLICT (run, seq, try) DO UPDATE SET result = COALESCE(jobs.result, excluded.result)",
		job.Run, job.Seq, job.Attempt, job.Operation, result.Job[:], result.Incarnation, sqldb.Micros(time.UnixMilli(result.Started)), sqldb.Micros(job.Until()), encoded)
	return err
}

// finish sets the result of a row; the first one stays, because a commit whose outcome was unknown is tried again.
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

// entryRow is an entry as the table has it.
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
