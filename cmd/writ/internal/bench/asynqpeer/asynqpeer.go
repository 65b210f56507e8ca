// Package asynqpeer runs the benchmark workload on bare asynq, the queue that writ uses for delivery. This package must
// not know writ.
package asynqpeer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"writ/cmd/writ/internal/bench/peer"
)

const (
	queueName = "bench"
	taskType  = "step"
	// payloadSize is the size of a small job in bytes.
	payloadSize = 256
	// producers limits concurrent enqueuing per run.
	producers = 64
)

// Peer runs calls on one asynq server. Client and handlers share a process, so the client learns the end of a run at
// once.
//
// Without a journal, a handler enqueues the next call itself and no call or result is recorded. With a journal, the
// client records each call before it enqueues the call. It also records each result, which the handler sends through
// Redis, before it continues the run. These records are the minimum that another process needs to continue a run. The
// journal is a list per run in the same Redis.
type Peer struct {
	Slots   int           // concurrent calls
	Poll    time.Duration // mean interval between polls of an empty queue
	Journal bool

	redis *redis.Client
	tasks *asynq.Client
	order peer.Order
	epoch int64 // number of the current order; calls of earlier orders are rejected
	runs  []run
}

// run is a run in progress.
type run struct {
	left    atomic.Int64
	ended   chan struct{}
	results chan struct{} // used with a journal only
}

// Connect connects to a Redis instance that is only for the measurement: Begin deletes its content.
func (p *Peer) Connect(url string) (end func() error, err error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("understand the address of Redis: %w", err)
	}
	options.PoolSize = p.Slots + producers + 16 // enough connections for all goroutines
	p.redis = redis.NewClient(options)
	return p.redis.Close, nil
}

// About implements peer.System.
func (p *Peer) About() peer.About {
	name := "asynq " + peer.Version("github.com/hibiken/asynq")
	if p.Journal {
		return peer.About{Name: name + " + journal", Durability: "calls and results in Redis, synced every second: a power failure loses those of the last second"}
	}
	return peer.About{Name: name, Durability: "the queue in Redis, synced every second; runs are not recorded"}
}

// Begin starts the server.
func (p *Peer) Begin(ctx context.Context, o peer.Order) (end func() error, err error) {
	p.order, p.runs, p.epoch = o, make([]run, o.Runs), p.epoch+1
	p.tasks = asynq.NewClientFromRedisClient(p.redis)
	if err := p.redis.FlushDB(ctx).Err(); err != nil {
		return nil, fmt.Errorf("begin with an empty Redis: %w", err)
	}
	for i := range p.runs {
		r := &p.runs[i]
		r.left.Store(int64(o.Calls))
		r.ended, r.results = make(chan struct{}), make(chan struct{}, o.Calls)
	}
	server := asynq.NewServerFromRedisClient(p.redis, asynq.Config{
		Queues: map[string]int{queueName: 1}, Concurrency: p.Slots, TaskCheckInterval: p.Poll, LogLevel: asynq.FatalLevel,
	})
	if err := server.Start(asynq.HandlerFunc(p.handle)); err != nil {
		return nil, fmt.Errorf("start asynq: %w", err)
	}
	if !p.Journal {
		return func() error { server.Shutdown(); return nil }, nil
	}
	received := make(chan error, 1)
	go func() { received <- p.receive(ctx) }()
	return func() error {
		server.Shutdown()
		if err := p.redis.LPush(ctx, results, noMore).Err(); err != nil {
			return fmt.Errorf("end receiving: %w", err)
		}
		return <-received
	}, nil
}

// Run implements peer.System.
func (p *Peer) Run(ctx context.Context, i int) error {
	r := &p.runs[i]
	if p.Journal {
		if err := p.orchestrate(ctx, i); err != nil {
			return err
		}
	} else {
		first := 1
		if p.order.AtOnce {
			first = p.order.Calls
		}
		if err := p.enqueueAll(ctx, i, first); err != nil {
			return err
		}
	}
	select {
	case <-r.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// orchestrate makes the calls of a run and records calls and results.
func (p *Peer) orchestrate(ctx context.Context, i int) error {
	calls, batch := p.order.Calls, 1
	if p.order.AtOnce {
		batch = calls
	}
	for made := 0; made < calls; made += batch {
		if err := p.record(ctx, i, "call", batch); err != nil {
			return err
		}
		if err := p.enqueueAll(ctx, i, batch); err != nil {
			return err
		}
		for range batch {
			select {
			case <-p.runs[i].results:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if err := p.record(ctx, i, "result", 1); err != nil {
				return err
			}
		}
	}
	return nil
}

// record appends entries to the journal of a run.
func (p *Peer) record(ctx context.Context, i int, what string, n int) error {
	rows := make([]any, n)
	for row := range rows {
		rows[row] = append([]byte(what), make([]byte, payloadSize)...)
	}
	if err := p.redis.RPush(ctx, "journal:"+p.id(i), rows...).Err(); err != nil {
		return fmt.Errorf("record a %s: %w", what, err)
	}
	return nil
}

func (p *Peer) id(i int) string { return strconv.FormatInt(p.epoch, 10) + ":" + strconv.Itoa(i) }

// enqueueAll enqueues n calls of a run, concurrently if n > 1.
func (p *Peer) enqueueAll(ctx context.Context, i, n int) error {
	if n == 1 {
		return p.enqueue(ctx, i)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(producers)
	for range n {
		group.Go(func() error { return p.enqueue(ctx, i) })
	}
	return group.Wait()
}

func (p *Peer) enqueue(ctx context.Context, i int) error {
	body := make([]byte, payloadSize)
	binary.BigEndian.PutUint64(body, uint64(i))
	binary.BigEndian.PutUint64(body[8:], uint64(p.epoch))
	_, err := p.tasks.EnqueueContext(ctx, asynq.NewTask(taskType, body), asynq.Queue(queueName), asynq.MaxRetry(3), asynq.Timeout(time.Minute))
	return err
}

// Handlers send results through the list results. noMore is its last element.
const results, noMore = "results", "no more"

// handle runs a call. A call does no work.
func (p *Peer) handle(ctx context.Context, t *asynq.Task) error {
	i, epoch := binary.BigEndian.Uint64(t.Payload()), binary.BigEndian.Uint64(t.Payload()[8:])
	if int64(epoch) != p.epoch || i >= uint64(len(p.runs)) {
		return fmt.Errorf("the call is not of this order: %w", asynq.SkipRetry)
	}
	if p.Journal {
		return p.redis.LPush(ctx, results, t.Payload()).Err()
	}
	r := &p.runs[i]
	left := r.left.Add(-1)
	if left == 0 {
		close(r.ended)
		return nil
	}
	if p.order.AtOnce {
		return nil
	}
	if err := p.enqueue(ctx, int(i)); err != nil {
		r.left.Add(1) // asynq repeats this call
		return err
	}
	return nil
}

// receive reads results in batches and passes them to their runs, until it reads noMore.
func (p *Peer) receive(ctx context.Context) error {
	for {
		first, err := p.redis.BRPop(ctx, time.Second, results).Result()
		if errors.Is(err, redis.Nil) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return fmt.Errorf("receive results: %w", err)
		}
		if first[1] == noMore {
			return nil
		}
		more, err := p.redis.RPopCount(ctx, results, producers).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return fmt.Errorf("receive results: %w", err)
		}
		for _, body := range append(more, first[1]) {
			r := &p.runs[binary.BigEndian.Uint64([]byte(body))]
			r.results <- struct{}{}
			if r.left.Add(-1) == 0 {
				close(r.ended)
			}
		}
	}
}
