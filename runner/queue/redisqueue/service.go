package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"writ"
	"writ/internal/clip"
	"writ/internal/limit"
	"writ/runner/queue"
)

// handlersMayTake limits how long asynq waits for handlers during its shutdown before it returns their tasks to the
// queue. Serve waits for all handlers anyway, so the limit is longer than any handler takes.
const handlersMayTake = 24 * time.Hour

// lookAgain is asynq's mean pause after a request that returned no task. If the account of the node may not use BLMOVE,
// it is the pause between two polls (see prefetchers).
const lookAgain = 2 * time.Millisecond

// errStopping is the error of a task that was taken but not handled before Serve ended.
var errStopping = errors.New("the queue is being stopped")

// Serve implements queue.Queue. A node must have only one Serve at a time, in all processes together, because Serve
// starts by returning the active tasks of all other processes to the queue.
func (q *Queue) Serve(ctx context.Context, node writ.NodeID, slots int, handle queue.Handler) error {
	q.serving.Add(1)
	defer q.serving.Done()
	s := &service{queue: q, node: node, handle: handle, free: make(chan struct{}, max(slots, 1))}
	if !s.takeOver(ctx) {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.prefetcher = q.prefetchers.begin(ctx, node, cap(s.free))
	err := s.start(ctx)
	if err == nil {
		s.repairUntilEnd(ctx)
	}
	cancel()
	s.wait()
	if left := q.prefetchers.end(s.prefetcher); len(left) > 0 {
		slices.Reverse(left)
		_ = s.move(context.WithoutCancel(ctx), putBackScript, left) // after an error, the next Serve moves them
	}
	return err
}

// config returns the configuration of the asynq server.
func (s *service) config() asynq.Config {
	return asynq.Config{
		Queues:                   map[string]int{string(s.node): 1},
		Concurrency:              cap(s.free),
		TaskCheckInterval:        lookAgain,
		ShutdownTimeout:          handlersMayTake,
		DelayedTaskCheckInterval: 24 * time.Hour, // repairUntilEnd returns tasks to the queue, see repair.go
		IsFailure:                func(error) bool { return false },
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 0 },
		LogLevel:                 asynq.WarnLevel,
		Logger:                   &asynqLog{log: s.queue.log().With("node", s.node)},
	}
}

// service is one running Serve.
type service struct {
	queue      *Queue
	node       writ.NodeID
	handle     queue.Handler
	free       chan struct{} // one entry per used slot
	prefetcher *prefetcher   // nil until all tasks of the previous process are back in the queue
	handlers   sync.WaitGroup
	stopping   sync.WaitGroup
}

// start starts an asynq server, which stops when ctx ends. One server is enough, because it gets tasks one by one,
// mostly from memory.
func (s *service) start(ctx context.Context) error {
	server := asynq.NewServerFromRedisClient(s.queue.client, s.config())
	err := server.Start(asynq.HandlerFunc(func(asynqCtx context.Context, t *asynq.Task) error {
		return s.handleTask(ctx, asynqCtx, t)
	}))
	if err != nil {
		return fmt.Errorf("start asynq: %w", err)
	}
	s.stopping.Go(func() {
		<-ctx.Done()
		server.Stop()
		server.Shutdown()
	})
	return nil
}

// handleTask decodes a task and calls its handler. ctx is the context of Serve. The handler does not use asynq's
// context, which ends when the lease or the timeout of the task expires.
func (s *service) handleTask(ctx, asynqCtx context.Context, t *asynq.Task) error {
	id, _ := asynq.GetTaskID(asynqCtx)
	defer s.prefetcher.done(id)
	growStack(0)
	endBy, _ := strconv.ParseInt(t.Headers()[endHeader], 10, 64)
	return s.run(ctx, queue.Task{ID: id, Body: t.Payload(), EndBy: time.UnixMilli(endBy)})
}

// taskStack is the approximate stack size for handling a task, in bytes.
const taskStack = 12 << 10

// growStack grows the stack of a new goroutine to its final size at once, while it is almost empty. asynq starts a
// goroutine for each task, and growing stacks step by step, deep in calls whose frames must be copied, took a twentieth
// of a node's CPU time.
//
//go:noinline
func growStack(i int) byte {
	var room [taskStack]byte
	return room[i]
}

// run handles a task once, as soon as a slot is free. It returns nil if the task was handled, with any result. asynq
// also counts slots, but it frees the slot of a task that it gives up, even if the handler still runs.
func (s *service) run(ctx context.Context, task queue.Task) error {
	d, fresh := s.queue.deliveries.begin(s.node, task.ID)
	if !fresh {
		select {
		case <-d.done:
			return d.err
		case <-ctx.Done():
			return errStopping
		}
	}
	s.handlers.Add(1)
	defer s.handlers.Done()
	select {
	case s.free <- struct{}{}:
		defer func() { <-s.free }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		s.queue.deliveries.abandon(s.node, task.ID, d, errStopping)
		return errStopping
	}
	s.handle.Handle(ctx, s.queue.log(), task)
	close(d.done)
	return nil
}

// wait returns when asynq has stopped and every handler has returned, including handlers that asynq has given up.
func (s *service) wait() {
	s.stopping.Wait()
	s.handlers.Wait()
}

// asynqLog forwards log messages of asynq at a limited rate: during an outage of Redis, asynq repeats them many times a
// second.
type asynqLog struct {
	log   *slog.Logger
	lines limit.Lines
}

func (l *asynqLog) Debug(...any) {}

func (l *asynqLog) Info(...any) {}

func (l *asynqLog) Warn(args ...any) { l.warn(args) }

func (l *asynqLog) Error(args ...any) { l.warn(args) }

func (l *asynqLog) Fatal(args ...any) { l.warn(args) } // asynq itself continues

// maxLogged limits the bytes of a message of asynq: the message may contain the ID of a task, which an attacker may
// have chosen.
const maxLogged = 1 << 10

func (l *asynqLog) warn(args []any) {
	if times, say := l.lines.Say("", time.Now()); say {
		l.log.Warn("asynq reports an error", "err", clip.Text(fmt.Sprint(args...), maxLogged), "times", times)
	}
}

// Options of every task. asynq would archive a task without retries forever if its process died. Without a timeout, it
// would cancel the task's context after 30 minutes and give the task to another process. IsFailure is always false
// here, so retries are never used up.
const (
	taskType   = "job"
	maxRetries = 10
	afterEnd   = time.Hour // between a task's end-by and its timeout; handlers end by themselves long before
	endHeader  = "end-by"  // Unix time in milliseconds
)

// asynqClient adds tasks to queues.
type asynqClient = asynq.Client

func newAsynqClient(client *redis.Client) *asynqClient { return asynq.NewClientFromRedisClient(client) }

// enqueue adds a task to the queue of a node, unless a task with this ID exists.
func enqueue(ctx context.Context, client *asynqClient, node writ.NodeID, t queue.Task) error {
	headers := map[string]string{endHeader: strconv.FormatInt(t.EndBy.UnixMilli(), 10)}
	_, err := client.EnqueueContext(ctx, asynq.NewTaskWithHeaders(taskType, t.Body, headers),
		asynq.Queue(string(node)),
		asynq.TaskID(t.ID),
		asynq.MaxRetry(maxRetries),
		asynq.Timeout(max(time.Until(t.EndBy), 0)+afterEnd),
		asynq.Retention(0),
	)
	if errors.Is(err, asynq.ErrTaskIDConflict) {
		return nil
	}
	return err
}
