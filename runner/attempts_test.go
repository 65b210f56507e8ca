package runner_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
)

// A refusal that cannot be recorded invites the next attempt. A late delivery of the abandoned attempt must then not
// act.
func TestAnAbandonedAttemptIsNotDoneLate(t *testing.T) {
	for _, operation := range []string{"container.exec", "volume.create"} {
		t.Run(operation, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFixture(t).fresh(nil)
				first := n.job(1, operation, "web", nil)
				second := n.job(1, operation, "web", func(j *writ.Job) { j.Attempt = 2 })
				n.push(n.job(2, "node.facts", "", nil))
				quiet(time.Second)
				room := n.fill()
				n.push(first)
				if got := n.await(first.JobKey); !unwritten(got) {
					t.Fatalf("result = %+v, want an unrecorded one", got.Error)
				}
				room()
				quiet(2 * time.Second)
				n.push(second)
				if got := n.await(second.JobKey); got.Error != nil {
					t.Fatalf("the second attempt: %+v", got.Error)
				}
				n.host.remove(second) // as another job might
				before := n.host.total()
				first.Delivery = 2
				n.push(first)
				quiet(2 * time.Second)
				if got := n.host.total(); got != before {
					t.Errorf("%d effects, want %d: the first attempt acted after the second", got, before)
				}
			})
		})
	}
}

// After a resume, a failure that was not reported to the person may have had an effect, and a known effect stays known.
func TestAnAttemptAfterAResumeKnowsTheOneBefore(t *testing.T) {
	for _, tt := range []struct {
		step    string // the step at which the runner dies during the first attempt
		told    int    // newest attempt whose failure the person knows
		want    writ.Code
		effects int
	}{
		{step: afterStarted, want: writ.CodeOutcomeUnknown},
		{step: afterActed, want: writ.CodeOutcomeUnknown, effects: 1},
		{step: afterFinished, effects: 1},
		{step: afterSent, effects: 1},
		{step: afterStarted, told: 1, effects: 1},
		{step: afterActed, told: 1, effects: 2}, // the person has inspected it, and requests it again
		{step: afterFinished, told: 1, effects: 1},
	} {
		t.Run(fmt.Sprintf("%s told %d", tt.step, tt.told), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, h := newFixture(t), newHost()
				first := s.job(1, "container.exec", "web", nil)
				n := s.start(killedAt(t, s, h, tt.step, first), h, nil)
				second := n.job(1, "container.exec", "web", func(j *writ.Job) { j.Attempt, j.Resumes, j.KnownFailures = 2, 1, tt.told })
				n.push(second)
				got := n.await(second.JobKey)
				if codeOf(got) != tt.want {
					t.Errorf("result = %+v, want %q", got.Error, tt.want)
				}
				if h.total() != tt.effects {
					t.Errorf("%d effects, want %d", h.total(), tt.effects)
				}
				first.Node, first.Delivery = n.member.Node(), 2
				n.push(first)
				quiet(2 * time.Second)
				if h.total() != tt.effects {
					t.Errorf("%d effects after a late delivery of the first attempt, want %d", h.total(), tt.effects)
				}
			})
		})
	}
}

// A later attempt of a program that runs once returns the earlier result, unless the supervisor knew its failure.
func TestLaterAttemptOfProgramHasThePreviousResult(t *testing.T) {
	for _, tt := range []struct {
		step    string // the step at which the runner dies during the first attempt
		fails   bool   // the program
		told    int    // newest attempt whose failure the person knows
		want    writ.Code
		effects int
	}{
		{step: afterStarted, effects: 1},
		{step: afterActed, effects: 1},
		{step: afterFinished, effects: 1},
		{step: afterActed, fails: true, want: writ.CodeProgramFailed, effects: 1},
		{step: afterFinished, fails: true, want: writ.CodeProgramFailed, effects: 1},
		{step: afterSent, fails: true, want: writ.CodeProgramFailed, effects: 1},
		{step: afterSent, fails: true, told: 1, effects: 2}, // the person has mended the cause, and requests it again
		{step: afterActed, told: 1, effects: 1},             // no answer had this result
	} {
		t.Run(fmt.Sprintf("%s %v told %d", tt.step, tt.fails, tt.told), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, h := newFixture(t), newHost()
				h.setFailing(tt.fails)
				first := s.job(1, "container.run", "web", nil)
				n := s.start(killedAt(t, s, h, tt.step, first), h, nil)
				h.setFailing(false)
				second := n.job(1, "container.run", "web", func(j *writ.Job) { j.Attempt, j.Resumes, j.KnownFailures = 2, 1, tt.told })
				n.push(second)
				got := n.await(second.JobKey)
				if codeOf(got) != tt.want {
					t.Errorf("result = %+v, want %q", got.Error, tt.want)
				}
				if h.total() != tt.effects {
					t.Errorf("%d effects, want %d", h.total(), tt.effects)
				}
				third := n.job(1, "container.run", "web", func(j *writ.Job) { j.Attempt, j.Resumes, j.KnownFailures = 3, 2, tt.told })
				n.push(third)
				if got := n.await(third.JobKey); codeOf(got) != tt.want || h.total() != tt.effects {
					t.Errorf("the third attempt: %+v, and %d effects", got.Error, h.total())
				}
			})
		})
	}
}

// A node that was disconnected for days still has its results for an open run.
func TestAJobIsRememberedAsLongAsItCanBeDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newFixture(t), newHost()
		job := s.job(1, "container.exec", "web", func(j *writ.Job) { j.Deadline = time.Now().Add(7 * 24 * time.Hour).UnixMilli() })
		dir := killedAt(t, s, h, afterActed, job)
		time.Sleep(6 * 24 * time.Hour)
		n := s.start(dir, h, nil)
		quiet(time.Minute) // long enough for prune to delete expired records
		job.Delivery, job.StartBy, job.EndBy = 2, time.Now().Add(30*time.Second).UnixMilli(), time.Now().Add(time.Minute).UnixMilli()
		job.Node = n.member.Node()
		n.push(job)
		if got := n.await(job.JobKey); codeOf(got) != writ.CodeOutcomeUnknown {
			t.Errorf("result = %+v, want %s", got.Error, writ.CodeOutcomeUnknown)
		}
		if h.total() != 1 {
			t.Errorf("%d effects, want 1", h.total())
		}
	})
}

// A partial failure of a job that must be done at most once ends its attempts.
//
// Promise: Failures: A tool that fails in the middle of unrepeatable work is not restarted automatically.
// How: The failure becomes `OUTCOME_UNKNOWN`, unless the tool reports that it changed no state.
func TestPartialFailureEndsNonRepeatableJob(t *testing.T) {
	for _, tt := range []struct {
		operation  string
		idempotent bool
		code, want writ.Code
	}{
		{operation: "container.exec", code: writ.CodeDriverFailed, want: writ.CodeOutcomeUnknown},
		{operation: "container.exec", code: writ.CodeDriverRefused, want: writ.CodeOutcomeUnknown},
		{operation: "volume.create", code: writ.CodeDriverRefused, want: writ.CodeDriverRefused},
		{operation: "container.exec", code: writ.CodeDriverFailed, idempotent: true, want: writ.CodeDriverFailed},
		{operation: "container.exec", code: writ.CodeDiskFull, want: writ.CodeDiskFull}, // no effect
		{operation: "volume.create", code: writ.CodeDriverFailed, want: writ.CodeDriverFailed},
	} {
		t.Run(fmt.Sprintf("%s %v %s", tt.operation, tt.idempotent, tt.code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFixture(t).fresh(nil)
				n.host.setPause(func(_ context.Context, step string, _ sal.Request) error {
					if step == acted {
						return writ.Errorf(tt.code, "told to fail")
					}
					return nil
				})
				job := n.job(1, tt.operation, "web", func(j *writ.Job) { j.Idempotent = tt.idempotent })
				n.push(job)
				if got := n.await(job.JobKey); codeOf(got) != tt.want || !strings.Contains(got.Error.Message, "told to fail") {
					t.Errorf("result = %+v, want %s", got.Error, tt.want)
				}
			})
		})
	}
}

// TestACallActsOnceForAnyOrderOfMessages simulates a supervisor that abandons attempts and sends others, a queue that
// delivers and repeats any of them at any time, a full disk, drivers that fail or are slow, and a runner that is
// killed. A second effect is allowed only if the person was warned that a first one may exist.
//
// Promise: Failures: At most one attempt of a call performs unrepeatable work, across any order, kills, full disks
// and resumes.
// How: A node compares all attempts of the call before it acts and remembers them until a day after the run's
// deadline; only a warned person can order a repeat.
// Also: TestEarlierAttemptsDecideExecution, TestAbandonedAttemptDoesNotRunWithNext,
// TestResumeRepeatsNoUncertainCall, TestReturningNodeRepeatsNoOldJob.
func TestACallActsOnceForAnyOrderOfMessages(t *testing.T) {
	testenv.CheckProperty(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.SampledFrom([]string{
			"deliver", "deliver", "deliver an earlier attempt", "next attempt", "kill", "fill the disk", "make room", "wait",
			"drivers stop before", "drivers stop after", "drivers fail", "drivers fail for good", "drivers work", "programs fail",
		}), 3, 25).Draw(rt, "steps")
		operation := rapid.SampledFrom([]string{"container.exec", "container.run", "volume.create"}).Draw(rt, "operation")
		wrong := ""
		synctest.Test(t, func(t *testing.T) { wrong = newCallGame(t, operation).play(steps) })
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

// callGame is one call, from the view of its supervisor and its node.
type callGame struct {
	*node
	t          *testing.T
	operation  string
	deliveries int
	attempt    int // the newest
	resumes    int
	told       int
	may        int // permitted number of effects
	room       func()
	mood       atomic.Value // behavior of drivers, as the step that set it
}

func newCallGame(t *testing.T, operation string) *callGame {
	g := &callGame{node: newFixture(t).fresh(nil), t: t, operation: operation, attempt: 1, may: 1, room: func() {}}
	g.mood.Store("drivers work")
	g.host.setPause(func(ctx context.Context, step string, _ sal.Request) error {
		switch mood := g.mood.Load(); {
		case mood == "drivers stop before" && step == begun, mood == "drivers stop after" && step == acted:
			<-ctx.Done()
			return ctx.Err()
		case mood == "drivers fail" && step == begun:
			return writ.Errorf(writ.CodeInjected, "told to fail")
		case mood == "drivers fail for good" && step == acted:
			return writ.Errorf(writ.CodeInjectedFinal, "told to fail")
		}
		return nil
	})
	quiet(time.Second) // the node serves
	return g
}

// play runs the steps and completes the call. It returns a violation, or "".
func (g *callGame) play(steps []string) string {
	for _, step := range steps {
		g.step(step)
		if wrong := g.wrong(); wrong != "" {
			return wrong
		}
	}
	for _, step := range []string{"drivers work", "make room", "kill", "wait"} {
		g.step(step)
	}
	for range 5 { // an attempt may be refused because of the previous one
		g.step("deliver")
		g.step("next attempt")
	}
	if end := g.end(); end == nil || end.Error != nil {
		return fmt.Sprintf("the call does not come to its end: %+v", end)
	}
	return g.wrong()
}

func (g *callGame) step(step string) {
	switch step {
	case "deliver":
		g.deliver(g.attempt)
	case "deliver an earlier attempt":
		g.deliver(max(1, g.attempt-1-g.deliveries%3))
	case "next attempt":
		g.next()
	case "kill":
		g.room()
		dir, before := g.disk(), g.node
		before.mu.Lock()
		// Messages that it sends during shutdown would not be sent by a killed process.
		heard := slices.Clone(before.results)
		before.mu.Unlock()
		before.stop()
		g.node = g.fixture.start(dir, before.host, nil)
		g.mu.Lock()
		g.results = append(heard, g.results...)
		g.mu.Unlock()
	case "fill the disk":
		g.room()
		g.room = g.fill()
	case "make room":
		g.room()
		time.Sleep(2 * time.Second)
	case "wait":
		time.Sleep(2 * time.Minute)
	default:
		g.mood.Store(step)
		g.host.setFailing(step == "programs fail")
	}
	quiet(time.Second)
}

func (g *callGame) deliver(attempt int) {
	g.deliveries++
	g.push(g.job(1, g.operation, "web", func(j *writ.Job) {
		j.Attempt, j.Delivery, j.Resumes, j.KnownFailures = attempt, g.deliveries, g.resumes, min(g.told, attempt-1)
		j.Deadline = time.Now().Add(time.Hour).UnixMilli()
	}))
}

// next gives up the newest attempt, after its failure or without an answer.
func (g *callGame) next() {
	end := g.end()
	switch {
	case end != nil && end.Error == nil:
		return
	case end == nil: // its node was lost, and a person resumed the run
		g.resumes++
	case !end.Error.Retryable():
		g.resumes++
		if g.hears(codeOf(*end)) {
			g.may++
		}
	default:
		g.hears(codeOf(*end))
	}
	g.attempt++
}

// hears records that the failure of the newest attempt is known. It reports whether the failures of all attempts are
// known.
func (g *callGame) hears(code writ.Code) bool {
	checked := code == writ.CodeOutcomeUnknown || code == writ.CodeProgramFailed
	if g.told == g.attempt-1 && code != writ.CodeNodeStore || checked {
		g.told = g.attempt
	}
	return g.told == g.attempt
}

// end returns the supervisor's view of the newest attempt, nil without an answer.
func (g *callGame) end() *writ.Result {
	results := g.got(writ.JobKey{Run: g.job(1, "container.exec", "web", nil).Run, Seq: 1, Attempt: g.attempt})
	if len(results) == 0 {
		return nil
	}
	return &results[0]
}

// unwritten reports whether a result was sent without being recorded.
func unwritten(r writ.Result) bool {
	return codeOf(r) == writ.CodeNodeStore || codeOf(r) == writ.CodeStoreUnavailable
}

func (g *callGame) wrong() string {
	if got := g.host.total(); got > g.may {
		return fmt.Sprintf("%d effects, at most %d may be", got, g.may)
	}
	first := make(map[writ.JobKey]writ.Result)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.results {
		f, ok := first[r.JobKey]
		if !ok || unwritten(f) {
			first[r.JobKey] = r
		} else if codeOf(f) != codeOf(r) && !unwritten(r) {
			return fmt.Sprintf("%s was %q first and is %q now", r.JobKey, codeOf(f), codeOf(r))
		}
		if r.Error == nil && g.host.total() == 0 {
			return fmt.Sprintf("%s succeeded without an effect", r.JobKey)
		}
	}
	return ""
}
