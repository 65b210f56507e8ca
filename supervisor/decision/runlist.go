package decision

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

// A statement about several runs is decided for each run separately, in the transaction of its step. A run that cannot
// be cancelled does not affect the other runs. The statement is recorded twice: as begun before the first run is
// changed, and at the end with the outcome of each run. If a client submits the statement again after a crash between
// the two records, the remaining runs are decided. After the statement has expired, the first answer stays, which does
// not contain the outcomes.

// DecideAll cancels or resumes the runs that a statement names.
func (r *Runs) DecideAll(ctx context.Context, v *identity.VerifiedStatement) (link.StatementAnswer, error) {
	list, err := identity.ParseRunList(v.Statement)
	if err != nil {
		return link.StatementAnswer{}, err
	}
	if err := r.begin(ctx, v, len(list.Runs)); err != nil {
		return link.StatementAnswer{}, err
	}
	outcomes := make([]error, len(list.Runs))
	var all sync.WaitGroup
	for i, seen := range list.Runs {
		all.Go(func() { outcomes[i] = r.decideOne(ctx, v, list, seen) })
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return link.StatementAnswer{}, err // the answer with Begun stays stored
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
		does = "continue"
	}
	return r.end(ctx, v, fmt.Sprintf("%d of %d runs %s", done, len(outcomes), does), answers)
}

// decideOne applies the decision of a statement to one of its runs. For a run of another project it returns the same
// error as for an unknown run.
func (r *Runs) decideOne(
	ctx context.Context, v *identity.VerifiedStatement, list identity.RunList, seen identity.SeenOfRun,
) error {
	run, err := r.Records.Record(ctx, seen.Run)
	// same message, so that the existence of the run stays secret
	if writ.CodeOf(err) == writ.CodeNotFound || err == nil && run.Project != list.Project {
		return writ.Errorf(writ.CodeNotFound, "the project %s has no run %s", list.ProjectName, seen.Run)
	}
	if err != nil || wasDecided(run, v) {
		return err
	}
	if list.Resume {
		err = r.resume(ctx, v, seen.Run, list.Seen(seen), nil)
	} else {
		err = r.cancel(ctx, v, seen.Run, list.Seen(seen), nil)
	}
	if err == nil || !writ.AsError(err).Decided() {
		return err
	}
	// the conflict may come from this statement: from a concurrent copy, or from an earlier attempt
	now, again := r.Records.Record(ctx, seen.Run)
	if again == nil && wasDecided(now, v) {
		return nil
	}
	return cmp.Or(again, err)
}

// wasDecided reports whether the statement has already acted on a run, before a crash or concurrently.
func wasDecided(run *journal.Run, v *identity.VerifiedStatement) bool {
	want := recordOfRun(v, v.Statement.Created)
	return slices.ContainsFunc(run.Decided, func(d writ.Decision) bool {
		return d.Decision == want.Decision && d.Signer == want.Signer && d.Reason == want.Reason && !d.Time.Before(want.Time)
	})
}

// begin records that the decision about the runs has started, before it changes the first run. If the statement is
// recorded already, the record stays unchanged.
func (r *Runs) begin(ctx context.Context, v *identity.VerifiedStatement, runs int) error {
	answer := link.StatementAnswer{
		Subject: v.Statement.Subject, Begun: true,
		Done: fmt.Sprintf("the decision about %d runs has started; their outcomes are not recorded: look at the runs", runs),
	}
	return r.Journal.Write(failpoint.At(ctx, failpoint.RunsBegun), func(tx *journal.Tx) error {
		if body, err := tx.StatementAnswer(v.Digest); body != nil || err != nil {
			return err
		}
		return r.Answers.Record(tx, v, &answer)
	})
}

// end replaces the "begun" answer by the outcome of each run. If a concurrent copy of the statement was faster, it
// returns the recorded answer.
func (r *Runs) end(
	ctx context.Context, v *identity.VerifiedStatement, done string, runs map[writ.RunID]*writ.Error,
) (link.StatementAnswer, error) {
	answer := link.StatementAnswer{Subject: v.Statement.Subject, Done: done}
	err := r.Journal.Write(failpoint.At(ctx, failpoint.RunsDecided), func(tx *journal.Tx) (err error) {
		if before, err := tx.StatementAnswer(v.Digest); err != nil {
			return err
		} else if ended := new(link.StatementAnswer); json.Unmarshal(before, ended) == nil && !ended.Begun {
			answer = *ended // a concurrent copy was faster
			return nil
		}
		return r.Answers.Replace(tx, v, &answer, runs)
	})
	return answer, err
}
