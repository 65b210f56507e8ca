package saltest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/catalog"
)

// acts returns all operations of a suite in their order.
func (e Suite) acts() []Step {
	all := []Step{e.Make}
	if e.Mutable != nil {
		all = append(all, e.with(e.Mutable))
	}
	all = append(all, e.Steps...)
	return append(all, e.remove())
}

// stopsWithContext ends the context before each operation, and at every tested step of each operation.
func stopsWithContext(t *testing.T, e Suite) {
	every := 1
	if e.sparse() {
		every = 5
	}
	disturb(t, e, endOfContext, every, func(h *host, s Step, at int) (reached bool) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if at == 0 {
			cancel()
		}
		steps := 0
		h.restart(func(string) {
			if steps++; steps == at {
				cancel()
			}
		})
		_, err := h.do(ctx, s, subject, uidOf(subject))
		if at == 0 && !errors.Is(err, context.Canceled) {
			t.Errorf("%s ignored its ended context: %v", s.Operation, err)
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", s.Operation, err)
		}
		return ctx.Err() != nil
	})
}

// goesOnAfterCrash stops the driver at every step of every operation like SIGKILL: no code runs after the step, not
// even deferred calls. A new driver on the same host must then be able to observe the subject, repeat the operation and
// clean up.
func goesOnAfterCrash(t *testing.T, e Suite) {
	release := make(chan struct{})
	var dead sync.WaitGroup
	t.Cleanup(func() {
		close(release)
		dead.Wait()
	})
	disturb(t, e, endOfDriver, 1, func(h *host, s Step, at int) (reached bool) {
		stopped, finished := make(chan struct{}), make(chan error, 1)
		steps := 0
		h.restart(func(string) {
			if steps == at {
				close(stopped)
				<-release // the driver stays blocked until the test ends
				runtime.Goexit()
			}
			steps++
		})
		driver, r := h.driver, h.request(s, h.subject(), uidOf(subject))
		dead.Go(func() {
			_, err := driver.Do(context.WithoutCancel(t.Context()), r)
			finished <- err
		})
		select {
		case <-stopped:
			return true
		case err := <-finished:
			if err != nil {
				t.Errorf("%s: %v", s.Operation, err)
			}
			return false
		}
	})
}

// gateEvery is the distance between tested steps, except in nightly tests, which test all steps. For slow drivers the
// distance is gateEverySlow, and each operation is disturbed in only one of the two ways. A step of containerd, for
// example, takes a third of a second.
const (
	gateEvery     = 3
	gateEverySlow = 12
)

// disturbance is the end of the context or of the driver.
type disturbance int

const (
	endOfContext disturbance = iota
	endOfDriver
)

// sparse reports whether each disturbance is followed by only one of the checks repeats and cleansUp.
func (e Suite) sparse() bool { return e.Sparse && !testenv.IsLong() }

// disturb disturbs every operation of the suite, at steps with the distance `every`. interrupt executes the operation,
// disturbs it at a step, and reports whether it reached the step. After each disturbance, a new driver must keep the
// promises of package sal.
func disturb(
	t *testing.T, e Suite, by disturbance, every int, interrupt func(h *host, s Step, at int) (reached bool),
) {
	h := e.newHost(t)
	hosts := hostsOr(e.Hosts)
	saved := hosts.New(t)
	acts := e.acts()
	switch {
	case testenv.IsNightly():
	case e.Sparse:
		every *= gateEverySlow
	default:
		every *= gateEvery
	}
	tried := 0
	for i, s := range acts {
		if e.Sparse && e.Clear != nil && !testenv.IsNightly() && disturbance(i%2) != by {
			continue
		}
		back := func() { replay(h, acts[:i]) }
		if e.Clear == nil {
			hosts.Replace(t, saved, h.dir)
			back = func() {
				hosts.Replace(t, h.dir, saved)
				h.restart(nil)
			}
		}
		back()
		h.must(h.step(s)) // undisturbed
		want := h.observe(subject)
		for at, next := 0, 1+i%every; ; at, next = next, next+every { // the first step differs between operations
			back()
			reached := interrupt(h, s, at)
			h.restart(nil)
			if !reached {
				break
			}
			tried++
			after := disturbed{h, fmt.Sprintf("operation %d (%s), disturbed at step %d", i+1, s.Operation, at)}
			switch {
			case !e.sparse():
				again := func() {
					back()
					interrupt(h, s, at)
					h.restart(nil)
				}
				after.repeats(s, want, at%2 == 1)
				if testenv.IsNightly() { // with and without Keep, which can hide a fault of the repetition
					again()
					after.repeats(s, want, at%2 == 0)
				}
				again()
				after.cleansUp()
			case tried%2 == 1:
				after.repeats(s, want, tried%4 == 1)
			default:
				after.cleansUp()
			}
			if t.Failed() {
				return
			}
		}
		if e.Clear == nil {
			back()
			h.must(h.step(s)) // undisturbed, before the next operation
		}
	}
	t.Logf("disturbed %d times", tried)
}

// replay resets the host and executes acts on it.
func replay(h *host, acts []Step) {
	h.Helper()
	h.suite.Clear(h, h.dir)
	emptyDir(h, h.dir)
	h.furnish()
	for _, s := range acts {
		h.must(h.step(s))
	}
}

// disturbed is a host whose last operation was disturbed.
type disturbed struct {
	*host
	when string // names the operation and the step, for errors
}

// repeats repeats the disturbed operation. If `keep` is set, it first calls Keep, as a runner does at startup.
func (d disturbed) repeats(s Step, want sal.Observation, keep bool) {
	d.Helper()
	d.observe(subject)
	d.listed(d.subject())
	if keep {
		d.keepSubject()
	}
	o, _ := catalog.Lookup(s.Operation)
	if o.Repeat == catalog.Once {
		return // the runner never repeats it
	}
	if _, err := d.step(s); err != nil {
		d.Errorf("%s: the repetition failed: %v", d.when, err)
		return
	}
	incidental := cmpopts.IgnoreMapEntries(func(name string, _ any) bool {
		return slices.Contains(d.suite.Incidental, name)
	})
	if diff := cmp.Diff(want, d.observe(subject), incidental); diff != "" {
		d.Errorf("%s: wrong state after the repetition:\n%s", d.when, diff)
	}
	if again := d.must(d.step(s)); o.Effect != catalog.Look && again.Change != writ.ChangeUnchanged {
		d.Errorf("%s: change of the third call: %q", d.when, again.Change)
	}
	if drift := d.keepSubject(); len(drift) > 0 {
		d.Errorf("%s: drift after the repetition: %+v", d.when, drift)
	}
}

// cleansUp deletes the resource right after the disturbance, and creates another resource with the same name.
func (d disturbed) cleansUp() {
	d.Helper()
	if _, err := d.step(d.suite.remove()); err != nil {
		d.Errorf("%s: the deletion failed: %v", d.when, err)
		return
	}
	d.absent()
	made, err := d.do(d.Context(), d.suite.Make, subject, "0192f6c2-7d3a-7000-9000-the-second-one")
	if err != nil || made.Change != writ.ChangeCreated {
		d.Errorf("%s, then deleted: the new creation failed: %q, %v", d.when, made.Change, err)
	}
}
