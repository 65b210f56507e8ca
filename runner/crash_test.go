package runner_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/internal/test/testenv"
	"writ/runner"
	"writ/runner/queue"
	"writ/sal"
)

// The steps of a job after which a process can be killed.
const (
	afterStarted  = "started"  // recorded, not executed
	afterActed    = "acted"    // the effect exists, but the runner has not recorded it
	afterFinished = "finished" // the result is recorded and not sent
	afterSent     = "sent"     // the result is sent and not acknowledged
)

// killedAt gives a job to a new node, and returns a copy of its disk when the job has reached a step. Afterwards the
// runner has no visible effects, as if it had been killed.
func killedAt(t *testing.T, s *fixture, h *host, step string, job *writ.Job) (dir string) {
	t.Helper()
	n := s.fresh(func(r *runner.Runner) {
		r.Drivers = h.drivers()
		r.Grace = time.Nanosecond
		if step == afterFinished {
			r.Queue = silent{r.Queue}
		}
	})
	h.setPause(func(ctx context.Context, at string, _ sal.Request) error {
		if step == afterStarted && at == begun || step == afterActed && at == acted {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	})
	n.push(job)
	quiet(time.Second)
	dir = n.disk()
	n.stop()
	h.setPause(func(context.Context, string, sal.Request) error { return nil })
	return dir
}

// A runner that ends after it has recorded the answer has not deleted the result of the program. The result may contain
// the output of the program, and no later call would need it.
func TestResultIsDeletedAfterTheDeathOfTheRunner(t *testing.T) {
	for name, again := range map[string]func(n *node, job *writ.Job){
		"the same delivery": func(*node, *writ.Job) {},
		"a later delivery":  func(_ *node, job *writ.Job) { job.Delivery = 2 },
		"the run has ended": func(n *node, job *writ.Job) {
			n.tell(writ.Control{Cancels: map[writ.RunID]int64{job.Run: time.Now().Add(time.Hour).UnixMilli()}})
			quiet(time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, h := newFixture(t), newHost()
				job := s.job(1, "container.run", "web", nil)
				dir := killedAt(t, s, h, afterFinished, job)
				h.mu.Lock()
				h.deleted = nil // as if the runner had ended before
				h.mu.Unlock()
				n := s.start(dir, h, nil)
				again(n, job)
				n.push(job)
				n.await(job.JobKey)
				quiet(time.Second)
				h.mu.Lock()
				defer h.mu.Unlock()
				if len(h.deleted) == 0 {
					t.Error("the result remains")
				}
			})
		})
	}
}

// silent is a queue that drops all sent messages.
type silent struct{ queue.Queue }

func (silent) Send(ctx context.Context, _ queue.Stream, _ []byte) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// Promise: Failures: A runner killed at any step has a definite state for each job after its restart.
// How: Declarative operations continue; others end as `OUTCOME_UNKNOWN`.
func TestAJobSurvivesTheDeathOfItsRunner(t *testing.T) {
	steps := []string{afterStarted, afterActed, afterFinished, afterSent}
	for _, tt := range []struct {
		name       string
		operation  string
		resource   string
		idempotent bool
		want       map[string]writ.Code // by step
		effects    map[string]int
	}{
		{
			name: "make it so", operation: "volume.create", resource: "data",
			effects: map[string]int{afterStarted: 1, afterActed: 1, afterFinished: 1, afterSent: 1},
		},
		{
			name: "at most once", operation: "container.exec", resource: "web",
			want:    map[string]writ.Code{afterStarted: writ.CodeOutcomeUnknown, afterActed: writ.CodeOutcomeUnknown},
			effects: map[string]int{afterStarted: 0, afterActed: 1, afterFinished: 1, afterSent: 1},
		},
		{
			name: "continued", operation: "container.run", resource: "web",
			effects: map[string]int{afterStarted: 1, afterActed: 1, afterFinished: 1, afterSent: 1},
		},
		{
			name: "declared as harmless", operation: "container.exec", resource: "web", idempotent: true,
			effects: map[string]int{afterStarted: 1, afterActed: 2, afterFinished: 1, afterSent: 1},
		},
	} {
		for _, step := range steps {
			t.Run(tt.name+" "+step, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, h := newFixture(t), newHost()
					job := s.job(1, tt.operation, tt.resource, func(j *writ.Job) { j.Idempotent = tt.idempotent })
					dir := killedAt(t, s, h, step, job)

					n := s.start(dir, h, nil)
					quiet(time.Second)
					recorded := step == afterFinished || step == afterSent
					if got := len(n.got(job.JobKey)) > 0; got != recorded {
						t.Errorf("the next incarnation reports without being asked: %v, want %v", got, recorded)
					}
					job.Node, job.Delivery = n.member.Node(), 2
					n.push(job)
					got := n.await(job.JobKey)
					if codeOf(got) != tt.want[step] {
						t.Errorf("result = %+v, want %q", got.Error, tt.want[step])
					}
					if got.Error != nil && !testenv.Mentions(got.Error.Message, "container web") {
						t.Errorf("message = %q, want the current state", got.Error.Message)
					}
					if got := h.count(job.JobKey.String()); got != tt.effects[step] {
						t.Errorf("%d effects, want %d", got, tt.effects[step])
					}
					if bySecond := got.Incarnation == n.lastBeat().Incarnation; bySecond == recorded {
						t.Errorf("answered by the second incarnation: %v, want %v", bySecond, !recorded)
					}
				})
			})
		}
	}
}

// The outcome of an interrupted non-repeatable job stays unknown, also if another error prevents it afterwards. An
// answer that invites another attempt would cause a second effect.
func TestInterruptedJobIsNeverReportedUnstarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newFixture(t), newHost()
		job := s.job(1, "container.exec", "web", nil)
		dir := killedAt(t, s, h, afterActed, job)
		n := s.start(dir, h, nil)
		release := make(chan struct{})
		defer close(release)
		blocks := n.job(2, "container.exec", "web", func(j *writ.Job) { j.EndBy = time.Now().Add(10 * time.Minute).UnixMilli() })
		h.setPause(func(ctx context.Context, _ string, r sal.Request) error {
			if r.Key == blocks.JobKey.String() {
				<-ctx.Done()
			}
			return ctx.Err()
		})
		n.push(blocks)
		quiet(time.Second)
		job.Node, job.Delivery = n.member.Node(), 2
		n.push(job)
		if got := n.await(job.JobKey); codeOf(got) != writ.CodeOutcomeUnknown {
			t.Errorf("behind a busy resource it was answered with %+v, want %s", got.Error, writ.CodeOutcomeUnknown)
		}
	})
}

func TestShutdownLetsJobsEndWithinItsGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(nil)
		n.host.setPause(func(ctx context.Context, step string, _ sal.Request) error {
			if step == begun {
				time.Sleep(5 * time.Second)
			}
			return ctx.Err()
		})
		job := n.job(1, "volume.create", "data", nil)
		n.push(job)
		quiet(time.Second)
		n.cancel()
		quiet(2 * time.Second)
		late := n.job(2, "volume.create", "other", nil)
		n.push(late)
		if fault := n.lastBeat().Fault; fault == "" {
			t.Error("a stopping runner reports no fault")
		}
		if got := n.await(job.JobKey); got.Error != nil {
			t.Errorf("result = %+v, want success", got.Error)
		}
		n.stop()
		if n.host.total() != 1 {
			t.Errorf("%d effects, want 1: of the job that ran", n.host.total())
		}
	})
}

func TestJobContinuesAfterShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(nil)
		n.host.setPause(func(ctx context.Context, step string, _ sal.Request) error {
			if step == begun {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		})
		job := n.job(1, "volume.create", "data", func(j *writ.Job) { j.EndBy = time.Now().Add(time.Hour).UnixMilli() })
		waits := n.job(2, "volume.create", "data", nil)
		n.push(job)
		quiet(time.Second)
		n.push(waits)
		quiet(time.Second)
		begin := time.Now()
		n.stop()
		if took := time.Since(begin); took > 15*time.Second {
			t.Errorf("stopping took %s", took)
		}
		if len(n.got(job.JobKey))+len(n.got(waits.JobKey)) != 0 {
			t.Error("a job that was cut, or that only waited, was answered")
		}
		n.host.setPause(func(context.Context, string, sal.Request) error { return nil })
		n = n.again()
		for _, j := range []*writ.Job{job, waits} {
			j.Delivery, j.StartBy = 2, time.Now().Add(time.Second).UnixMilli()
			n.push(j)
			if got := n.await(j.JobKey); got.Error != nil || got.Incarnation != n.lastBeat().Incarnation {
				t.Errorf("result = %+v of incarnation %d, want success of the second", got.Error, got.Incarnation)
			}
		}
		if n.host.total() != 1 {
			t.Errorf("%d effects, want 1", n.host.total())
		}
	})
}

// An interrupted job that its driver continues is not answered while something temporary prevents it: the answer would
// hide the result.
func TestBusyContinuedJobStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newFixture(t), newHost()
		job := s.job(1, "container.run", "web", nil)
		dir := killedAt(t, s, h, afterActed, job)
		n := s.start(dir, h, nil)
		blocks := n.job(2, "container.exec", "web", func(j *writ.Job) { j.EndBy = time.Now().Add(10 * time.Minute).UnixMilli() })
		free := make(chan struct{})
		h.setPause(func(_ context.Context, _ string, r sal.Request) error {
			if r.Key == blocks.JobKey.String() {
				<-free
			}
			return nil
		})
		n.push(blocks)
		quiet(time.Second)
		job.Node, job.Delivery = n.member.Node(), 2
		job.StartBy = time.Now().Add(10 * time.Second).UnixMilli()
		n.push(job)
		quiet(time.Minute)
		if got := n.got(job.JobKey); len(got) > 0 {
			t.Errorf("behind a busy resource it was answered with %+v", got[0].Error)
		}
		close(free)
		job.Delivery, job.StartBy, job.EndBy = 3, time.Now().Add(time.Minute).UnixMilli(), time.Now().Add(time.Hour).UnixMilli()
		n.push(job)
		if got := n.await(job.JobKey); got.Error != nil || h.count(job.JobKey.String()) != 1 {
			t.Errorf("then the answer is %+v, with %d effects", got.Error, h.count(job.JobKey.String()))
		}
	})
}

// A driver that continues its work leaves it running if the runner stops, and not if the call ends.
func TestDriverKnowsWhyItsContextEnds(t *testing.T) {
	for name, end := range map[string]func(n *node, job *writ.Job){
		"the runner stops": func(n *node, _ *writ.Job) { n.stop() },
		"the run is cancelled": func(n *node, job *writ.Job) {
			n.tell(writ.Control{Cancels: map[writ.RunID]int64{job.Run: time.Now().Add(time.Hour).UnixMilli()}})
			quiet(time.Second)
			n.stop()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFixture(t).fresh(func(r *runner.Runner) { r.Grace = time.Nanosecond })
				cause := make(chan error, 1)
				n.host.setPause(func(ctx context.Context, step string, _ sal.Request) error {
					<-ctx.Done()
					cause <- context.Cause(ctx)
					return ctx.Err()
				})
				job := n.job(1, "container.run", "web", func(j *writ.Job) { j.EndBy = time.Now().Add(time.Hour).UnixMilli() })
				n.push(job)
				quiet(time.Second)
				end(n, job)
				if got, want := errors.Is(<-cause, sal.ErrStopping), name == "the runner stops"; got != want {
					t.Errorf("the cause is the stop: %v", got)
				}
			})
		})
	}
}

// The result of a program is deleted only after the runner has recorded it.
func TestResultIsDeletedAfterItIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(nil)
		deleted := func() int {
			n.host.mu.Lock()
			defer n.host.mu.Unlock()
			return len(n.host.deleted)
		}
		job := n.job(1, "container.run", "web", func(j *writ.Job) { j.EndBy = time.Now().Add(time.Hour).UnixMilli() })
		var room func()
		n.host.setPause(func(_ context.Context, step string, _ sal.Request) error {
			if step == acted {
				room = n.fill()
			}
			return nil
		})
		n.push(job)
		quiet(10 * time.Second)
		if got := deleted(); got != 0 {
			t.Errorf("%d results were deleted before they were recorded", got)
		}
		room()
		if got := n.await(job.JobKey); got.Error != nil || deleted() != 1 {
			t.Errorf("the answer is %+v, and %d results were deleted", got.Error, deleted())
		}
	})
}
