package supervisor_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
)

// clock is a wall clock with an adjustable offset. Monotonic time is not affected.
type clock struct {
	ahead atomic.Int64
	at    atomic.Int64 // time of the last change
}

func (c *clock) now() time.Time { return time.Now().Round(0).Add(time.Duration(c.ahead.Load())) }

// set sets the offset of the clock.
func (c *clock) set(ahead time.Duration) {
	c.ahead.Store(int64(ahead))
	c.at.Store(time.Now().UnixNano())
}

// since returns the time since the last change.
func (c *clock) since() time.Duration { return time.Duration(time.Now().UnixNano() - c.at.Load()) }

// Promise: Recovery: Setting a clock ends no call early, delays no call and marks no node as silent.
// How: Both sides measure silence and call time by monotonic clocks; a call with an implausible next check is checked
// at once.
// Also: TestClockSetBackDelaysNoRun, TestClockChangesMakeNoNodeSilent,
// TestClockChangeCutsNoDriverTime, TestClockSetBackDelaysNoCancel.
func TestClockSetForwardEndsNoCallEarly(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1", slowly(2*time.Minute))
		id := s.submit(oneVolume)
		s.awaitCall(id, 1, writ.CallRunning)
		s.clock.set(50 * time.Minute) // past the end-by time of the call, before the deadline of the run
		_, calls := s.wantState(id, writ.RunSucceeded)
		if calls[0].Delivery != 1 {
			t.Errorf("the call was delivered %d times, want 1", calls[0].Delivery)
		}
	})
}

func TestClockSetBackDelaysNoRun(t *testing.T) {
	const script = "volume := import(\"volume\")\nvolume.create(\"v\", {size_gib: 1}, {retries: 9})\n"
	for _, tt := range []struct{ name, names string }{
		{"ForTheNextTry", string(writ.CodeInjected)},
		{"ForANode", "n1"},
		{"ForAResource", "volume v"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				s.clock.set(24 * time.Hour) // leaves room to set the clock back
				var broken atomic.Bool
				n := s.join("n1", func(n *testNode) {
					n.act = func(ctx context.Context, job writ.Job) writ.Result {
						if broken.Load() {
							return writ.Result{Error: writ.Errorf(writ.CodeInjected, "injected for now")}
						}
						time.Sleep(20 * time.Second)
						return succeed(ctx, job)
					}
				})
				time.Sleep(2 * time.Second)
				switch tt.name {
				case "ForTheNextTry":
					broken.Store(true)
				case "ForANode":
					s.decide(n.id, "cordon")
				case "ForAResource":
					first := s.submit(script)
					s.awaitCall(first, 1, writ.CallRunning)
				}
				id := s.submit(script)
				waits := func() bool {
					_, calls := s.look(id)
					return len(calls) > 0 && testenv.Mentions(calls[0].Why.String(), tt.names)
				}
				for began := time.Now(); !waits(); time.Sleep(100 * time.Millisecond) {
					if run, calls := s.look(id); time.Since(began) > time.Minute {
						t.Fatalf("run %s, call %s in attempt %d: %q %v", run.State, calls[0].State, calls[0].Attempt, calls[0].Why.String(), calls[0].Error)
					}
				}
				s.clock.set(18 * time.Hour)
				time.Sleep(2 * time.Second)
				broken.Store(false)
				if tt.name == "ForANode" {
					s.decide(n.id, "uncordon")
				}
				began := time.Now()
				s.wantState(id, writ.RunSucceeded)
				if took := time.Since(began); took > 90*time.Second {
					t.Errorf("the run took %s", took)
				}
			})
		})
	}
}

func TestClockChangesMakeNoNodeSilent(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		for _, ahead := range []time.Duration{24 * time.Hour, -24 * time.Hour, 0} {
			time.Sleep(3 * time.Second)
			s.clock.set(ahead)
		}
		time.Sleep(3 * time.Second)
		events, err := s.journal.Events(t.Context(), 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		ready := false
		for _, e := range events {
			if e.Node == nil || e.Node.ID != n.id {
				continue
			}
			if ready && e.Node.Liveness != writ.LivenessReady {
				t.Errorf("the node was %s", e.Node.Liveness)
			}
			ready = ready || e.Node.Liveness == writ.LivenessReady
		}
		if !ready {
			t.Error("the node was never ready")
		}
	})
}

// Promise: Recovery: A node whose clock is off by more than 30 s gets no new work and reports the reason.
// How: Beats carry the clock.
func TestNodeWithWrongClockGetsNoNewWork(t *testing.T) {
	for ahead, words := range map[time.Duration][]string{
		31 * time.Second: {"31s", "ahead"}, -31 * time.Second: {"31s", "behind"}, 48 * time.Hour: {"48h0m0s", "ahead"},
	} {
		t.Run(ahead.String(), func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				off := new(clock)
				n := s.realNode("n1", func(n *realNode) { n.clock = off })
				time.Sleep(2 * time.Second)
				off.set(ahead)
				time.Sleep(2 * time.Second)
				id := s.submit(oneVolume)
				time.Sleep(20 * time.Second)
				if _, calls := s.look(id); calls[0].Delivery != 0 || !testenv.Mentions(calls[0].Why.String(), append(words, string(writ.CodeClockSkew))...) {
					t.Errorf("the call is %s: %q", calls[0].State, calls[0].Why.String())
				}
				off.set(0)
				s.wantState(id, writ.RunSucceeded)
				n.wantEffectsOnce(1)
			})
		})
	}
}

// Promise: Recovery: A job expires by the clock of its node, and a clock that runs years ahead makes a node forget no
// needed record.
// How: Start-by and end-by are in the envelope; a node deletes records by the newest end-by that it received.
// Also: TestClockAheadPrunesNothing.
func TestJobExpiresByClockOfItsNode(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, q := tapped(t)
		ahead := new(clock)
		n := s.realNode("n1", func(n *realNode) { n.clock = ahead })
		ahead.set(25 * time.Second)
		time.Sleep(2 * time.Second)
		q.withhold(true)
		id := s.submit(oneVolume)
		s.awaitCall(id, 1, writ.CallQueued)
		began := time.Now()
		time.Sleep(time.Millisecond)
		first := q.jobs()[:1]
		time.Sleep(40 * time.Second) // its start-by time is in 20 s, but passed 5 s ago on the node
		acted, dropped := n.counted("jobs"), n.counted("dropped")
		if err := s.queue.Push(t.Context(), n.id(), first...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if more, late := n.counted("jobs")-acted, n.counted("dropped")-dropped; more != 0 || late != 1 {
			t.Errorf("acted %g times on a job of age %s and dropped %g messages, want 0 and 1", more, time.Since(began), late)
		}
		q.withhold(false)
		s.wantState(id, writ.RunSucceeded)
		n.wantEffectsOnce(1)
	})
}

// patient is a volume driver that takes two minutes unless its context ends.
type patient struct{ simDriver }

func (d patient) Do(ctx context.Context, r sal.Request) (sal.Outcome, error) {
	select {
	case <-ctx.Done():
		return sal.Outcome{}, ctx.Err()
	case <-time.After(2 * time.Minute):
	}
	change, err := d.host.effect(r, keyOf(r.Key))
	return sal.Outcome{Change: change, Values: answerOf(r)}, err
}

func TestClockChangeCutsNoDriverTime(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		set := new(clock)
		s.realNode("n1", func(n *realNode) {
			n.clock, n.drivers = set, []sal.Driver{patient{simDriver{newSimHost(1), "volume"}}}
		})
		id := s.submit(oneVolume)
		s.awaitCall(id, 1, writ.CallRunning)
		for _, ahead := range []time.Duration{5 * time.Hour, time.Minute, 0} {
			set.set(ahead)
			time.Sleep(10 * time.Second)
		}
		_, calls := s.wantState(id, writ.RunSucceeded)
		if calls[0].Attempt != 1 {
			t.Errorf("the call took %d attempts, want 1", calls[0].Attempt)
		}
	})
}

func TestDestructiveJobExpiresByClockOfNode(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.clock.set(rightTime) // clock of node, supervisor and client
		n := s.realNode("n1")
		s.wantState(s.submit("volume := import(\"volume\")\nvolume.create(\"v\", {size_gib: 1}, {retries: 0}).uid\nvolume.delete(\"v\", {}, {retries: 0})\n"), writ.RunSucceeded)
		n.wantEffectsOnce(2)
	})
}
