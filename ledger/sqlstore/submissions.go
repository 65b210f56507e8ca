package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/sqldb"
	"writ/ledger"
)

// submissionTable holds submissions until their runs are deleted.
type submissionTable struct{ tables }

const submissionColumns = `payload, run, datacenter, project, signer, script, state, failure, received, expires`

// scanSubmission reads a submission from submissionColumns. The error of an unreadable row is an unreadableRow. If only
// the reason of the rejection is unreadable, scanSubmission also returns the submission, whose Error then describes the
// unreadable row.
func (d *damage) scanSubmission(row scanner) (s writ.Submission, err error) {
	s, _, err = d.scanWaiting(row)
	return s, err
}

// scanWaiting is like scanSubmission, but also returns the text of the digest, which orders rows with the same time.
func (d *damage) scanWaiting(row scanner) (s writ.Submission, payload string, err error) {
	var failure string
	var received, expires int64
	err = row.Scan(&payload, &s.Run, &s.Datacenter, &s.Project, &s.Signer, &s.Script, &s.State, &failure, &received,
		&expires)
	if err != nil {
		return s, payload, err
	}
	s.Received, s.Expires = sqldb.Time(received), sqldb.Time(expires)
	if s.Payload, err = writ.ParseDigest(payload); err != nil {
		s.Payload = writ.Digest{}
		return s, payload, d.submission(err, s.Run)
	}
	if failure != "" {
		s.Error = new(writ.Error)
		if err := decode(failure, s.Error); err != nil {
			bad := d.submission(err, s.Run)
			s.Error = bad.Unreadable.Error()
			return s, payload, bad
		}
	}
	return s, payload, nil
}

// isShown reports whether s can be shown or moved although err names its row as unreadable.
func isShown(s writ.Submission, err error) bool { return skip(err) && s.Payload != (writ.Digest{}) }

// AddSubmission stores a submission as waiting, unless its payload exists.
func (s *submissionTable) AddSubmission(
	ctx context.Context, in ledger.Incoming,
) (stored writ.Submission, added bool, err error) {
	in.State, in.Error = writ.SubmissionWaiting, nil
	in.Received, in.Expires = in.Received.UTC().Truncate(time.Microsecond), in.Expires.UTC().Truncate(time.Microsecond)
	err = s.write(failpoint.At(ctx, failpoint.SubmissionKept), func(tx *sqldb.Tx) error {
		var reported bool // by the datacenter, which has the run
		err := tx.QueryRowContext(ctx, `
			INSERT INTO submissions (`+submissionColumns+`)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
			ON CONFLICT (payload) DO NOTHING
			RETURNING EXISTS (SELECT 1 FROM runs WHERE id = $2)`,
			in.Payload.String(), string(in.Run), string(in.Datacenter), string(in.Project), in.Signer, in.Script,
			string(in.State), "", micros(in.Received), micros(in.Expires)).Scan(&reported)
		added = err == nil
		if errors.Is(err, sql.ErrNoRows) {
			stored, err = submission(ctx, tx, in.Payload)
		}
		if !added {
			return err
		}
		if err := tx.Queue(ctx, `INSERT INTO submission_texts (run, signed) VALUES ($1, $2)`, string(in.Run),
			in.Signed); err != nil {
			return err
		}
		stored = in.Submission
		return addWaitingRun(ctx, tx, in, reported, &stored)
	})
	if err != nil {
		return writ.Submission{}, false, fmt.Errorf("add submission: %w", err)
	}
	return stored, added, nil
}

// addWaitingRun stores the run of a new submission. If the datacenter has already reported the run, which happens after
// a ledger was lost and restored, the submission is stored as delivered.
func addWaitingRun(
	ctx context.Context, tx *sqldb.Tx, in ledger.Incoming, reported bool, stored *writ.Submission,
) error {
	run := ledger.Run{
		Run: writ.Run{ID: in.Run, Datacenter: in.Datacenter, Project: in.Project, ProjectName: in.ProjectName,
			Deployment: in.Deployment, Signer: in.Signer, Script: in.Script, Payload: in.Payload, Plan: in.Plan,
			LogsOnly: in.LogsOnly},
		State:   ledger.StateWaiting,
		Created: in.Received,
	}
	id := newEventsOf(tx).reserve(1)
	var err error
	if !reported {
		err = addRun(ctx, tx, run, id, parametersOf(in.Params))
	} else { // the run was stored without parameters
		err = changeEnded(ctx, tx, []writ.RunID{in.Run}, func() error {
			return tx.Queue(ctx, `UPDATE runs SET parameters = $1, logs_only = $2 WHERE id = $3`, parametersOf(in.Params),
				in.LogsOnly, string(in.Run))
		})
		if err == nil {
			*stored, _, err = moveSubmission(ctx, tx, in.Payload, writ.SubmissionDelivered, nil)
		}
	}
	if err != nil {
		return err
	}
	return addEvent(ctx, tx, submissionEvent(tx, id, *stored))
}

func submission(ctx context.Context, tx *sqldb.Tx, payload writ.Digest) (writ.Submission, error) {
	return submissionOf(new(damage), payload,
		tx.QueryRowContext(ctx, `SELECT `+submissionColumns+` FROM submissions WHERE payload = $1`, payload.String()))
}

// submissionOf reads the row of a submission. If only the reason of the rejection is unreadable, the submission's Error
// reports this instead.
func submissionOf(d *damage, payload writ.Digest, row scanner) (writ.Submission, error) {
	s, err := d.scanSubmission(row)
	if isShown(s, err) {
		err = nil
	}
	return found(s, err)("submission", payload)
}

// Submission returns a submission.
func (s *submissionTable) Submission(ctx context.Context, payload writ.Digest) (writ.Submission, error) {
	return submissionOf(s.damage, payload,
		s.db.QueryRow(ctx, `SELECT `+submissionColumns+` FROM submissions WHERE payload = $1`, payload.String()))
}

// Signed returns the bytes of a submission.
func (s *submissionTable) Signed(ctx context.Context, payload writ.Digest) ([]byte, error) {
	var signed []byte
	err := s.db.QueryRow(ctx, `
		SELECT signed FROM submission_texts
		WHERE run = (SELECT run FROM submissions WHERE payload = $1)`, payload.String()).Scan(&signed)
	return found(signed, err)("submission", payload)
}

// WaitingProjects lists the projects with waiting submissions. It reads one index entry for each project, however many
// submissions wait.
func (s *submissionTable) WaitingProjects(ctx context.Context, datacenter writ.DatacenterID) ([]writ.ProjectID, error) {
	rows, err := s.db.Query(ctx, `
		WITH RECURSIVE waiting (project) AS (
			SELECT MIN(project) FROM submissions WHERE state = 'waiting' AND datacenter = $1
			UNION ALL
			SELECT (SELECT MIN(project) FROM submissions WHERE state = 'waiting' AND datacenter = $1 AND project > waiting.project)
			FROM waiting WHERE waiting.project IS NOT NULL
		)
		SELECT project FROM waiting WHERE project IS NOT NULL`, string(datacenter))
	return collect(rows, err,
		func(rows scanner) (project writ.ProjectID, err error) { return project, rows.Scan(&project) })
}

// Waiting lists waiting submissions of a project and datacenter.
func (s *submissionTable) Waiting(
	ctx context.Context, datacenter writ.DatacenterID, project writ.ProjectID, after ledger.Position, max int,
) ([]writ.Submission, error) {
	return s.readable(micros(after.Received), after.Payload.String(), max,
		func(received int64, payload string, max int) (*sql.Rows, error) {
			return s.db.Query(ctx, `
				SELECT `+submissionColumns+` FROM submissions
				WHERE state = 'waiting' AND datacenter = $1 AND project = $2 AND (received, payload) > ($3, $4)
				ORDER BY received, payload
				LIMIT $5`, string(datacenter), string(project), received, payload, max)
		},
		func(row scanner) (found writ.Submission, at int64, payload string, err error) {
			found, payload, err = s.damage.scanWaiting(row)
			return found, micros(found.Received), payload, err
		})
}

// readable returns at most `max` readable submissions after the position (`after`, `payload`), a time and the text of a
// digest. `query` selects at most `max` rows after a position. readable queries again only after unreadable rows.
func (s *submissionTable) readable(
	after int64, payload string, max int,
	query func(after int64, payload string, max int) (*sql.Rows, error),
	scan func(row scanner) (s writ.Submission, at int64, payload string, err error),
) ([]writ.Submission, error) {
	all := []writ.Submission{}
	for {
		read, limit := 0, max-len(all)
		rows, err := query(after, payload, limit)
		some, err := collect(rows, err, func(row scanner) (s writ.Submission, err error) {
			read++
			s, after, payload, err = scan(row)
			return s, err
		})
		if all = append(all, some...); err != nil || read < limit || len(all) == max {
			return all, err
		}
	}
}

// WaitingBySigner totals the waiting submissions of each signer.
func (s *submissionTable) WaitingBySigner(ctx context.Context) (map[string]ledger.Waits, error) {
	rows, err := s.db.Query(ctx, `
		SELECT signer, COUNT(*), SUM(LENGTH(signed))
		FROM submissions JOIN submission_texts USING (run)
		WHERE state = 'waiting'
		GROUP BY signer`)
	waits := map[string]ledger.Waits{}
	err = each(rows, err, func(row scanner) error {
		var signer string
		var w ledger.Waits
		err := row.Scan(&signer, &w.Submissions, &w.Bytes)
		waits[signer] = w
		return err
	})
	return waits, err
}

// Overdue lists waiting submissions that have expired.
func (s *submissionTable) Overdue(ctx context.Context, now time.Time, max int) ([]writ.Submission, error) {
	return s.readable(math.MinInt64, "", max,
		func(expires int64, payload string, max int) (*sql.Rows, error) {
			return s.db.Query(ctx, `
				SELECT `+submissionColumns+` FROM submissions
				WHERE state = 'waiting' AND expires < $1 AND (expires, payload) > ($2, $3)
				ORDER BY expires, payload
				LIMIT $4`, micros(now), expires, payload, max)
		},
		func(row scanner) (found writ.Submission, at int64, payload string, err error) {
			found, payload, err = s.damage.scanWaiting(row)
			if isShown(found, err) { // it can expire without a readable reason
				err = nil
			}
			return found, micros(found.Expires), payload, err
		})
}
