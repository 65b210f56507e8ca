package supervisor_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"writ"
	"writ/runner/queue"
	"writ/sal"
)

// noted is a driver of volumes that tells when it begins with something, which takes it half a minute.
type noted struct {
	simDriver
	begins chan time.Time
}

func (d *noted) Do(ctx context.Context, r sal.Request) (sal.Outcome, error) {
	d.begins <- time.Now()
	select {
	case <-time.After(30 * time.Second):
		change, err := d.host.effect(r, keyOf(r.Key))
		return sal.Outcome{Change: change, Values: answerOf(r)}, err
	case <-ctx.Done():
		return sal.Outcome{}, ctx.Err()
	}
}

// Promise: Failures: A job of a killed runner restarts within 5 s of the runner's return, and a run continues within
// 5 s of its supervisor's return.
// How: A node knows its started jobs, and a supervisor its sent jobs; two checks, a second apart, find lost jobs.
// Also: TestReturningSupervisorContinuesWork, TestRecovery.
func TestReturningRunnerRepeatsItsJobSoon(t *testing.T) {
	for _, away := range []time.Duration{time.Second, 20 * time.Second} { // while the node counts as ready, and as silent
		t.Run(away.String(), func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				d := &noted{simDriver: simDriver{newSimHost(1), "volume"}, begins: make(chan time.Time, 10)}
				n := s.realNode("n1", func(n *realNode) { n.drivers = []sal.Driver{d} })
				id := s.submit(oneVolume)
				<-d.begins
				n.halt()
				time.Sleep(away)
				back := time.Now()
				n.start()
				if took := (<-d.begins).Sub(back); took > goesOnWithin {
					t.Errorf("the job runs again %s after the return of its runner", took)
				}
				s.wantState(id, writ.RunSucceeded)
			})
		})
	}
}

// listed is a queue that notes what a supervisor does with it.
type listed struct {
	queue.Queue
	mu   sync.Mutex
	done []string
}

func (q *listed) note(what string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.done = append(q.done, what)
}

func (q *listed) Send(ctx context.Context, stream queue.Stream, body []byte) error {
	q.note("tell")
	return q.Queue.Send(ctx, stream, body)
}

func (q *listed) Push(ctx context.Context, node writ.NodeID, tasks ...queue.Task) error {
	q.note("job")
	return q.Queue.Push(ctx, node, tasks...)
}

// The node does not beat, so that nothing but the start of the supervisor is a reason to tell it something.
func TestANodeHearsOfASupervisorBeforeItsFirstJob(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := found(t)
		q := &listed{Queue: s.queue}
		s.way = q
		s.start()
		n := s.join("n1", slowly(20*time.Minute))
		id := s.submit(oneVolume)
		s.awaitCall(id, 1, writ.CallRunning)
		s.halt()
		n.setSilent(true)
		q.done = nil
		s.start()
		time.Sleep(time.Second)
		q.mu.Lock()
		defer q.mu.Unlock()
		if told, sent := slices.Index(q.done, "tell"), slices.Index(q.done, "job"); told < 0 || sent < 0 || told > sent {
			t.Errorf("the new supervisor did %v", q.done)
		}
	})
}
