package links

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"writ"
	"writ/internal/limit"
	"writ/supervisor/answers"
	"writ/supervisor/link"
)

// Coordinators have no rights of their own, and their requests use the supervisor's CPU, which all projects share. A
// plan with two thousand calls takes a fifth of a second of one core. The most expensive requests are therefore limited
// per coordinator.
const (
	planAsks      = 20       // plans per second, weighted by size
	rosterAsks    = 20       // rosters per second, weighted by size
	askBytes      = 10 << 10 // a request costs 1, and 1 more for each askBytes
	unsignedAsks  = 100      // statements per second without a valid signature
	statementAsks = 500      // statements per second of any kind: the sum of the personal limits of fifty people
	// idleAsks limits the submissions per second that cause no new decision: they were accepted or refused before, or
	// have no valid signature.
	idleAsks      = 100
	smallAskWaits = 10 * time.Second
	largeAskWaits = 2 * time.Second // a coordinator serves many users: small requests pass while large requests wait
)

// asks limits the requests of each coordinator per second, with a burst of twice the rate. Plans and rosters have
// separate limits: any user may request a plan, and plans must not delay a roster that revokes a key. The limit for
// unsigned statements is low, because an honest coordinator checks signatures before it forwards a statement. One
// person cannot reach the limit for all statements through an honest coordinator, so a person cannot use up the share
// of other people. This limit stops a dishonest coordinator that repeats a signed statement. The limit for idle
// submissions stops a dishonest coordinator that repeats submissions. New submissions do not count against it. An
// honest coordinator repeats a submission only if it did not receive the answer, and forwards no unsigned submissions.
type asks struct {
	plans, rosters, unsigned, statements, idle limit.Names
	now                                        func() time.Time // the clock that sets acceptance times
}

func newAsks(now func() time.Time) *asks {
	return &asks{plans: limit.Names{PerSecond: planAsks}, rosters: limit.Names{PerSecond: rosterAsks},
		unsigned:   limit.Names{PerSecond: unsignedAsks},
		statements: limit.Names{PerSecond: statementAsks}, idle: limit.Names{PerSecond: idleAsks}, now: now}
}

// of wraps answer with the limits of a coordinator.
func (a *asks) of(coordinator string, answer link.Handler) link.Handler {
	return func(ctx context.Context, verb link.Verb, params json.RawMessage) (any, error) {
		var err error
		switch cost := 1 + len(params)/askBytes; verb {
		case link.VerbPlan:
			err = awaitAsk(ctx, &a.plans, coordinator, verb, cost, longest(cost))
		case link.VerbRoster:
			err = awaitAsk(ctx, &a.rosters, coordinator, verb, cost, longest(cost))
		case link.VerbStatement:
			if err = awaitAsk(ctx, &a.unsigned, coordinator, verb, 0, 0); err == nil {
				err = awaitAsk(ctx, &a.statements, coordinator, verb, 1, smallAskWaits)
			}
		}
		if err != nil {
			return nil, err
		}
		began := a.now().Truncate(time.Microsecond) // the precision of the journal
		done, err := answer(ctx, verb, params)
		if verb == link.VerbSubmit && isIdle(done, err, began) {
			// this is known only after the answer, so the answer waits
			if late := awaitAsk(ctx, &a.idle, coordinator, verb, 1, smallAskWaits); late != nil {
				err = late
			}
		}
		if verb == link.VerbStatement && isUnsigned(err) {
			a.unsigned.Charge(coordinator, 1)
		}
		return done, err
	}
}

// isIdle reports whether a submission that arrived at the time `came` caused no new decision.
func isIdle(done any, err error, came time.Time) bool {
	if err != nil {
		_, before := errors.AsType[answers.RefusedBefore](err)
		return before || len(writ.AsError(err).Proof) == 0
	}
	run, ok := done.(writ.Run)
	return ok && run.Accepted.Before(came)
}

// isUnsigned reports whether err rejects a text without a valid signature.
func isUnsigned(err error) bool {
	switch writ.CodeOf(err) {
	case writ.CodeBadRequest, writ.CodePayloadMalformed, writ.CodeSignatureMalformed, writ.CodeSignatureAlgorithm, writ.CodeSignatureNamespace,
		writ.CodeSignatureInvalid, writ.CodeSignerUnknown:
		return true
	}
	return false
}

// longest returns how long a request of this cost may wait for its turn.
func longest(cost int) time.Duration {
	if cost == 1 {
		return smallAskWaits
	}
	return largeAskWaits
}

// awaitAsk waits for the turn of a request, at most the duration `most`. If the wait would be longer, it returns
// RATE_LIMITED.
func awaitAsk(
	ctx context.Context, by *limit.Names, coordinator string, verb link.Verb, cost int, most time.Duration,
) error {
	again, err := by.Wait(ctx, coordinator, cost, most)
	if err == nil && again > 0 {
		err = writ.Errorf(writ.CodeRateLimited,
			"the coordinator exceeds the request rate of its datacenter (%s)", verb).
			WithHint("try again in %s", again.Round(time.Second)+time.Second)
	}
	return err
}
