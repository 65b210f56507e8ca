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

// notifyingDriver is a volume driver whose jobs take half a minute. It sends the start of each job to begins.
type notifyingDriver struct {
	simDriver
	begins chan time.Time
}

func (d *notifyingDriver) Do(ctx context.Context, r sal.Request) (sal.Outcome, error) {
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
	for _, away := range []time.Duration{time.Second, 20 * time.Second} { // the node still counts as ready, or as silent
		t.Run(away.String(), func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				d := &notifyingDriver{simDriver: simDriver{newSimHost(1), "volume"}, begins: make(chan time.Time, 10)}
				n := s.realNode("n1", func(n *realNode) { n.drivers = []sal.Driver{d} })
				id := s.submit(oneVolume)
				<-d.begins
				n.halt()
				time.Sleep(away)
				back := time.Now()
				n.start()
				if took := (<-d.begins).Sub(back); took > continueLimit {
					t.Errorf("the job restarted %s after the return of its runner", took)
				}
				s.wantState(id, writ.RunSucceeded)
			})
		})
	}
}

// recordingQueue is a queue that records the calls of a supervisor.
type recordingQueue struct {
	queue.Queue
	mu   sync.Mutex
	done []string
}

func (q *recordingQueue) note(what string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.done = append(q.done, what)
}

func (q *recordingQueue) Send(ctx context.Context, stream queue.Stream, body []byte) error {
	q.note("tell")
	return q.Queue.Send(ctx, stream, body)
}

func (q *recordingQueue) Push(ctx context.Context, node writ.NodeID, tasks ...queue.Task) error {
	q.note("job")
	return q.Queue.Push(ctx, node, tasks...)
}

// The node sends no beats, so only the start of the supervisor can cause a control message.
func TestNewSupervisorIsAnnouncedBeforeJobs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newCluster(t)
		q := &recordingQueue{Queue: s.queue}
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
		if announced, sent := slices.Index(q.done, "tell"), slices.Index(q.done, "job"); announced < 0 || sent < 0 || announced > sent {
			t.Errorf("calls of the new supervisor = %v, want a message before the first job", q.done)
		}
	})
}
