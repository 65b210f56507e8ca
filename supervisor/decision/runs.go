package decision

import (
	"context"
	"fmt"
	"strings"
	"time"

	"writ"
	"writ/identity"
	"writ/supervisor/answers"
	"writ/supervisor/journal"
	"writ/supervisor/link"
	"writ/supervisor/mail"
	"writ/supervisor/program"
	"writ/supervisor/query"
	"writ/supervisor/rosters"
	"writ/supervisor/workflow"
)

// Runs cancels and resumes runs. All fields are required.
type Runs struct {
	Journal  *journal.Journal
	Answers  *answers.Store
	Records  *query.Reader
	Programs *program.Store
	Verifier func() *identity.Verifier // verifier with the newest roster
	// Post delivers mail to a run.
	Post func(run writ.RunID, m mail.Mail)
	Now  func() time.Time
}

// Cancel carries out a statement that cancels a run.
func (r *Runs) Cancel(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error) {
	id := writ.RunID(v.Statement.ID())
	answer := link.StatementAnswer{
		Subject: v.Statement.Subject, Done: fmt.Sprintf("run %s is being cancelled", id),
	}
	err := r.cancel(ctx, v, id, v.Statement.Seen, func(tx *journal.Tx) error { return r.Answers.Record(tx, v, &answer) })
	if err != nil {
		return link.StatementAnswer{}, err
	}
	return answer, nil
}

// cancel cancels a run. `seen` describes the run that the signer of the statement saw. The change `also`, if not nil,
// is written in the same transaction.
func (r *Runs) cancel(
	ctx context.Context, v *identity.VerifiedStatement, id writ.RunID, seen identity.Seen, also func(*journal.Tx) error,
) error {
	run, err := r.Records.Record(ctx, id)
	if err == nil {
		err = sameRun(run.Run, seen) // the compared fields never change
	}
	if err != nil {
		return err
	}
	why := writ.Errorf(writ.CodeRunCancelled, "cancelled by %s", v.Signer)
	if v.Statement.Reason != "" {
		why.Message += ": " + v.Statement.Reason
	}
	decision := recordOfRun(v, r.Now())
	return r.step(ctx, id, mail.Mail{
		Stop: &mail.Stop{
			State: writ.RunCancelled, Err: why, By: r.Now().Add(workflow.StopWithin), Signed: v.Statement.Created,
			Decision: &decision,
		},
		Also: also,
	})
}

// step delivers mail to a run and waits for the commit of its step.
func (r *Runs) step(ctx context.Context, id writ.RunID, m mail.Mail) error {
	done := make(chan error, 1)
	m.Done = done
	r.Post(id, m)
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A resume continues a failed run where it failed. Completed calls stay completed, errors that the script has read stay
// read, and all other calls get another attempt. The deadline does not change: an operator cannot grant more than the
// signer of the run did. Nodes also enforce the deadline of destructive runs themselves.

// Resume carries out a statement that resumes a run. The signer of the run, not only the signer of the statement, must
// still have the right to the run.
func (r *Runs) Resume(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error) {
	id := writ.RunID(v.Statement.ID())
	answer := link.StatementAnswer{Subject: v.Statement.Subject, Done: fmt.Sprintf("run %s continues", id)}
	err := r.resume(ctx, v, id, v.Statement.Seen, func(tx *journal.Tx) error { return r.Answers.Record(tx, v, &answer) })
	if err != nil {
		return link.StatementAnswer{}, err
	}
	return answer, nil
}

// resume resumes a run, given the state that the signer of the statement saw. The change `also`, if not nil, is written
// in the same transaction.
func (r *Runs) resume(
	ctx context.Context, v *identity.VerifiedStatement, id writ.RunID, seen identity.Seen, also func(*journal.Tx) error,
) error {
	return rosters.WithNewest(r.Verifier, func(verifier *identity.Verifier) error {
		return r.resumeBy(ctx, verifier, v, id, seen, also)
	})
}

// resumeBy resumes a run under the roster of verifier. It returns rosters.ErrChanged if a newer roster was adopted
// meanwhile.
func (r *Runs) resumeBy(
	ctx context.Context, verifier *identity.Verifier, v *identity.VerifiedStatement, id writ.RunID, seen identity.Seen,
	also func(*journal.Tx) error,
) error {
	run, err := r.mayResume(ctx, verifier, id, seen)
	if err != nil {
		return err
	}
	return r.step(ctx, id, mail.Mail{
		Resume: &mail.Resume{Decision: recordOfRun(v, r.Now()), Seen: seen.Revision, Signed: v.Statement.Created},
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
				return rosters.ErrChanged
			}
			if err := tx.SetChecked(newest, id); err != nil {
				return err
			}
			if also == nil {
				return nil
			}
			return also(tx)
		},
	})
}

// mayResume loads a run and returns an error unless the run can be resumed. The signer of the statement must have seen
// this run. The run must have failed, and its own signer must still have the right to it.
func (r *Runs) mayResume(
	ctx context.Context, verifier *identity.Verifier, id writ.RunID, seen identity.Seen,
) (*journal.Run, error) {
	run, signed, err := r.Programs.Submission(ctx, id)
	if err == nil && run == nil {
		err = writ.Errorf(writ.CodeNotFound, "this datacenter has no run %s", id)
	}
	if err == nil {
		err = sameRun(run.Run, seen)
	}
	if err == nil {
		err = workflow.MayResume(run, r.Now())
	}
	if err == nil {
		err = r.Programs.Verify(ctx, run, signed)
	}
	if err == nil {
		_, err = verifier.SubmissionAt(signed, run.Accepted)
	}
	return run, err
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
			WithHint("`writ plan FILE --deployment %s` shows the changes that the script would make now, and how to "+
				"sign it again",
				run.Deployment)
	}
	return err
}

// recordOfRun returns the record of a decision about one run. The records of statements about one run and about several
// runs have the same form.
func recordOfRun(v *identity.VerifiedStatement, now time.Time) writ.Decision {
	d := recordOf(v, now)
	d.Decision = strings.TrimSuffix(d.Decision, "-runs")
	return d
}

// sameRun returns CONFLICT if the signer of a decision saw another script under this run ID.
func sameRun(run writ.Run, seen identity.Seen) error {
	if run.Script == seen.Name {
		return nil
	}
	return writ.Errorf(writ.CodeConflict, "the decision is about a run of %s", seen.Name).
		WithHint("run %s is one of %s in the project %s, and is %s; inspect the run again, then decide", run.ID, run.Script,
			run.ProjectName, run.State)
}
