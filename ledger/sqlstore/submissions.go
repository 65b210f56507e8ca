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

const submissionColumns = `payload, run, datacenter, project, signer, script, state, failure, received, expires`

// scanner is a *sql.Row or *sql.Rows.
type scanner interface{ Scan(into ...any) error }

// scanSubmission reads a submission from submissionColumns. The error of an unreadable row is an unreadableRow. If only
// the reason of the rejection is unreadable, the submission has that error in its place.
func (d *damage) scanSubmission(row scanner) (s writ.Submission, err error) {
	s, _, err = d.scanWaiting(row)
	return s, err
}

// scanWaiting is scanSubmission with the digest as stored, which is the row's place in the order of arrival.
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
func (s *Store) AddSubmission(ctx context.Context, in ledger.Incoming) (stored writ.Submission, added bool, err error) {
	in.State, in.Error = writ.SubmissionWaiting, nil
	in.Received, in.Expires = in.Received.UTC().Truncate(time.Microsecond), in.Expires.UTC().Truncate(time.Microsecond)
	err = s.db.Write(failpoint.At(ctx, failpoint.SubmissionKept), func(tx *sqldb.Tx) error {
		added, err = affected(tx.ExecContext(ctx, `
			INSERT INTO submissions (`+submissionColumns+`, signed)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
			ON CONFLICT (payload) DO NOTHING`,
			in.Payload.String(), string(in.Run), string(in.Datacenter), string(in.Project), in.Signer, in.Script,
			string(in.State), "", micros(in.Received), micros(in.Expires), in.Signed))
		if err != nil {
			return err
		}
		if !added {
			stored, err = submission(ctx, tx, in.Payload)
			return err
		}
		stored = in.Submission
		return addWaitingRun(ctx, tx, in, &stored)
	})
	if err != nil {
		return writ.Submission{}, false, fmt.Errorf("add submission: %w", err)
	}
	return stored, added, nil
}

// addWaitingRun stores the run of a new submission. If the datacenter has already reported the run, which happens after
// a ledger was lost and restored, the submission is delivered at once.
func addWaitingRun(ctx context.Context, tx *sqldb.Tx, in ledger.Incoming, stored *writ.Submission) error {
	run := ledger.Run{
		Run: writ.Run{ID: in.Run, Datacenter: in.Datacenter, Project: in.Project, ProjectName: in.ProjectName,
			Deployment: in.Deployment, Signer: in.Signer, Script: in.Script, Payload: in.Payload, Plan: in.Plan},
		State:   ledger.StateWaiting,
		Created: in.Received,
	}
	added, err := addRun(ctx, tx, run, "", parametersOf(in.Params))
	if err != nil {
		return err
	}
	if !added { // the run was stored without parameters
		if _, err := tx.ExecContext(ctx, `UPDATE runs SET parameters = $1 WHERE id = $2`, parametersOf(in.Params),
			string(in.Run)); err != nil {
			return err
		}
		stored.State = writ.SubmissionDelivered
		if _, err := moveSubmission(ctx, tx, in.Payload, stored.State, nil); err != nil {
			return err
		}
	}
	return addSubmissionEvent(ctx, tx, *stored)
}

func submission(ctx context.Context, tx *sqldb.Tx, payload writ.Digest) (writ.Submission, error) {
	return submissionOf(new(damage), payload,
		tx.QueryRowContext(ctx, `SELECT `+submissionColumns+` FROM submissions WHERE payload = $1`, payload.String()))
}

// submissionOf reads the row of a submission. If its reason is unreadable, that is its error.
func submissionOf(d *damage, payload writ.Digest, row scanner) (writ.Submission, error) {
	s, err := d.scanSubmission(row)
	if isShown(s, err) {
		err = nil
	}
	return found(s, err)("submission", payload)
}

// found converts sql.ErrNoRows to NOT_FOUND.
func found[T any](item T, err error) func(what string, id any) (T, error) {
	return func(what string, id any) (T, error) {
		if errors.Is(err, sql.ErrNoRows) {
			var none T
			return none, ledger.NotThere(what, id)
		}
		return item, err
	}
}

// Submission returns a submission.
func (s *Store) Submission(ctx context.Context, payload writ.Digest) (writ.Submission, error) {
	return submissionOf(s.damage, payload,
		s.db.QueryRow(ctx, `SELECT `+submissionColumns+` FROM submissions WHERE payload = $1`, payload.String()))
}

// Signed returns the bytes of a submission.
func (s *Store) Signed(ctx context.Context, payload writ.Digest) ([]byte, error) {
	var signed []byte
	err := s.db.QueryRow(ctx, `SELECT signed FROM submissions WHERE payload = $1`, payload.String()).Scan(&signed)
	if err == nil && len(signed) == 0 { // the text of a rejected submission
		err = sql.ErrNoRows
	}
	return found(signed, err)("submission", payload)
}

// WaitingProjects lists the projects with waiting submissions. It reads one index entry for each project, however many
// submissions wait.
func (s *Store) WaitingProjects(ctx context.Context, datacenter writ.DatacenterID) ([]writ.ProjectID, error) {
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
func (s *Store) Waiting(
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

// readable returns at most max readable submissions that query selects after a time and a digest as stored. It queries
// again only after unreadable rows.
func (s *Store) readable(
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
func (s *Store) WaitingBySigner(ctx context.Context) (map[string]ledger.Waits, error) {
	type row struct {
		signer string
		ledger.Waits
	}
	rows, err := s.db.Query(ctx, `
		SELECT signer, COUNT(*), SUM(LENGTH(signed)) FROM submissions
		WHERE state = 'waiting'
		GROUP BY signer`)
	all, err := collect(rows, err, func(rows scanner) (r row, err error) {
		err = rows.Scan(&r.signer, &r.Submissions, &r.Bytes)
		return r, err
	})
	if err != nil {
		return nil, err
	}
	waits := make(map[string]ledger.Waits, len(all))
	for _, r := range all {
		waits[r.signer] = r.Waits
	}
	return waits, nil
}

// Overdue lists waiting submissions that have expired.
func (s *Store) Overdue(ctx context.Context, now time.Time, max int) ([]writ.Submission, error) {
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
			if isShown(found, err) { // it can expire
				err = nil
			}
			return found, micros(found.Expires), payload, err
		})
}

// moveSubmission moves a waiting submission by compare-and-set. It reports whether the submission was waiting.
func moveSubmission(
	ctx context.Context, tx *sqldb.Tx, payload writ.Digest, to writ.SubmissionState, reason *writ.Error,
) (bool, error) {
	if !writ.CanMove(writ.SubmissionMoves, writ.SubmissionWaiting, to) {
		return false, fmt.Errorf("a submission cannot move from waiting to %q", to)
	}
	failure := ""
	if reason != nil {
		failure = encode(reason)
	}
	return affected(tx.ExecContext(ctx, `
		UPDATE submissions
		SET state = $1, failure = $2
		WHERE payload = $3 AND state = 'waiting'`, string(to), failure, payload.String()))
}

// Deliver moves a submission to delivered and stores the datacenter's answer about the run.
func (s *Store) Deliver(ctx context.Context, payload writ.Digest, run writ.Run) error {
	err := s.db.Write(failpoint.At(ctx, failpoint.SubmissionDelivered), func(tx *sqldb.Tx) error {
		moved, err := moveSubmission(ctx, tx, payload, writ.SubmissionDelivered, nil)
		if err != nil {
			return err
		}
		now, err := submission(ctx, tx, payload)
		switch {
		case err != nil:
			return err
		case !moved && now.State == writ.SubmissionDelivered:
			return nil
		case !moved:
			return conflict("the submission is %s", now.State)
		case run.ID != now.Run:
			return writ.Errorf(writ.CodeExecError, "the datacenter answered with run %q for the submission of run %s",
				run.ID, now.Run)
		}
		if err := storeRun(ctx, tx, now.Datacenter, "", run, fromAnswer); err != nil {
			return err
		}
		return addSubmissionEvent(ctx, tx, now)
	})
	if err != nil {
		return fmt.Errorf("deliver submission: %w", err)
	}
	return nil
}

// Reject moves a waiting submission, and its run, to refused or expired.
func (s *Store) Reject(ctx context.Context, payload writ.Digest, to writ.SubmissionState, reason *writ.Error) error {
	if to == writ.SubmissionDelivered {
		return fmt.Errorf("reject submission: state %q is not a rejection", to)
	}
	err := s.db.Write(failpoint.At(ctx, failpoint.SubmissionRejected), func(tx *sqldb.Tx) error {
		moved, err := moveSubmission(ctx, tx, payload, to, reason)
		if err != nil {
			return err
		}
		now, err := submission(ctx, tx, payload)
		if err != nil {
			return err
		}
		if !moved {
			return conflict("the submission is %s", now.State)
		}
		if err := rejectRun(ctx, tx, now); err != nil {
			return err
		}
		if err := boundRejected(ctx, tx, now); err != nil {
			return err
		}
		return addSubmissionEvent(ctx, tx, now)
	})
	if err != nil {
		return fmt.Errorf("reject submission: %w", err)
	}
	return nil
}

// rejectedAtOnce limits the old rejected submissions of a signer that each new rejection deletes.
const rejectedAtOnce = 10

// boundRejected limits the space of rejected submissions: it deletes the text of s and the oldest rejected submissions
// of its signer.
func boundRejected(ctx context.Context, tx *sqldb.Tx, s writ.Submission) error {
	if _, err := tx.ExecContext(ctx, `UPDATE submissions SET signed = $1 WHERE payload = $2`, []byte{},
		s.Payload.String()); err != nil {
		return err
	}
	old, err := column[string](tx.QueryContext(ctx, `
		SELECT run FROM submissions
		WHERE signer = $1 AND state IN ('refused', 'expired')
		ORDER BY received DESC, payload DESC
		LIMIT $2 OFFSET $3`, s.Signer, rejectedAtOnce, ledger.MaxRejected))
	if err != nil {
		return err
	}
	for _, run := range old {
		for _, query := range []string{
			`DELETE FROM submissions WHERE run = $1`, `DELETE FROM runs WHERE id = $1 AND accepted = 0`,
		} {
			if _, err := tx.ExecContext(ctx, query, run); err != nil {
				return err
			}
		}
	}
	return nil
}

// rejectRun ends a run that never reached its datacenter.
func rejectRun(ctx context.Context, tx *sqldb.Tx, s writ.Submission) error {
	var text string
	err := tx.QueryRowContext(ctx, `SELECT body FROM runs WHERE id = $1 AND accepted = 0`, string(s.Run)).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // the datacenter has the run, so its events decide
	}
	if err != nil {
		return err
	}
	var run writ.Run
	if decode(text, &run) != nil { // the fields of the submission replace an unreadable record
		run = writ.Run{ID: s.Run, Datacenter: s.Datacenter, Project: s.Project, Signer: s.Signer, Script: s.Script,
			Payload: s.Payload}
	}
	run.Ended = tx.Now
	if s.Error != nil {
		run.Failure = &writ.Failure{Error: *s.Error}
	}
	_, err = tx.ExecContext(ctx, `
		UPDATE runs
		SET state = $1, ended = $2, body = $3, failure = $4
		WHERE id = $5`, string(s.State), micros(run.Ended), encode(run), failureCode(run), string(s.Run))
	return err
}

// addSubmissionEvent stores the event of a submission's new state.
func addSubmissionEvent(ctx context.Context, tx *sqldb.Tx, s writ.Submission) error {
	first, err := nextEventIDs(ctx, tx, 1)
	if err != nil {
		return err
	}
	return addEvent(ctx, tx, ledger.Event{
		ID: first, Datacenter: s.Datacenter, Event: writ.Event{Time: tx.Now}, Submission: &s, About: s.Run,
		Project: s.Project,
	})
}
