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

// process is one life of a supervisor or runner: between its start and the moment that it is killed.
type process struct {
	sim   *simulation
	name  string
	node  *simNode // nil of a supervisor
	queue *memory.Queue
	stop  context.CancelFunc
	ended chan error
	gone  chan struct{} // closed when it is being taken away
	dead  atomic.Bool
	heard atomic.Int64                  // since when it can be heard, and hears, in unix nanoseconds of virtual time
	still atomic.Pointer[chan struct{}] // closed when it goes on; nil if it never stood still

	mu   sync.Mutex
	luck *rand.Rand
}

// over says that the process has ended, by itself or not.
func (p *process) over(err error) {
	p.ended <- err
	p.sim.crashed <- p
}

// chance reports whether something of that probability happens, never once faults are over.
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

// crash kills the process here, now and then: nothing of what it would do next happens.
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

// die ends the process; the simulation takes it away.
func (p *process) die() {
	if p.dead.CompareAndSwap(false, true) {
		p.queue.Close()
		p.sim.crashed <- p
	}
}

// hears reports whether the process is alive, and could hear and be heard for a while.
func (p *process) hears(since time.Duration) bool {
	return !p.dead.Load() && time.Now().UnixNano()-p.heard.Load() > int64(since)
}

// stand waits while the process stands still.
func (p *process) stand(ctx context.Context) error {
	awake := p.still.Load()
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

// shakyQueue is a process's way to the transport: it loses, repeats, delays and refuses, and now and then the process dies there.
type shakyQueue struct {
	*memory.Queue
	process *process
}

const (
	crashes  = 0.0005
	mishaps  = 0.01 // of each kind
	mostLate = 8 * time.Second
)

var errAway = writ.Errorf(writ.CodeQueueUnavailable, "the transport is away for a moment")

// change does something to the transport that may go wrong in every way.
func (q *shakyQueue) change(ctx context.Context, do func(ctx context.Context, again bool) error) error {
	if err := q.process.crash(ctx, crashes); err != nil {
		return err
	}
	if err := q.process.stand(ctx); err != nil {
		return err
	}
	switch {
	case q.process.chance(mishaps):
		return errAway // it did not happen
	case q.process.chance(mishaps):
		return nil // nor this, and nobody knows
	case q.process.chance(mishaps):
		do(ctx, false)
		return errAway // it happened, and nobody knows
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
	if q.process.still.Load() == nil {
		q.process.sim.checkPlacement(q.process, node, tasks)
		q.process.sim.checkHold(q.process, tasks)
	}
	return q.change(ctx, func(ctx context.Context, again bool) error {
		if again { // as one that was taken and comes again: under the same name the queue would drop it
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
	if err := q.process.stand(ctx); err != nil {
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
