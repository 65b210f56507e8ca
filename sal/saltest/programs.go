package saltest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"writ/internal/test/testenv"
	"writ/sal"
)

// interruption describes how a job of a program is interrupted at a step, and how it is repeated.
type interruption struct {
	name string
	// kill stops the driver like SIGKILL. If kill is false, the context of the job ends, as when the runner stops.
	kill bool
	keep bool // Keep runs before the job is repeated
	then int  // attempt number of the repeated job
}

// interruptions lists interruptions after which the program must not run again.
var interruptions = []interruption{
	{name: "killed", kill: true, then: 1},
	{name: "killed, with a scan", kill: true, then: 1, keep: true},
	{name: "killed, with another attempt", kill: true, then: 2, keep: true},
	{name: "stopped", then: 1},
}

// runsOnce interrupts a program at every step and repeats its job. The program must run once, return its whole result,
// and leave no traces.
func runsOnce(t *testing.T, e Suite) {
	if e.Run.Operation == "" {
		t.Skip("the module runs no programs")
	}
	h := &programs{host: e.newHost(t), release: make(chan struct{})}
	t.Cleanup(func() {
		close(h.release)
		h.dead.Wait()
	})
	h.want = h.must(h.job(h.Context(), 1, 0))
	h.absent()
	for _, attempt := range []int{1, 2} {
		h.restart(nil)
		h.returns(fmt.Sprintf("attempt %d", attempt), attempt, 0)
	}
	if ran := e.Ran(t, h.dir); ran != 1 {
		t.Errorf("the program ran %d times", ran)
	}
	steps, every, tried := h.steps(), 1, 0
	if e.Sparse && !testenv.IsNightly() {
		every = gateEverySlow
	}
	for i, way := range interruptions {
		for at := i % every; at < steps; at += every {
			h.repeatsInterrupted(way, at)
			tried++
		}
	}
	for at := 1; at < steps; at += every {
		h.endsWithCall(at)
		tried++
	}
	t.Logf("interrupted %d times", tried)
}

// programs is a host for the jobs of one program.
type programs struct {
	*host
	calls   int         // number of the current call
	want    sal.Outcome // of an undisturbed job
	release chan struct{}
	dead    sync.WaitGroup
}

// job executes a job of the current call. known is the last attempt whose failure the supervisor has recorded; see
// sal.CallHistory.
func (h *programs) job(ctx context.Context, attempt, known int) (sal.Outcome, error) {
	h.Helper()
	return h.carryOut(ctx, h.requestOf(attempt, known))
}

func (h *programs) requestOf(attempt, known int) sal.Request {
	h.Helper()
	r := h.request(h.suite.Run, h.subject(), uidOf(fmt.Sprintf("call-%d", h.calls)))
	r.Call = sal.CallHistory{Attempt: attempt, Known: known}
	return r
}

// returns executes a job that must return the result of the program.
func (h *programs) returns(when string, attempt, known int) {
	h.Helper()
	got, err := h.job(h.Context(), attempt, known)
	if err != nil {
		h.Fatalf("%s: %v", when, err)
	}
	uid := cmpopts.IgnoreMapEntries(func(name string, _ any) bool { return name == "uid" })
	if diff := cmp.Diff(h.want, got, uid); diff != "" {
		h.Errorf("%s: another result:\n%s", when, diff)
	}
	h.absent()
}

// next ends the call, as a runner does after it has recorded the answer, and begins another call. It returns how often
// the program has run so far.
func (h *programs) next(attempt int) (before int) {
	h.Helper()
	if d, ok := h.driver.(sal.Resuming); ok {
		if err := d.DeleteResult(h.Context(), h.requestOf(attempt, 0)); err != nil {
			h.Error(err)
		}
	}
	h.calls++
	return h.suite.Ran(h, h.dir)
}

// steps counts the steps of an undisturbed job.
func (h *programs) steps() int {
	h.Helper()
	h.next(2)
	var n atomic.Int32
	h.restart(func(string) { n.Add(1) })
	h.returns("counted", 1, 0)
	h.restart(nil)
	return int(n.Load())
}

// repeatsInterrupted interrupts a job at a step and repeats it.
func (h *programs) repeatsInterrupted(way interruption, at int) {
	h.Helper()
	before := h.next(2)
	h.interrupt(way, at)
	h.restart(nil)
	if way.keep {
		h.keepSubject()
	}
	when := fmt.Sprintf("%s at step %d", way.name, at)
	h.returns(when, way.then, 0)
	if n := h.suite.Ran(h, h.dir) - before; n != 1 {
		h.Fatalf("%s: the program ran %d times", when, n)
	}
}

// interrupt executes a job and interrupts it at a step.
func (h *programs) interrupt(way interruption, at int) {
	h.Helper()
	ctx, stop := context.WithCancelCause(context.WithoutCancel(h.Context()))
	defer stop(nil)
	ended := make(chan error, 2)
	var n atomic.Int32
	h.restart(func(string) {
		switch reached := int(n.Add(1)) - 1; {
		case reached < at:
		case way.kill:
			ended <- nil
			<-h.release // the driver stays blocked until the test ends
			runtime.Goexit()
		case reached == at:
			stop(sal.ErrStopping)
		}
	})
	driver, r := h.driver, h.requestOf(1, 0)
	h.dead.Go(func() {
		_, err := driver.Do(ctx, r)
		ended <- err
	})
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		h.Errorf("%s at step %d: %v", way.name, at, err)
	}
}

// endsWithCall ends the call at a step, as a cancel or a deadline does. The call must leave no traces, and a later attempt
// runs the program again.
func (h *programs) endsWithCall(at int) {
	h.Helper()
	before := h.next(2)
	ctx, cancel := context.WithCancel(h.Context())
	defer cancel()
	var n atomic.Int32
	h.restart(func(string) {
		if int(n.Add(1)) == at {
			cancel()
		}
	})
	_, err := h.job(ctx, 1, 0)
	h.restart(nil)
	when := fmt.Sprintf("the call ended at step %d", at)
	if err != nil && !errors.Is(err, context.Canceled) {
		h.Errorf("%s: %v", when, err)
	}
	h.absent()
	ran := h.suite.Ran(h, h.dir) - before
	if ran > 1 {
		h.Errorf("%s: the program ran %d times", when, ran)
	}
	if err == nil {
		return
	}
	h.returns(when, 2, 1)
	if again := h.suite.Ran(h, h.dir) - before; again != ran+1 {
		h.Errorf("%s: the program ran %d times in two attempts", when, again)
	}
}
