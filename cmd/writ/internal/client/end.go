package client

import (
	"context"
	"time"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/internal/sleep"
)

// End is the result of a run as signed by its datacenter.
type End struct {
	writ.Summary
	Refused bool  // the datacenter signed a refusal and no summary, so it may never have accepted the text
	Unsure  error // why a later resume may have gone unnoticed; nil if there was certainly no resume
}

const (
	// laterEndWithin is the time in which a coordinator must learn of a resume that the datacenter has already
	// reported.
	laterEndWithin = 2 * time.Second
)

// End returns the signed result of a run: the refusal if its datacenter rejected the submission, otherwise the signed
// summary. A failed run can be resumed, and its earlier summary remains validly signed. End therefore queries the
// datacenter for the current state. If the summary is outdated, End queries the coordinator again for up to
// laterEndWithin; the run may then be open and have no result. If the coordinator keeps showing the earlier summary, or
// shows an unsigned result, the error is UNVERIFIED.
func (c Runs) End(ctx context.Context, roster *identity.Roster, run *api.Run) (End, error) {
	for began := time.Now(); ; {
		end, earlier, err := c.endOf(ctx, roster, *run)
		if !earlier || time.Since(began) > laterEndWithin {
			return end, err
		}
		if err := sleep.For(ctx, newsEvery); err != nil {
			return End{}, err
		}
		if *run, err = c.Get(ctx, run.ID); err != nil || !run.State.Ended() {
			return End{}, err
		}
	}
}

// endOf returns the result of a run as the coordinator shows it. earlier reports an outdated summary, which is also an
// error.
func (c Runs) endOf(ctx context.Context, roster *identity.Roster, run api.Run) (end End, earlier bool, err error) {
	if run.Accepted.IsZero() {
		why, err := Refusal(roster, run)
		if err != nil {
			return End{}, false, err
		}
		return End{
			Summary: writ.Summary{
				Run: run.ID, Datacenter: run.Datacenter, Payload: run.Payload, Failure: &writ.Failure{Error: *why},
			},
			Refused: true,
		}, false, nil
	}
	summary, err := Outcome(roster, run)
	if err != nil {
		return End{}, false, err
	}
	if summary.State != writ.RunFailed || len(run.Summary) == 0 { // it cannot be resumed
		return End{Summary: summary, Refused: len(run.Summary) == 0}, false, nil
	}
	stands, err := c.standing(ctx, roster, run)
	switch {
	case ctx.Err() != nil:
		return End{}, false, ctx.Err()
	case writ.CodeOf(err) == writ.CodeUnverified:
		return End{}, false, err
	case err != nil:
		return End{Summary: summary, Unsure: err}, false, nil
	case stands.Summary != writ.DigestOf(run.Summary):
		return End{}, true, unverified(roster.Datacenter(run.Datacenter),
			"the coordinator shows an earlier end of run %s; its datacenter reports that it is %s "+
				"now, and was resumed %d times", run.ID, stands.State, stands.Resumes)
	}
	return End{Summary: summary}, false, nil
}
