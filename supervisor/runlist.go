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
	"writ/supervisor/journal"
	"writ/supervisor/link"
)

// A statement about several runs is decided for each by itself, in the transaction of its step: one that cannot be cancelled keeps none of the others
// from it. So the statement is recorded twice. Before the first run is touched the answer says that it was begun, and at the end what
// happened to each. A client that hands it in again after a crash in between has the rest done. Once it has expired, the first answer stays, and
// says no more than is known.

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
			if !e.Decided() { // nothing was decided about this run, so nothing can be signed about it
				return link.StatementAnswer{}, err
			}
			why = &writ.Error{Code: e.Code, Message: clip(e.Message, maxText), Hint: clip(e.Hint, maxText)}
		}
		answers[list.Runs[i].Run] = why
	}
	does := "are being cancelled"
	if list.Resume {
		does = "go on"
	}
	return s.endRuns(ctx, v, fmt.Sprintf("%d of %d runs %s", done, len(outcomes), does), answers)
}

// decideRunOf does to one run what a statement says of its runs. Of a run of another project it tells nothing.
func (s *Supervisor) decideRunOf(ctx context.Context, v *identity.VerifiedStatement, list identity.RunList, r identity.SeenOfRun) error {
	run, err := s.row(ctx, r.Run)
	if writ.CodeOf(err) == writ.CodeNotFound || err == nil && run.Project != list.Project { // in the same words
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
	now, again := s.row(ctx, r.Run) // what stands in the way may be this statement: it came twice, or what the first time left behind came first
	if again == nil && wasDecided(now, v) {
		return nil
	}
	return cmp.Or(again, err)
}

// wasDecided reports whether the statement has acted on a run already, before a crash or at the same time.
func wasDecided(run *journal.Run, v *identity.VerifiedStatement) bool {
	want := decisionOfRun(v, v.Statement.Created)
	return slices.ContainsFunc(run.Decided, func(d writ.Decision) bool {
		return d.Decision == want.Decision && d.Signer == want.Signer && d.Reason == want.Reason && !d.Time.Before(want.Time)
	})
}

// beginRuns records a statement about several runs before the first of them is touched. One that was begun before a crash is there.
func (s *Supervisor) beginRuns(ctx context.Context, v *identity.VerifiedStatement, runs int) error {
	answer := link.StatementAnswer{
		Subject: v.Statement.Subject, Begun: true, Done: fmt.Sprintf("a list of %d was begun; what became of each run is not recorded: look at them", runs),
	}
	return s.Journal.Write(failpoint.At(ctx, failpoint.RunsBegun), func(tx *journal.Tx) error {
		if body, err := tx.StatementAnswer(v.Digest); body != nil || err != nil {
			return err
		}
		return s.record(tx, v, &answer)
	})
}

// endRuns records what became of each run, in the place of the answer that it was begun.
func (s *Supervisor) endRuns(ctx context.Context, v *identity.VerifiedStatement, done string, runs map[writ.RunID]*writ.Error) (link.StatementAnswer, error) {
	answer := link.StatementAnswer{Subject: v.Statement.Subject, Done: done}
	err := s.Journal.Write(failpoint.At(ctx, failpoint.RunsDecided), func(tx *journal.Tx) (err error) {
		if before, err := tx.StatementAnswer(v.Digest); err != nil {
			return err
		} else if ended := new(link.StatementAnswer); json.Unmarshal(before, ended) == nil && !ended.Begun {
			answer = *ended // it came twice at the same time, and the other was faster
			return nil
		}
		answer.Proof, err = s.prove(tx, v.Roster, writ.Answer{Text: v.Digest, Subject: answer.Subject, Done: done, Runs: runs})
		if err != nil {
			return err
		}
		body, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		return tx.ReplaceAnswer(journal.Text{Digest: v.Digest, Signer: v.Signer, Signed: v.Signed, Expires: v.Statement.Expires}, body)
	})
	return answer, err
}
