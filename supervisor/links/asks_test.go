package links

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/supervisor/answers"
	"writ/supervisor/link"
)

// A coordinator that exceeds its rates does not delay requests through other coordinators. Among its own users, small
// requests are delayed least. Plans, which need no right, do not delay rosters and statements. Statements with a valid
// signature have a rate that one person cannot reach.
//
// Promise: Load and attackers: A coordinator that sends requests continuously does not delay requests of another
// coordinator.
// How: Rates per coordinator and second: 20 plans, 20 rosters, 500 statements (100 of them unsigned), 100 repeated or
// unsigned submissions.
// Also: TestRepeatedRefusedTextsAreRateLimited.
func TestNoCoordinatorAsksForMoreThanItMay(t *testing.T) {
	const large, small = 300 << 10, 1 << 10
	for name, flood := range map[string]struct {
		verb  link.Verb
		bytes int
	}{
		"plans":               {link.VerbPlan, large},
		"small plans":         {link.VerbPlan, small},
		"rosters":             {link.VerbRoster, large},
		"unsigned statements": {link.VerbStatement, small},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asks := newAsks(time.Now)
				answer := func(_ context.Context, verb link.Verb, params json.RawMessage) (any, error) {
					if verb == link.VerbStatement && params[0] == 0 {
						return nil, writ.Errorf(writ.CodeSignatureMalformed, "nobody signed it")
					}
					return nil, nil
				}
				busy, other := asks.of("https://busy.test", answer), asks.of("https://other.test", answer)
				ask := func(whom link.Handler, verb link.Verb, bytes int, signed byte) (time.Duration, error) {
					began, params := time.Now(), make(json.RawMessage, bytes)
					params[0] = signed
					_, err := whom(t.Context(), verb, params)
					return time.Since(began), err
				}
				var all sync.WaitGroup
				var refused, answered atomic.Int32
				for range 4000 {
					all.Go(func() {
						if _, err := ask(busy, flood.verb, flood.bytes, 0); writ.CodeOf(err) == writ.CodeRateLimited {
							refused.Add(1)
						} else {
							answered.Add(1)
						}
					})
					if flood.verb == link.VerbStatement {
						time.Sleep(time.Millisecond / 2) // they are counted when they were answered
					}
				}
				synctest.Wait()
				for _, verb := range []link.Verb{link.VerbPlan, link.VerbRoster, link.VerbStatement, link.VerbSubmit} {
					if took, err := ask(other, verb, small, 1); err != nil || took > 0 {
						t.Errorf("%s of another coordinator took %s, %v", verb, took, err)
					}
					if took, err := ask(busy, verb, small, 1); verb != flood.verb && (err != nil || took > 0) {
						t.Errorf("%s of this coordinator took %s, %v", verb, took, err)
					}
				}
				if flood.bytes == large {
					if took, err := ask(busy, flood.verb, small, 1); err != nil || took > smallAskWaits {
						t.Errorf("a small one took %s, %v", took, err)
					}
				}
				all.Wait()
				if n := answered.Load(); n == 0 || n > 1500 || refused.Load() == 0 {
					t.Errorf("%d were answered, %d refused", n, refused.Load())
				}
			})
		})
	}
	decided := &writ.Error{Code: writ.CodeConflict, Message: "it is another revision", Proof: []byte("signed")}
	for name, again := range map[string]struct {
		verb      link.Verb
		answer    any
		err       error
		perSecond int
	}{
		"a signed statement":                {link.VerbStatement, nil, nil, statementAsks},
		"an accepted submission":            {link.VerbSubmit, writ.Run{Accepted: time.Unix(0, 0)}, nil, idleAsks},
		"a refused submission":              {link.VerbSubmit, writ.Run{}, answers.RefusedBefore{Refusal: decided}, idleAsks},
		"a submission of an unknown signer": {link.VerbSubmit, writ.Run{}, writ.Errorf(writ.CodeSignerUnknown, "nobody has this key"), idleAsks},
	} {
		t.Run(name+" again and again", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var answered atomic.Int32
				busy := newAsks(time.Now).of("https://busy.test", func(context.Context, link.Verb, json.RawMessage) (any, error) {
					answered.Add(1)
					return again.answer, again.err
				})
				const asked = 20_000
				began := time.Now()
				for range asked {
					if _, err := busy(t.Context(), again.verb, nil); !errors.Is(err, again.err) {
						t.Fatal(err)
					}
					if time.Since(began) == 0 && answered.Load() > int32(2*again.perSecond+1) {
						t.Fatalf("%d are answered at once", answered.Load())
					}
				}
				if took, least := time.Since(began), (asked-2*time.Duration(again.perSecond)-1)*time.Second/time.Duration(again.perSecond); took < least {
					t.Errorf("%d were answered within %s, which is sooner than %s", asked, took, least)
				}
			})
		})
	}
	for name, fresh := range map[string]error{"new submissions": nil, "submissions that are refused for the first time": decided} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				busy := newAsks(time.Now).of("https://busy.test", func(context.Context, link.Verb, json.RawMessage) (any, error) {
					return writ.Run{Accepted: time.Now().Truncate(time.Microsecond)}, fresh
				})
				began := time.Now()
				for range 20 * idleAsks {
					if _, err := busy(t.Context(), link.VerbSubmit, nil); !errors.Is(err, fresh) || time.Since(began) > 0 {
						t.Fatalf("it waits %s: %v", time.Since(began), err)
					}
				}
			})
		})
	}
	t.Run("signed statements", func(t *testing.T) {
		asks := newAsks(time.Now)
		answer := func(context.Context, link.Verb, json.RawMessage) (any, error) {
			return nil, writ.Errorf(writ.CodeConflict, "it is another revision")
		}
		for range 1000 {
			if _, err := asks.of("https://busy.test", answer)(t.Context(), link.VerbStatement, nil); writ.CodeOf(err) != writ.CodeConflict {
				t.Fatal(err)
			}
		}
	})
}
