package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"writ"
	"writ/internal/limit"
	"writ/supervisor/link"
)

// Coordinators hold no right, and what they ask for takes the supervisor's processors from everybody: a plan of two thousand calls takes a fifth of
// a second of one. What costs most has a bound for each of them.
const (
	planAsks      = 20 // plans a second, each counted by its size
	rosterAsks    = 20 // rosters a second, likewise
	askBytes      = 10 << 10
	unsignedAsks  = 100 // statements a second that nobody signed
	statementAsks = 500 // statements a second of any kind: fifty people may sign as many as each of them may
	idleAsks      = 100 // submissions a second about which nothing is decided: they were accepted or refused before, or nobody signed them
	smallAskWaits = 10 * time.Second
	largeAskWaits = 2 * time.Second // a coordinator asks for its users: small requests pass while large ones wait
)

// asks bounds what each coordinator may ask for in a second, and twice of that at once. Plans and rosters are counted apart: anybody may have a
// plan looked at, and that must not keep a roster back which revokes a key. Statements that nobody signed are few, as a coordinator that checks them brings none. All
// together have a bound that no single person reaches through such a coordinator, who would use up what others need: one that lies can bring
// the same signed one again and again. It can do so with submissions, of which each signer may bring new ones: a coordinator repeats one only if it
// has not heard the answer, and brings none that nobody signed.
type asks struct {
	plans, rosters, unsigned, statements, idle limit.Names
	now                                        func() time.Time // by which submissions are accepted
}

func newAsks(now func() time.Time) *asks {
	return &asks{plans: limit.Names{PerSecond: planAsks}, rosters: limit.Names{PerSecond: rosterAsks}, unsigned: limit.Names{PerSecond: unsignedAsks},
		statements: limit.Names{PerSecond: statementAsks}, idle: limit.Names{PerSecond: idleAsks}, now: now}
}

// of returns what answers a coordinator.
func (a *asks) of(coordinator string, answer link.Handler) link.Handler {
	return func(ctx context.Context, verb link.Verb, params json.RawMessage, progress func(stage, detail string)) (any, error) {
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
		began := a.now().Truncate(time.Microsecond) // as the journal keeps times
		done, err := answer(ctx, verb, params, progress)
		if verb == link.VerbSubmit && isIdle(done, err, began) {
			if late := awaitAsk(ctx, &a.idle, coordinator, verb, 1, smallAskWaits); late != nil { // which is known only now; the answer waits
				err = late
			}
		}
		if verb == link.VerbStatement && isUnsigned(err) {
			a.unsigned.Charge(coordinator, 1)
		}
		return done, err
	}
}

// isIdle reports whether nothing was decided about a submission that came at a time.
func isIdle(done any, err error, came time.Time) bool {
	if err != nil {
		_, before := errors.AsType[refusedBefore](err)
		return before || len(writ.AsError(err).Proof) == 0
	}
	run, ok := done.(writ.Run)
	return ok && run.Accepted.Before(came)
}

// isUnsigned reports whether something was refused because nobody has signed it.
func isUnsigned(err error) bool {
	switch writ.CodeOf(err) {
	case writ.CodeBadRequest, writ.CodePayloadMalformed, writ.CodeSignatureMalformed, writ.CodeSignatureAlgorithm, writ.CodeSignatureNamespace,
		writ.CodeSignatureInvalid, writ.CodeSignerUnknown:
		return true
	}
	return false
}

// longest is how long a request may wait for its step.
func longest(cost int) time.Duration {
	if cost == 1 {
		return smallAskWaits
	}
	return largeAskWaits
}

// awaitAsk lets a request wait for its step.
func awaitAsk(ctx context.Context, by *limit.Names, coordinator string, verb link.Verb, cost int, most time.Duration) error {
	again, err := by.Wait(ctx, coordinator, cost, most)
	if err == nil && again > 0 {
		err = writ.Errorf(writ.CodeRateLimited, "the coordinator asks its datacenter for more than that answers in a second (%s)", verb).
			WithHint("try again in %s", again.Round(time.Second)+time.Second)
	}
	return err
}
