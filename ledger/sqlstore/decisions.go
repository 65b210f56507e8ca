package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/sqldb"
	"writ/ledger"
)

// moveSubmission moves a waiting submission to the state `to`, by compare-and-set. It returns the submission in its
// current state, and whether it was waiting.
func moveSubmission(
	ctx context.Context, tx *sqldb.Tx, payload writ.Digest, to writ.SubmissionState, reason *writ.Error,
) (now writ.Submission, moved bool, err error) {
	if !writ.CanMove(writ.SubmissionMoves, writ.SubmissionWaiting, to) {
		return now, false, fmt.Errorf("a submission cannot move from waiting to %q", to)
	}
	failure := ""
	if reason != nil {
		failure = encode(reason)
	}
	now, err = submissionOf(new(damage), payload, tx.QueryRowContext(ctx,
		moveSubmissionText+` RETURNING `+submissionColumns, string(to), failure, payload.String()))
	if writ.CodeOf(err) == writ.CodeNotFound {
		now, err = submission(ctx, tx, payload)
		return now, false, err
	}
	return now, err == nil, err
}

const moveSubmissionText = `
		UPDATE submissions
		SET state = $1, failure = $2
		WHERE payload = $3 AND state = 'waiting'`

// Deliver moves a submission to delivered and stores the datacenter's answer about the run.
func (s *submissionTable) Deliver(ctx context.Context, payload writ.Digest, run writ.Run) error {
	err := s.write(failpoint.At(ctx, failpoint.SubmissionDelivered), func(tx *sqldb.Tx) error {
		now, moved, err := moveSubmission(ctx, tx, payload, writ.SubmissionDelivered, nil)
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
		known, err := runsOf(ctx, tx, []writ.RunID{run.ID})
		if err != nil {
			return err
		}
		run.Datacenter, run.Output = now.Datacenter, nil
		store := func() error {
			return storeReported(ctx, tx, now.Datacenter, "", encodedOf(run), known, fromAnswer)
		}
		if run.State.Ended() || known[run.ID].ended > 0 {
			err = changeEnded(ctx, tx, []writ.RunID{run.ID}, store)
		} else {
			err = store()
		}
		if err != nil {
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
func (s *submissionTable) Reject(
	ctx context.Context, payload writ.Digest, to writ.SubmissionState, reason *writ.Error,
) error {
	if to == writ.SubmissionDelivered {
		return fmt.Errorf("reject submission: state %q is not a rejection", to)
	}
	err := s.write(failpoint.At(ctx, failpoint.SubmissionRejected), func(tx *sqldb.Tx) error {
		now, moved, err := moveSubmission(ctx, tx, payload, to, reason)
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

// boundRejected limits the space of rejected submissions: it deletes the text of s, and the oldest rejected submissions
// of its signer beyond ledger.MaxRejected.
func boundRejected(ctx context.Context, tx *sqldb.Tx, s writ.Submission) error {
	if err := tx.Queue(ctx, `DELETE FROM submission_texts WHERE run = $1`, string(s.Run)); err != nil {
		return err
	}
	old, err := column[writ.RunID](tx.QueryContext(ctx, `
		SELECT run FROM submissions
		WHERE signer = $1 AND state IN ('refused', 'expired')
		ORDER BY received DESC, payload DESC
		LIMIT $2 OFFSET $3`, s.Signer, rejectedAtOnce, ledger.MaxRejected))
	if err != nil {
		return err
	}
	return changeEnded(ctx, tx, old, func() error {
		for _, run := range old {
			for _, query := range []string{
				`DELETE FROM submissions WHERE run = $1`, `DELETE FROM runs WHERE id = $1 AND accepted = 0`,
			} {
				if err := tx.Queue(ctx, query, string(run)); err != nil {
					return err
				}
			}
		}
		return nil
	})
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
	return changeEnded(ctx, tx, []writ.RunID{s.Run}, func() error {
		return tx.Queue(ctx, `
			UPDATE runs
			SET state = $1, ended = $2, body = $3, failure = $4
			WHERE id = $5`, string(s.State), micros(run.Ended), encode(run), failureCode(run), string(s.Run))
	})
}

// addSubmissionEvent stores the event of a submission's new state.
func addSubmissionEvent(ctx context.Context, tx *sqldb.Tx, s writ.Submission) error {
	return addEvent(ctx, tx, submissionEvent(tx, newEventsOf(tx).reserve(1), s))
}

// submissionEvent returns the event of a submission's new state.
func submissionEvent(tx *sqldb.Tx, id int64, s writ.Submission) ledger.Event {
	return ledger.Event{
		ID: id, Datacenter: s.Datacenter, Event: writ.Event{Time: tx.Now}, Submission: &s, About: s.Run, Project: s.Project,
	}
}
