package supervisor_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/runner/queue"
)

// blind is a queue that cannot list the jobs of one node.
type blind struct {
	queue.Queue
	node writ.NodeID
}

func (q *blind) Missing(ctx context.Context, node writ.NodeID, ids ...string) ([]string, error) {
	if node == q.node {
		return nil, writ.Errorf(writ.CodeQueueUnavailable, "this part of the queue is corrupted")
	}
	return q.Queue.Missing(ctx, node, ids...)
}

// Promise: Limits and shares: A node cannot disturb the queue of another node.
// How: The supervisor reads one queue after the other; an error affects only its queue.
func TestQueueOfOneNodeStopsNoOtherNode(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newCluster(t)
		q := &blind{Queue: s.queue}
		s.way = q
		s.start()
		bad := s.join("bad", slowly(20*time.Minute), func(n *testNode) { n.slots = 1 })
		failed := false
		s.join("good", func(n *testNode) {
			n.act = func(ctx context.Context, job writ.Job) writ.Result {
				if !failed {
					failed = true
					return writ.Result{Error: writ.Errorf(writ.CodeInjected, "once")}
				}
				return succeed(ctx, job)
			}
		})
		q.node = bad.id
		const ping = "node := import(\"node\")\n"
		s.submit(ping + "for i := 0; i < 2; i++ { node.ping({}, {node: \"bad\", timeout: \"10m\"}) }\n")
		time.Sleep(3 * time.Second) // one job waits in the queue
		began := time.Now()
		s.wantState(s.submit(ping+"node.ping({}, {node: \"good\"})\n"), writ.RunSucceeded)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the run on the other node ended after %s, want at most 10 s", took)
		}
	})
}

// A supervisor that is missing in the backup started while the clock was two hours ahead. Now the clock is correct.
//
// Promise: Limits and shares: A node that obeys a later supervisor gets no work, and `writ node show` gives the
// reason.
// How: Beats carry the highest epoch that the node knows.
func TestNodeOfLaterEpochGetsNoWork(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		const ping = "node := import(\"node\")\nnode.ping()\n"
		n := s.realNode("n1")
		time.Sleep(2 * time.Second)
		restore := s.backup()
		s.halt()
		s.clock.set(2 * time.Hour)
		s.start()
		s.wantState(s.submit(ping), writ.RunSucceeded)
		s.halt()
		s.clock.set(0)
		restore()
		s.start()

		id := s.submit(ping)
		time.Sleep(10 * time.Minute)
		if fault := s.lastNode().Fault; !strings.Contains(fault, "EPOCH_AHEAD") {
			t.Errorf("fault of the node = %q", fault)
		}
		if run, calls := s.look(id); run.State.Ended() || calls[0].Delivery > 3 || !strings.Contains(calls[0].Why.String(), "EPOCH_AHEAD") {
			t.Errorf("run is %s, call delivered %d times: %q", run.State, calls[0].Delivery, calls[0].Why.String())
		}
		n.halt()
		s.halt()
		time.Sleep(3 * time.Hour)
		s.start()
		n.start()
		s.wantState(s.submit(ping), writ.RunSucceeded)
	})
}
