package supervisor_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"writ"
	"writ/runner/queue"
	"writ/runner/queue/memory"
)

// process is one incarnation of a supervisor or runner, from its start until it is killed.
type process struct {
	sim       *simulation
	name      string
	node      *simNode // nil for a supervisor
	queue     *memory.Queue
	stop      context.CancelFunc
	ended     chan error
	gone      chan struct{} // closed when the simulation removes the process
	dead      atomic.Bool
	heard     atomic.Int64                  // start of its connection to the queue, in unix nanoseconds of virtual time
	suspended atomic.Pointer[chan struct{}] // closed when it resumes; nil if it was never suspended

	mu   sync.Mutex
	luck *rand.Rand
}

// reportEnd reports that the process has ended, by itself or because it was killed.
func (p *process) reportEnd(err error) {
	p.ended <- err
	p.sim.crashed <- p
}

// chance returns true with the given probability, and false once the faults are over.
func (p *process) chance(probability float64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.sim.calm.Load() && p.luck.Float64() < probability
}

func (p *process) upTo(d time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Duration(p.luck.Int64N(int64(d)))
}

// crash kills the process with the given probability. A killed process does not continue.
func (p *process) crash(ctx context.Context, probability float64) error {
	if !p.chance(probability) && !p.dead.Load() {
		return nil
	}
	p.die()
	select {
	case <-p.gone:
	case <-ctx.Done():
	}
	return context.Canceled
}

// die ends the process. The simulation removes it later.
func (p *process) die() {
	if p.dead.CompareAndSwap(false, true) {
		p.queue.Close()
		p.sim.crashed <- p
	}
}

// hears reports whether the process is alive and has been connected to the queue for a while.
func (p *process) hears(since time.Duration) bool {
	return !p.dead.Load() && time.Now().UnixNano()-p.heard.Load() > int64(since)
}

// waitIfSuspended blocks while the process is suspended.
func (p *process) waitIfSuspended(ctx context.Context) error {
	awake := p.suspended.Load()
	if awake == nil {
		return nil
	}
	select {
	case <-*awake:
		return nil
	case <-p.gone:
	case <-ctx.Done():
	}
	return context.Canceled
}

// shakyQueue is the queue of one process. It randomly loses, repeats, delays and rejects messages, or kills the
// process.
type shakyQueue struct {
	*memory.Queue
	process *process
}

const (
	crashes  = 0.0005
	mishaps  = 0.01 // of each kind of fault
	mostLate = 8 * time.Second
)

var errAway = writ.Errorf(writ.CodeQueueUnavailable, "the queue is temporarily unavailable")

// change performs a write with random faults.
func (q *shakyQueue) change(ctx context.Context, do func(ctx context.Context, again bool) error) error {
	if err := q.process.crash(ctx, crashes); err != nil {
		return err
	}
	if err := q.process.waitIfSuspended(ctx); err != nil {
		return err
	}
	switch {
	case q.process.chance(mishaps):
		return errAway // not written, error returned
	case q.process.chance(mishaps):
		return nil // not written, success returned
	case q.process.chance(mishaps):
		do(ctx, false)
		return errAway // written, error returned
	case q.process.chance(mishaps):
		late := q.process.upTo(mostLate)
		q.process.sim.late.Go(func() {
			time.Sleep(late)
			do(context.WithoutCancel(ctx), false)
		})
		return nil
	case q.process.chance(mishaps):
		do(ctx, false)
		return do(ctx, true)
	}
	if err := do(ctx, false); err != nil {
		return err
	}
	return q.process.crash(ctx, crashes)
}

func (q *shakyQueue) Push(ctx context.Context, node writ.NodeID, tasks ...queue.Task) error {
	if q.process.suspended.Load() == nil {
		q.process.sim.checkPlacement(q.process, node, tasks)
		q.process.sim.checkHold(q.process, tasks)
	}
	return q.change(ctx, func(ctx context.Context, again bool) error {
		if again { // a redelivery; the queue would drop a second task with the same id
			tasks = append([]queue.Task(nil), tasks...)
			for i := range tasks {
				tasks[i].ID += "-again"
			}
		}
		return q.Queue.Push(ctx, node, tasks...)
	})
}

func (q *shakyQueue) Send(ctx context.Context, stream queue.Stream, body []byte) error {
	return q.change(ctx, func(ctx context.Context, _ bool) error { return q.Queue.Send(ctx, stream, body) })
}

func (q *shakyQueue) Acknowledge(ctx context.Context, messages ...queue.Message) error {
	return q.change(ctx, func(ctx context.Context, _ bool) error { return q.Queue.Acknowledge(ctx, messages...) })
}

func (q *shakyQueue) Receive(ctx context.Context, wait time.Duration, streams ...queue.Stream) ([]queue.Message, error) {
	if err := q.process.waitIfSuspended(ctx); err != nil {
		return nil, err
	}
	messages, err := q.Queue.Receive(ctx, wait, streams...)
	if err != nil || len(messages) == 0 {
		return messages, err
	}
	return messages, q.process.crash(ctx, crashes)
}

func (q *shakyQueue) Withdraw(ctx context.Context, node writ.NodeID, ids ...string) ([]string, error) {
	if q.process.chance(mishaps) {
		return nil, errAway
	}
	return q.Queue.Withdraw(ctx, node, ids...)
}

func (q *shakyQueue) Missing(ctx context.Context, node writ.NodeID, ids ...string) ([]string, error) {
	if q.process.chance(mishaps) {
		return nil, errAway
	}
	return q.Queue.Missing(ctx, node, ids...)
}
