package supervisor

import (
	"context"
	"errors"
	"fmt"

	"writ"
	"writ/identity"
	"writ/supervisor/journal"
	"writ/supervisor/link"
	"writ/supervisor/mail"
	"writ/supervisor/workflow"
)

// A resume continues a failed run where it failed: completed calls stay completed, errors that the script has read stay
// read, and all other calls get another attempt. The deadline stays. The signer limited the run from its acceptance on,
// nodes enforce the deadline of destructive runs themselves, and an operator cannot grant more than the signer did.

// resume executes a resume statement. The signer of the run, not only the signer of the statement, must still have the
// right to the run.
func (s *Supervisor) resume(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error) {
	id := writ.RunID(v.Statement.ID())
	answer := link.StatementAnswer{Subject: v.Statement.Subject, Done: goesOn(id)}
	err := s.resumeRun(ctx, v, id, v.Statement.Seen, func(tx *journal.Tx) error { return s.record(tx, v, &answer) })
	if err != nil {
		return link.StatementAnswer{}, err
	}
	return answer, nil
}

func goesOn(id writ.RunID) string { return fmt.Sprintf("run %s goes on", id) }

// resumeRun resumes a run, given the state that the signer of the statement saw. also, if not nil, is written in the
// same transaction.
func (s *Supervisor) resumeRun(
	ctx context.Context, v *identity.VerifiedStatement, id writ.RunID, seen identity.Seen, also func(*journal.Tx) error,
) error {
	for range rosterAttempts {
		if err := s.resumeBy(ctx, s.verifier(), v, id, seen, also); !errors.Is(err, errRosterChanged) {
			return err
		}
	}
	return s.unknownRoster()
}

// resumeBy resumes a run under the roster of verifier. It returns errRosterChanged if a newer roster was adopted
// meanwhile.
func (s *Supervisor) resumeBy(
	ctx context.Context, verifier *identity.Verifier, v *identity.VerifiedStatement, id writ.RunID, seen identity.Seen, also func(
		*journal.Tx,
	) error,
) error {
	run, signed, err := s.programs.Submission(ctx, id)
	if err == nil && run == nil {
		err = writ.Errorf(writ.CodeNotFound, "there is no run %s in this datacenter", id)
	}
	if err == nil {
		err = sameRun(run.Run, seen)
	}
	if err == nil {
		err = workflow.MayResume(run, s.Now())
	}
	if err == nil {
		err = s.programs.Verify(ctx, run, signed)
	}
	if err == nil {
		_, err = verifier.SubmissionAt(signed, run.Accepted)
	}
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	s.steps.Post(id, mail.Mail{
		Resume: &mail.Resume{Decision: decisionOfRun(v, s.Now()), Seen: seen.Revision, Signed: v.Statement.Created},
		Also: func(tx *journal.Tx) error {
			if err := stillNewest(tx, run); err != nil {
				return err
			}
			newest, err := tx.RosterVersion()
			if err != nil {
				return err
			}
			// the check for the newer roster did not include this run, which was not open
			if newest != verifier.Roster.Version {
				return errRosterChanged
			}
			if err := tx.SetChecked(newest, id); err != nil {
				return err
			}
			if also == nil {
				return nil
			}
			return also(tx)
		},
		Done: done,
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stillNewest returns CONFLICT if the deployment of a run has a newer revision, which the resume would undo.
func stillNewest(tx *journal.Tx, run *journal.Run) error {
	if run.Deployment == "" {
		return nil
	}
	have, err := tx.Revision(run.Project, run.Deployment)
	if err == nil && have != run.Revision {
		err = writ.Errorf(writ.CodeConflict, "the deployment %s is at revision %d, the run makes revision %d", run.Deployment,
			have, run.Revision).
			WithHint("`writ plan FILE --deployment %s` shows what the script would change now, and how to sign it again",
				run.Deployment)
	}
	return err
}
