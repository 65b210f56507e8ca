package journal

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/sqldb"
)

const (
	// ReplayKept is how long after its expiry a submission or statement still gets its original answer. It bounds the
	// permitted difference of clocks.
	ReplayKept = 24 * time.Hour
	// eventsKept is how long events are kept after all coordinators have acknowledged them. A coordinator whose ledger
	// is restored from a backup requests them again.
	eventsKept = 7 * 24 * time.Hour
)

// Limits of one step of Forget: the approximate number of rows that it deletes, and the number of runs that it marks
// for deletion. They are so low that concurrent writers wait for milliseconds only.
const (
	forgetRows   = 500
	forgetRuns   = 50
	forgetEvents = 50 // rows, each with the events of a commit
)

// Accepted returns the time at which the newest run was accepted, zero without a run. Two clocks agreed on this time:
// if the supervisor's clock runs far ahead of the signer's clock, the supervisor refuses the submission as expired.
func (j *Journal) Accepted(ctx context.Context) (time.Time, error) {
	return Query(ctx, j, func(tx *Tx) (time.Time, error) {
		return tx.firstTime(`SELECT COALESCE(MAX(accepted), 0) FROM runs`)
	})
}

// Forget deletes a small number of old records, and reports whether there may be more. It deletes ended runs with all
// their records, unless their submission or a resume could still arrive. It also deletes expired statements and
// refusals, events that all coordinators acknowledged long ago, and departed resources after UsageGrace. It keeps
// resources, tokens, nodes, secrets and the revisions of deployments. The caller may stop between any two steps.
func (j *Journal) Forget(ctx context.Context, now, ended time.Time, coordinators []string) (more bool, err error) {
	err = j.Write(failpoint.At(ctx, failpoint.JournalForgotten), func(tx *Tx) error {
		for _, step := range []func() (int64, error){
			tx.clearForgotten,
			func() (int64, error) { return tx.forgetRuns(now, ended) },
			func() (int64, error) { return tx.forgetEvents(coordinators) },
			func() (int64, error) { return tx.forgetAnswers(now) },
			func() (int64, error) { return tx.forgetDeparted(now) },
		} {
			gone, err := step()
			if more = gone > 0; err != nil || more {
				return err
			}
		}
		return nil
	})
	if more {
		j.tail.forget() // deleted events must not be sent any more
	}
	return more, err
}

// forgetRuns deletes the rows of the runs that ended first. This hides these runs; clearForgotten deletes their other
// records later.
func (tx *Tx) forgetRuns(now, ended time.Time) (int64, error) {
	old, err := tx.runIDs(oldRuns, sqldb.Micros(ended), sqldb.Micros(now), forgetRuns)
	for _, id := range old {
		r, err := tx.Run(id)
		if err != nil && !isForged(err) {
			return 0, err
		}
		payload := "" // unknown if the run was tampered with
		if err == nil && r != nil {
			payload = r.Payload.String()
		}
		for _, step := range []struct{ query, key string }{
			{
				`INSERT INTO forgotten (run, number) SELECT id, number FROM runs WHERE id = $1 ON CONFLICT (run) DO NOTHING`,
				string(id),
			},
			{`DELETE FROM runs WHERE id = $1`, string(id)},
			{`DELETE FROM payloads WHERE digest = $1`, payload},
		} {
			if err := tx.exec(step.query, step.key); err != nil {
				return 0, err
			}
		}
	}
	return int64(len(old)), err
}

const oldRuns = `SELECT id FROM runs WHERE NOT open AND ended < $1 AND needed < $2 ORDER BY ended, id LIMIT $3`

// clearForgotten deletes some records of deleted runs.
func (tx *Tx) clearForgotten() (gone int64, err error) {
	for gone < forgetRows {
		run, err := sqldb.First[writ.RunID](tx.QueryRowContext(tx.ctx, `SELECT run FROM forgotten LIMIT 1`))
		if run == "" {
			return gone, err
		}
		n, err := tx.clearRun(run)
		if err != nil {
			return gone, err
		}
		gone += n
		if n == 0 {
			gone++
			if err := tx.exec(`DELETE FROM forgotten WHERE run = $1`, string(run)); err != nil {
				return gone, err
			}
		}
	}
	return gone, nil
}

// clearRun deletes the first rows of a run from the first table that still has rows of the run. It returns the number
// of deleted rows, 0 if no table has rows of the run.
func (tx *Tx) clearRun(run writ.RunID) (int64, error) {
	late, err := sqldb.Column[string](tx.QueryContext(tx.ctx, `SELECT DISTINCT digest FROM results WHERE run = $1
		AND seq < (SELECT MIN(seq) FROM results WHERE run = $1) + $2`, string(run), forgetRows))
	if err != nil {
		return 0, err
	}
	calls, err := tx.soundCalls(`SELECT place, body`+firstCalls, string(run), forgetRows)
	if err != nil {
		return 0, err
	}
	for _, part := range []struct {
		query  string
		frames []string // deleted too, unless other runs need them
	}{
		{`DELETE FROM results WHERE run = $1 AND seq < (SELECT MIN(seq) FROM results WHERE run = $1) + $2`, late},
		{`DELETE FROM deliveries WHERE run = $1 AND seq < (SELECT MIN(seq) FROM deliveries WHERE run = $1) + $2`, nil},
		{`DELETE` + firstCalls, framesOf(calls)},
		{`DELETE FROM logs WHERE run = $1 AND ordinal < (SELECT MIN(ordinal) FROM logs WHERE run = $1) + $2`, nil},
	} {
		gone, err := tx.affected(part.query, string(run), forgetRows)
		if err != nil {
			return 0, err
		}
		if gone == 0 {
			continue
		}
		for _, digest := range part.frames {
			if err := tx.clearFrame(digest); err != nil {
				return 0, err
			}
		}
		return gone, nil
	}
	return 0, nil
}

// firstCalls selects the first calls of a deleted run.
const firstCalls = ` FROM calls WHERE place > (SELECT number * 4096 FROM forgotten WHERE run = $1)
	AND place < (SELECT ` + endOfPlaces + ` FROM forgotten WHERE run = $1)
	AND place < (SELECT MIN(place) FROM calls WHERE place > (SELECT number * 4096 FROM forgotten WHERE run = $1)) + $2`

// framesOf returns the distinct frames of the results of calls.
func framesOf(calls []*Call) []string {
	var frames []string
	for _, c := range calls {
		if c.Answered != nil {
			frames = append(frames, c.Answered.Frame.String())
		}
	}
	slices.Sort(frames)
	return slices.Compact(frames)
}

// clearFrame deletes a frame unless a run with a result in it still exists.
func (tx *Tx) clearFrame(digest string) error {
	runs, err := sqldb.First[string](tx.QueryRowContext(tx.ctx, `SELECT runs FROM frames WHERE digest = $1`, digest))
	if err != nil {
		return err
	}
	for run := range strings.FieldsSeq(runs) {
		there, err := sqldb.First[int](tx.QueryRowContext(tx.ctx, `SELECT COUNT(*) FROM runs WHERE id = $1`, run))
		if err != nil || there > 0 {
			return err
		}
	}
	return tx.exec(`DELETE FROM frames WHERE digest = $1 AND NOT EXISTS (SELECT 1 FROM results WHERE digest = $1)`, digest)
}

// forgetEvents records the newest event that all coordinators have acknowledged. It deletes the oldest events that all
// coordinators acknowledged more than eventsKept ago.
func (tx *Tx) forgetEvents(coordinators []string) (int64, error) {
	if len(coordinators) == 0 {
		return 0, nil // the events are kept for the first coordinator
	}
	has := int64(-1)
	for _, c := range coordinators {
		seq, err := sqldb.First[int64](tx.QueryRowContext(tx.ctx,
			`SELECT seq FROM acknowledgements WHERE coordinator = $1`, c))
		if err != nil {
			return 0, err
		}
		if has < 0 || seq < has {
			has = seq
		}
	}
	if err := tx.exec(`INSERT INTO event_marks (at, seq) SELECT $1, $2 WHERE NOT EXISTS (SELECT 1 FROM event_marks WHERE seq >= $2)
		ON CONFLICT (at) DO NOTHING`, sqldb.Micros(tx.Now), has); err != nil {
		return 0, err
	}
	var last sql.NullInt64
	then := sqldb.Micros(tx.Now.Add(-eventsKept))
	if err := tx.QueryRowContext(tx.ctx, `SELECT MAX(seq) FROM event_marks WHERE at <= $1`, then).Scan(&last); err !=
		nil || !last.Valid {
		return 0, err
	}
	if err := tx.exec(`DELETE FROM event_marks WHERE seq < $1`, last.Int64); err != nil {
		return 0, err
	}
	return tx.affected(`DELETE FROM events WHERE seq <= $1 AND seq IN (SELECT seq FROM events ORDER BY seq LIMIT $2)`,
		last.Int64, forgetEvents)
}
