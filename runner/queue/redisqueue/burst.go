package redisqueue

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// burst sends the tasks of one Push in one round trip, in order, although asynq's client knows single tasks only: each is enqueued in
// a goroutine whose command joins the burst instead of being sent, and waits there until all are.
type burst struct {
	joined chan redis.Cmder // one command at a time
	sent   chan struct{}    // closed when the commands have their replies
}

type burstKey struct{}

// burstHook takes commands whose context has a burst.
type burstHook struct{}

func (burstHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (burstHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (burstHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		b, ok := ctx.Value(burstKey{}).(*burst)
		if !ok || cmd.Name() != "evalsha" {
			return next(ctx, cmd)
		}
		b.joined <- cmd
		<-b.sent
		return cmd.Err()
	}
}

// together runs do for 0 to n-1 so that the one script that each of them calls with the given context is sent with those of the
// others. It returns the first error.
func together(ctx context.Context, client *redis.Client, n int, do func(ctx context.Context, i int) error) error {
	b := &burst{joined: make(chan redis.Cmder), sent: make(chan struct{})}
	joint := context.WithValue(ctx, burstKey{}, b)
	ended := make(chan error, n)
	pipe := client.Pipeline()
	var first error
	waiting := 0
	for i := range n {
		go func() { ended <- do(joint, i) }()
		select { // the next one begins when this one's command has its place
		case cmd := <-b.joined:
			_ = pipe.Process(ctx, cmd)
			waiting++
		case err := <-ended: // it did not get as far as its command
			if first == nil {
				first = err
			}
		}
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	close(b.sent)
	for range waiting {
		if err := <-ended; err != nil && first == nil {
			first = err
		}
	}
	return first
}
