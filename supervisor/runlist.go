package supervisor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"writ"
	"writ/identity"
	"writ/internal/failpoint"
	"writ/supervisor/bound"
	"writ/supervisor/journal"
	"writ/supervisor/link"
)

// A statement about several runs is decided for each run separately, in the transaction of its step: a run that cannot
// be cancelled does not affect the others. The statement is recorded twice: as begun before the first run is changed,
// and at the end with the outcome of each run. If a client submits it again after a crash in between, the rest is done.
// After the statement has expired, the first answer stays and does not give the outcomes.

// decideRuns cancels or resumes the runs that a statement names.
func (s *Supervisor) decideRuns(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error) {
	list, err := identity.ParseRunList(v.Statement)
	if err != nil {
		return link.StatementAnswer{}, err
	}
	if err := s.beginRuns(ctx, v, len(list.Runs)); err != nil {
		return link.StatementAnswer{}, err
	}
	outcomes := make([]error, len(list.Runs))
	var all sync.WaitGroup
	for i, r := range list.Runs {
		all.Go(func() { outcomes[i] = s.decideRunOf(ctx, v, list, r) })
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return link.StatementAnswer{}, err // the answer that it was begun stays
	}
	answers := make(map[writ.RunID]*writ.Error, len(outcomes))
	done := 0
	for i, err := range outcomes {
		var why *writ.Error
		if err == nil {
			done++
		} else {
			e := writ.AsError(err)
			if !e.Decided() { // an undecided run has no outcome to sign
				return link.StatementAnswer{}, err
			}
			why = bound.Error(e)
		}
		answers[list.Runs[i].Run] = why
	}
	does := "are being cancelled"
	if list.Resume {
		does = "go on"
	}
	return s.endRuns(ctx, v, fmt.Sprintf("%d of %d runs %s", done, len(outcomes), does), answers)
}

// decideRunOf applies the decision of a statement to one of its runs. For a run of another project it returns the same
// error as for an unknown run.
func (s *Supervisor) decideRunOf(
	ctx context.Context, v *identity.VerifiedStatement, list identity.RunList, r identity.SeenOfRun,
) error {
	run, err := s.row(ctx, r.Run)
	// same message, so that the existence of the run stays secret
	if writ.CodeOf(err) == writ.CodeNotFound || err == nil && run.Project != list.Project {
		return writ.Errorf(writ.CodeNotFound, "there is no run %s in the project %s", r.Run, list.ProjectName)
	}
	if err != nil || wasDecided(run, v) {
		return err
	}
	if list.Resume {
		err = s.resumeRun(ctx, v, r.Run, list.Seen(r), nil)
	} else {
		err = s.cancelRun(ctx, v, r.Run, list.Seen(r), nil)
	}
	if err == nil || !writ.AsError(err).Decided() {
		return err
	}
	// the conflict may come from this statement: from a concurrent copy, or from an earlier attempt
	now, again := s.row(ctx, r.Run)
	if again == nil && wasDecided(now, v) {
		return nil
	}
	return cmp.Or(again, err)
}

// wasDecided reports whether the statement has already acted on a run, before a crash or concurrently.
func wasDecided(run *journal.Run, v *identity.VerifiedStatement) bool {
	want := decisionOfRun(v, v.Statement.Created)
	return slices.ContainsFunc(run.Decided, func(d writ.Decision) bool {
		return d.Decision == want.Decision && d.Signer == want.Signer && d.Reason == want.Reason && !d.Time.Before(want.Time)
	})
}

// beginRuns records a statement about several runs as begun before the first of them is changed. It does nothing if the
// statement is recorded already.
func (s *Supervisor) beginRuns(ctx context.Context, v *identity.VerifiedStatement, runs int) error {
	answer := link.StatementAnswer{
		Subject: v.Statement.Subject, Begun: true,
		Done: fmt.Sprintf("a list of %d was begun; what became of each run is not recorded: look at them", runs),
	}
	return s.Journal.Write(failpoint.At(ctx, failpoint.RunsBegun), func(tx *journal.Tx) error {
		if body, err := tx.StatementAnswer(v.Digest); body != nil || err != nil {
			return err
		}
		return s.record(tx, v, &answer)
	})
}

// endRuns replaces the "begun" answer by the outcome of each run. If a concurrent copy of the statement was faster, it
// returns the recorded answer.
func (s *Supervisor) endRuns(
	ctx context.Context, v *identity.VerifiedStatement, done string, runs map[writ.RunID]*writ.Error,
) (link.StatementAnswer, error) {
	answer := link.StatementAnswer{Subject: v.Statement.Subject, Done: done}
	err := s.Journal.Write(failpoint.At(ctx, failpoint.RunsDecided), func(tx *journal.Tx) (err error) {
		if before, err := tx.StatementAnswer(v.Digest); err != nil {
			return err
		} else if ended := new(link.StatementAnswer); json.Unmarshal(before, ended) == nil && !ended.Begun {
			answer = *ended // a concurrent copy was faster
			return nil
		}
		answer.Proof, err = s.prove(tx, v.Roster,
			writ.Answer{Text: v.Digest, Subject: answer.Subject, Done: done, Runs: runs})
		if err != nil {
			return err
		}
		body, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		return tx.ReplaceAnswer(journal.Text{
			Digest: v.Digest, Signer: v.Signer, Signed: v.Signed, Expires: v.Statement.Expires,
		}, body)
	})
	return answer, err
}
