// Package asynqpeer is bare asynq as a system to compare writ with: the queue that writ delivers with, and nothing else. It knows nothing of
// writ.
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
	// payloadSize is that of a small job.
	payloadSize = 256
	// producers enqueue at the same time what a run makes at once.
	producers = 64
)

// Peer carries out runs with one asynq server. Client and handlers are in one process, so that the end of a run is known at once.
//
// Without a journal a handler enqueues the next call itself, and nothing is recorded. With one, the client records each call before it
// enqueues it, and each result, which the handler sends through Redis, before it goes on: what a run needs at least so that it could be
// carried on by another process. The journal is a list for each run in the same Redis.
type Peer struct {
	Slots   int           // calls at a time
	Poll    time.Duration // mean time between two looks into the empty queue
	Journal bool

	redis *redis.Client
	tasks *asynq.Client
	order peer.Order
	epoch int64 // of the order, so that its runs are not those of another
	runs  []run
}

// run is one that is being carried out.
type run struct {
	left    atomic.Int64
	ended   chan struct{}
	results chan struct{} // with a journal
}

// Connect connects to a Redis, which belongs to the measurement: whatever is there is removed.
func (p *Peer) Connect(url string) (end func() error, err error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("understand the address of Redis: %w", err)
	}
	options.PoolSize = p.Slots + producers + 16 // nobody waits for a connection
	p.redis = redis.NewClient(options)
	return p.redis.Close, nil
}

// About implements peer.System.
func (p *Peer) About() peer.About {
	name := "asynq " + peer.Version("github.com/hibiken/asynq")
	if p.Journal {
		return peer.About{Name: name + " + journal", Durability: "calls and results in Redis, synced every second: a power failure takes up to a second of them"}
	}
	return peer.About{Name: name, Durability: "the queue in Redis, synced every second; of a run nothing is recorded"}
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

// orchestrate makes the calls of a run and records them, as it goes on.
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

// record appends to the journal of a run.
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

// enqueueAll enqueues n calls of a run, from several goroutines if there are many.
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

// results is the list that handlers send results with, and noMore what is sent after the last one.
const results, noMore = "results", "no more"

// handle is a call: it does nothing.
func (p *Peer) handle(ctx context.Context, t *asynq.Task) error {
	i, epoch := binary.BigEndian.Uint64(t.Payload()), binary.BigEndian.Uint64(t.Payload()[8:])
	if int64(epoch) != p.epoch || i >= uint64(len(p.runs)) {
		return fmt.Errorf("a call without an owner: %w", asynq.SkipRetry)
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
	return p.enqueue(ctx, int(i))
}

// receive takes results, as many as there are, and gives them to their runs, until there are no more.
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
