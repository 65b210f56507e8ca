package supervisor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"writ"
	"writ/internal/test/testenv"
	"writ/runner/queue/memory"
)

// workingNode starts a realNode and completes one run on it, so that the supervisor sees it as ready.
func (s *sim) workingNode(name string) *realNode {
	n := s.realNode(name)
	s.wantState(s.submit(`node := import("node")`+"\n"+`node.ping()`+"\n"), writ.RunSucceeded)
	return n
}

// A call that was placed on a node but never sent there has not begun, so it moves when the node is lost.
//
// Promise: Failures: A call that a lost node never received moves to another node; a call that it may have started
// does not.
// How: The supervisor withdraws the jobs of a lost node from its queue and moves only calls whose every delivery it
// withdrew.
// Also: TestUndeliveredCallOfLostNodeMoves, TestFailedWithdrawalIsRetried, TestWithdrawnCallLeavesRemovedNode,
// TestDeliveredCallOfLostNodeStays, TestCallForLostNodeWaitsForIt,
// TestUnstartedNonRepeatableCallMoves, TestUndeliveredCallMovesRepeatedly.
func TestUnsentCallOfLostNodeMoves(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n1 := s.join("n1", slowly(time.Hour), func(n *testNode) { n.slots = 1 })
		time.Sleep(2 * time.Second)
		s.awaitCall(s.submit(pings(10)), 1, writ.CallRunning) // n1 has no free slot
		id := s.submit(oneVolume)
		s.awaitCall(id, 1, writ.CallPlanned)
		time.Sleep(5 * time.Second)
		if _, calls := s.look(id); calls[0].Node != n1.id || calls[0].Delivery != 0 {
			t.Fatalf("call = %+v, want it placed on n1 and unsent", calls[0])
		}
		n2 := s.join("n2")
		n1.setSilent(true)
		s.wantState(id, writ.RunSucceeded)
		if !slices.ContainsFunc(n2.given(), func(job writ.Job) bool { return job.Run == id }) {
			t.Error("n2 received no job of the run")
		}
	})
}

// A node that dies with jobs in its queue never received them. They move to another node, and the first node finds an
// empty queue when it returns.
func TestUndeliveredCallOfLostNodeMoves(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n1 := s.workingNode("n1")
		n1.halt()
		id := s.submit(oneVolume)
		s.awaitCall(id, 1, writ.CallQueued)
		n2 := s.realNode("n2")
		_, calls := s.wantState(id, writ.RunSucceeded)
		if calls[0].NodeName != "n2" || calls[0].Attempt != 2 {
			t.Errorf("call ran on %s in attempt %d, want n2 in attempt 2", calls[0].NodeName, calls[0].Attempt)
		}
		n1.start()
		time.Sleep(2 * time.Minute)
		n1.wantEffectsOnce(0)
		n2.wantEffectsOnce(1)
	})
}

// A call is known to be unstarted while every delivery of it was withdrawn. There may be several deliveries: the next
// supervisor sends it again, and a busy node gets another delivery of a job that waited too long.
func TestUndeliveredCallLeavesLostNode(t *testing.T) {
	t.Run("ByTheNextSupervisor", func(t *testing.T) {
		inSim(t, func(t *testing.T, s *sim) {
			n1 := s.workingNode("n1")
			n1.halt()
			id := s.submit(oneVolume)
			s.awaitCall(id, 1, writ.CallQueued)
			time.Sleep(time.Second) // until the job is in the queue
			s.halt()
			s.start()
			time.Sleep(2 * time.Second)
			if _, calls := s.look(id); calls[0].Delivery != 2 {
				t.Fatalf("the call was delivered %d times, want 2", calls[0].Delivery)
			}
			n2 := s.realNode("n2")
			if _, calls := s.wantState(id, writ.RunSucceeded); calls[0].NodeName != "n2" || calls[0].Attempt != 2 {
				t.Errorf("call ran on %s in attempt %d, want n2 in attempt 2", calls[0].NodeName, calls[0].Attempt)
			}
			n1.start()
			time.Sleep(2 * time.Minute)
			n1.wantEffectsOnce(0)
			n2.wantEffectsOnce(1)
		})
	})
	t.Run("ToABusyNode", func(t *testing.T) {
		inSim(t, func(t *testing.T, s *sim) {
			n1 := s.join("n1", slowly(time.Hour), func(n *testNode) { n.slots = 1 })
			time.Sleep(2 * time.Second)
			begun := s.submit(oneVolume)
			s.awaitCall(begun, 1, writ.CallRunning)
			waits := s.submit(`volume := import("volume")` + "\n" + `volume.create("w", {size_gib: 1})` + "\n")
			s.awaitCall(waits, 1, writ.CallQueued)
			time.Sleep(90 * time.Second)
			if _, calls := s.look(waits); calls[0].Delivery != 2 {
				t.Fatalf("the call was delivered %d times, want 2", calls[0].Delivery)
			}
			s.halt() // the journal records the first delivery
			s.start()
			n1.setSilent(true)
			s.join("n2")
			if _, calls := s.wantState(waits, writ.RunSucceeded); calls[0].NodeName != "n2" {
				t.Errorf("call ran on %s, want n2", calls[0].NodeName)
			}
			if run, _ := s.wantState(begun, writ.RunFailed); run.Failure.Code != writ.CodeNodeLost {
				t.Errorf("failure = %+v", run.Failure)
			}
			if jobs := n1.given(); len(jobs) != 1 {
				t.Errorf("n1 received %d jobs, want 1", len(jobs))
			}
		})
	})
}

// stubborn is a queue that refuses withdrawals while refuses is set.
type stubborn struct {
	*memory.Queue
	refuses atomic.Bool
}

func (q *stubborn) Withdraw(ctx context.Context, node writ.NodeID, ids ...string) ([]string, error) {
	if q.refuses.Load() {
		return nil, writ.Errorf(writ.CodeQueueUnavailable, "injected failure")
	}
	return q.Queue.Withdraw(ctx, node, ids...)
}

// If the queue fails, it is unknown whether the node received a job, so the withdrawal is retried. The run keeps its
// waker until the queue answers.
func TestFailedWithdrawalIsRetried(t *testing.T) {
	for _, decision := range []string{"", "remove"} {
		t.Run(decision, func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				s.halt()
				way := &stubborn{Queue: s.queue}
				s.way = way
				s.start()
				n1 := s.workingNode("n1")
				n1.halt()
				way.refuses.Store(true)
				id := s.submit(oneVolume)
				s.awaitCall(id, 1, writ.CallQueued)
				n2 := s.realNode("n2")
				if decision != "" {
					s.decide(n1.id(), decision)
				}
				time.Sleep(70 * time.Second)
				if run, calls := s.look(id); run.State.Ended() || calls[0].NodeName != "n1" {
					t.Fatalf("run is %s: %+v, call on %s", run.State, run.Failure, calls[0].NodeName)
				}
				way.refuses.Store(false)
				if _, calls := s.wantState(id, writ.RunSucceeded); calls[0].NodeName != "n2" {
					t.Errorf("call ran on %s, want n2", calls[0].NodeName)
				}
				n2.wantEffectsOnce(1)
				if decision == "" {
					n1.start()
					time.Sleep(2 * time.Minute)
				}
				n1.wantEffectsOnce(0)
			})
		})
	}
}

// lateQueue is a queue that withdraws at once and answers only when answers is closed.
type lateQueue struct {
	*memory.Queue
	answers chan struct{}
}

func (q *lateQueue) Withdraw(ctx context.Context, node writ.NodeID, ids ...string) ([]string, error) {
	withdrawn, err := q.Queue.Withdraw(ctx, node, ids...)
	<-q.answers
	return withdrawn, err
}

// The queue may answer about the jobs of a lost node while the node is back for a moment. If the node is removed before
// it gets another delivery, the call moves: every delivery of it is known to be withdrawn.
func TestWithdrawnCallLeavesRemovedNode(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.halt()
		way := &lateQueue{s.queue, make(chan struct{})}
		s.way = way
		s.start()
		n1 := s.workingNode("n1")
		n1.halt()
		id := s.submit(oneVolume)
		s.awaitCall(id, 1, writ.CallQueued)
		time.Sleep(2 * time.Minute) // n1 is lost, and the answer is on its way
		n1.start()
		for s.lastAbout(n1.id()).Liveness != writ.LivenessReady {
			time.Sleep(10 * time.Millisecond)
		}
		close(way.answers)
		time.Sleep(100 * time.Millisecond)
		if _, calls := s.look(id); calls[0].State != writ.CallQueued || calls[0].Delivery != 1 || calls[0].Withdrawn != 1 {
			t.Fatalf("call is %s, delivery %d, %d withdrawn; want queued, 1 and 1", calls[0].State, calls[0].Delivery,
				calls[0].Withdrawn)
		}
		n1.halt()
		s.decide(n1.id(), "remove")
		n2 := s.realNode("n2")
		if _, calls := s.wantState(id, writ.RunSucceeded); calls[0].NodeName != "n2" {
			t.Errorf("call ran on %s, want n2", calls[0].NodeName)
		}
		n1.wantEffectsOnce(0)
		n2.wantEffectsOnce(1)
		s.wantAwake()
	})
}

// A run whose call is on a removed node waits for the answer of a slow queue. The watch does not report it.
func TestRunWaitsForSlowAnswerOfQueue(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.halt()
		way := &lateQueue{s.queue, make(chan struct{})}
		s.way = way
		s.start()
		n1 := s.workingNode("n1")
		n1.halt()
		id := s.submit(oneVolume)
		s.awaitCall(id, 1, writ.CallQueued)
		s.realNode("n2")
		s.decide(n1.id(), "remove")
		time.Sleep(time.Minute)
		if _, calls := s.look(id); calls[0].State != writ.CallQueued {
			t.Fatalf("call is %s, want queued", calls[0].State)
		}
		close(way.answers)
		s.wantState(id, writ.RunSucceeded)
	})
}

// A call whose job was received may have begun. It does not move by itself, whether its node reported it or not.
func TestDeliveredCallOfLostNodeStays(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n1 := s.join("n1", slowly(time.Hour))
		time.Sleep(5 * time.Second)
		n1.setSilent(true) // before it reports the start
		id := s.submit(oneVolume)
		for len(n1.given()) == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		n2 := s.join("n2")
		run, _ := s.wantState(id, writ.RunFailed)
		if run.Failure.Code != writ.CodeNodeLost || run.Failure.Node != n1.id || !strings.Contains(run.Failure.Hint, "writ node lost n1") {
			t.Errorf("failure = %+v", run.Failure)
		}
		if one, two := n1.given(), n2.given(); len(one) != 1 || len(two) != 0 {
			t.Errorf("n1 received %d jobs and n2 %d, want 1 and 0", len(one), len(two))
		}
	})
}

// A call that names its node stays with it.
func TestCallForLostNodeWaitsForIt(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n1 := s.workingNode("n1")
		n1.halt()
		id := s.submit(`volume := import("volume")` + "\n" + `volume.create("v", {size_gib: 1}, {node: "n1"})` + "\n")
		s.awaitCall(id, 1, writ.CallQueued)
		n2 := s.realNode("n2")
		time.Sleep(2 * time.Minute)
		if run, calls := s.look(id); run.State.Ended() || calls[0].State != writ.CallPlanned {
			t.Fatalf("run is %s, call is %s: %v", run.State, calls[0].State, calls[0].Error)
		}
		n1.start()
		s.wantState(id, writ.RunSucceeded)
		n1.wantEffectsOnce(1)
		n2.wantEffectsOnce(0)
	})
}

// Promise: Failures: The names of a lost node's resources are free once a person signed that the node never returns.
// How: The transaction of the `lost` statement removes its resources.
// Also: TestRemovedNodeKeepsItsResourceNames, TestRunsOfGoneNodeMoveOrEnd.
func TestGoneNodeFreesItsResourceNames(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n1 := s.realNode("n1")
		s.wantState(s.submit(oneVolume), writ.RunSucceeded)
		first := s.volume("v")
		n1.halt()
		time.Sleep(2 * time.Minute)
		waiting := s.submit(oneVolume) // its volume is on n1, which may return
		n2 := s.realNode("n2")
		time.Sleep(time.Minute)
		if run, _ := s.look(waiting); run.State.Ended() {
			t.Fatalf("run is %s: %+v, want it waiting", run.State, run.Failure)
		}
		s.decide(n1.id(), "lost")
		_, calls := s.wantState(waiting, writ.RunSucceeded)
		if calls[0].NodeName != "n2" {
			t.Errorf("call ran on %s, want n2", calls[0].NodeName)
		}
		n2.wantEffectsOnce(1)
		reported := false
		for _, e := range s.eventsOf("resource") {
			reported = reported || e.Resource.Deleted && e.Resource.UID == first.UID
		}
		if !reported {
			t.Error("no event reports the deleted volume")
		}
		for _, e := range s.eventsOf("node") {
			if e.Node.ID == n1.id() && e.Node.Admission == writ.AdmissionRemoved && !e.Node.Gone {
				t.Error("the event of the removed node does not report it as gone")
			}
		}
	})
}

// A non-repeatable call moves as well if its node never received it.
func TestUnstartedNonRepeatableCallMoves(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n1 := s.workingNode("n1")
		n1.halt()
		id := s.submit(`node := import("node")` + "\n" + `node.ping()` + "\n")
		s.awaitCall(id, 1, writ.CallQueued)
		n2 := s.realNode("n2")
		_, calls := s.wantState(id, writ.RunSucceeded)
		if calls[0].NodeName != "n2" || calls[0].KnownFailures != 1 {
			t.Errorf("call ran on %s with %d known failures, want n2 with 1", calls[0].NodeName, calls[0].KnownFailures)
		}
		n2.halt()
	})
}

// If the second node also dies before it receives the call, the call moves again.
func TestUndeliveredCallMovesRepeatedly(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n1 := s.workingNode("n1")
		n1.halt()
		id := s.submit(oneVolume)
		s.awaitCall(id, 1, writ.CallQueued)
		n2 := s.join("n2", func(n *testNode) { n.fault = "injected fault" })
		time.Sleep(90 * time.Second)
		n2.setSilent(true)
		time.Sleep(2 * time.Minute)
		n3 := s.realNode("n3")
		_, calls := s.wantState(id, writ.RunSucceeded)
		if calls[0].NodeName != "n3" {
			t.Errorf("call ran on %s, want n3", calls[0].NodeName)
		}
		n3.wantEffectsOnce(1)
	})
}

// The resources of a removed node may still run, so their names stay in use until a person signs that the node never
// returns.
func TestRemovedNodeKeepsItsResourceNames(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n1 := s.realNode("n1")
		s.wantState(s.submit(oneVolume), writ.RunSucceeded)
		s.realNode("n2")
		time.Sleep(2 * time.Second)
		s.decide(n1.id(), "remove")
		run, _ := s.wantState(s.submit(oneVolume), writ.RunFailed)
		if run.Failure.Code != writ.CodeNodeLost || run.Failure.Node != n1.id() || !strings.Contains(run.Failure.Hint, "writ node lost n1") {
			t.Errorf("failure = %+v", run.Failure)
		}
		s.decide(n1.id(), "lost")
		s.wantState(s.submit(oneVolume), writ.RunSucceeded)
	})
}

// Runs that wait for a node do not wait for a node that is gone. Calls that create resources move; others end with the
// reason.
func TestRunsOfGoneNodeMoveOrEnd(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n1 := s.realNode("n1")
		making := s.submit(`volume := import("volume")` + "\n" + `volume.create("slow-90-a", {size_gib: 1}, {on_loss: "wait"})` + "\n")
		acting := s.submit(strings.Replace(fmt.Sprintf(execScript, "slow-20-c"), `["work"]}`, `["work"]}, {on_loss: "wait"}`, 1))
		needing := s.submit(`
volume := import("volume")
machine := import("machine")
run := import("run")
v := volume.create("d", {size_gib: 1})
run.log(v.path)
machine.create("slow-90-m", {cpus: 1, memory_mib: 256, disks: [v]}, {on_loss: "wait"})
`)
		s.awaitCall(making, 1, writ.CallRunning)
		s.awaitCall(acting, 3, writ.CallRunning)
		s.awaitCall(needing, 2, writ.CallRunning)
		n1.halt()
		time.Sleep(3 * time.Minute)
		n2 := s.realNode("n2")
		time.Sleep(2 * time.Second)
		s.decide(n1.id(), "lost")
		if _, calls := s.wantState(making, writ.RunSucceeded); calls[0].NodeName != "n2" {
			t.Errorf("volume created on %s, want n2", calls[0].NodeName)
		}
		for name, id := range map[string]writ.RunID{"exec": acting, "call on a lost volume": needing} {
			run, _ := s.wantState(id, writ.RunFailed)
			if run.Failure.Code != writ.CodeNodeLost || !testenv.Mentions(run.Failure.Hint, "script") {
				t.Errorf("%s: %+v", name, run.Failure)
			}
		}
		n2.wantEffectsOnce(1)
	})
}

// When a run that failed with NODE_LOST is resumed, it continues on that node. It continues elsewhere only after a
// person signed that the node never returns. A removed node may still run its work.
//
// Promise: Recovery: A resume of a run that failed as `NODE_LOST` waits for the lost node and moves to another node
// only after a signed loss.
// How: The call keeps its node; one function decides about calls of lost and removed nodes.
func TestResumeStaysWithNodeUntilItIsGone(t *testing.T) {
	const script = `volume := import("volume")` + "\n" + `volume.create("slow-90-v", {size_gib: 1})` + "\n"
	for _, tt := range []struct {
		name   string
		before string // decision before the resume
		after  string // decision after the resume
		want   writ.RunState
	}{
		{"WhileItIsLost", "", "lost", writ.RunSucceeded},
		{"WhenItIsGone", "lost", "", writ.RunSucceeded},
		{"WhenItWasRemoved", "remove", "", writ.RunFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				n1 := s.realNode("n1")
				id := s.submit(script)
				s.awaitCall(id, 1, writ.CallRunning)
				n1.halt()
				if run, _ := s.wantState(id, writ.RunFailed); run.Failure.Code != writ.CodeNodeLost {
					t.Fatalf("failure = %+v", run.Failure)
				}
				n2 := s.realNode("n2")
				time.Sleep(2 * time.Second)
				if tt.before != "" {
					s.decide(n1.id(), tt.before)
				}
				if err := s.resume(id); err != nil {
					t.Fatal(err)
				}
				runs := []writ.RunID{id}
				if tt.after != "" {
					time.Sleep(2 * time.Second)           // the resumed run claims the name again
					runs = append(runs, s.submit(script)) // a second run for the same name
					time.Sleep(5 * time.Minute)
					for _, id := range runs {
						if run, calls := s.look(id); run.State.Ended() || calls[0].NodeName == "n2" {
							t.Fatalf("run is %s: %+v, call on %q", run.State, run.Failure, calls[0].NodeName)
						}
					}
					s.decide(n1.id(), tt.after)
				}
				for _, id := range runs {
					run, calls := s.wantRest(id, tt.want)
					if tt.want == writ.RunFailed {
						if run.Failure.Code != writ.CodeNodeLost || !strings.Contains(run.Failure.Hint, "writ node lost n1") {
							t.Errorf("failure = %+v", run.Failure)
						}
						n2.wantEffectsOnce(0)
					} else if calls[0].NodeName != "n2" {
						t.Errorf("call ran on %s, want n2", calls[0].NodeName)
					}
				}
			})
		})
	}
}

// given returns the jobs that the node received.
func (n *testNode) given() []writ.Job {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.jobs)
}
