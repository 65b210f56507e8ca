package client

import (
	"context"
	"time"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/internal/sleep"
)

// End is how a run ended, as its datacenter has signed it.
type End struct {
	writ.Summary
	Unsure error // why it is not known whether the run was resumed since, nil if it was not
}

const (
	// laterEndWithin is how much later than its datacenter a coordinator may hear that a run was resumed.
	laterEndWithin = 2 * time.Second
)

// End returns how a run ended, as its datacenter has signed it: the refusal of a submission that it did not take, or the signed summary. A failed
// run can be resumed, and then its earlier end is signed as well as the last one: so the datacenter is asked whether the run still stands so. If
// not, the coordinator is asked for the run again for a while, which may be open then and has no end. An earlier end that the coordinator goes on to
// show is UNVERIFIED, and so is what nobody has signed.
func (c *Client) End(ctx context.Context, roster *identity.Roster, run *api.Run) (End, error) {
	for began := time.Now(); ; {
		end, earlier, err := c.endOf(ctx, roster, *run)
		if !earlier || time.Since(began) > laterEndWithin {
			return end, err
		}
		if err := sleep.For(ctx, newsEvery); err != nil {
			return End{}, err
		}
		if *run, err = c.Run(ctx, run.ID); err != nil || !run.State.Ended() {
			return End{}, err
		}
	}
}

// endOf returns how a run ended, as the coordinator shows it. It reports whether that is an earlier end, which is an error as well.
func (c *Client) endOf(ctx context.Context, roster *identity.Roster, run api.Run) (end End, earlier bool, err error) {
	if run.Accepted.IsZero() {
		why, err := Refusal(roster, run)
		if err != nil {
			return End{}, false, err
		}
		return End{Summary: writ.Summary{Run: run.ID, Datacenter: run.Datacenter, Payload: run.Payload, Failure: &writ.Failure{Error: *why}}}, false, nil
	}
	summary, err := Outcome(roster, run)
	if err != nil {
		return End{}, false, err
	}
	if summary.State != writ.RunFailed || len(run.Summary) == 0 { // nothing resumes it
		return End{Summary: summary}, false, nil
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
		return End{}, true, unverified(roster.Datacenter(run.Datacenter), "the coordinator shows an earlier end of run %s; its datacenter says that it is %s "+
			"now, and was resumed %d times", run.ID, stands.State, stands.Resumes)
	}
	return End{Summary: summary}, false, nil
}
