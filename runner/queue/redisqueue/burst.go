package redisqueue

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// burst sends the tasks of one Push in one round trip, in order, although asynq's client knows single tasks only: the script of each joins
// the burst instead of being sent, and asynq is told that it put the task there. What Redis says of all of them comes later. Whether a task
// was there already makes no difference to Push, and of errors it hears itself.
type burst struct {
	scripts []*redis.Cmd
}

type burstKey struct{}

// burstHook takes scripts whose context has a burst.
type burstHook struct{}

func (burstHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (burstHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (burstHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		b, _ := ctx.Value(burstKey{}).(*burst)
		script, ok := cmd.(*redis.Cmd)
		if b == nil || !ok || cmd.Name() != "evalsha" {
			return next(ctx, cmd)
		}
		script.SetVal(int64(1)) // that a task is new
		b.scripts = append(b.scripts, script)
		return nil
	}
}

// together runs do for 0 to n-1 so that the one script that each of them calls with the given context is sent with those of the others. It
// returns the first error. There is at least one.
func together(ctx context.Context, client *redis.Client, n int, do func(ctx context.Context, i int) error) (first error) {
	b := &burst{scripts: make([]*redis.Cmd, 0, n)}
	joint := context.WithValue(ctx, burstKey{}, b)
	for i := range n {
		if err := do(joint, i); err != nil && first == nil { // it did not get as far as its script
			first = err
		}
	}
	send(ctx, client, b.scripts)
	if first == nil && redis.HasErrorPrefix(b.scripts[0].Err(), "NOSCRIPT") {
		// Redis does not know the script yet. The first one brings it, as go-redis does by itself; the others follow it, in order.
		if err := do(ctx, 0); err != nil {
			return err
		}
		b.scripts = b.scripts[1:]
		send(ctx, client, b.scripts)
	}
	for _, script := range b.scripts {
		if err := script.Err(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// send makes one round trip. Each script has its own error afterwards.
func send(ctx context.Context, client *redis.Client, scripts []*redis.Cmd) {
	pipe := client.Pipeline()
	for _, script := range scripts {
		script.SetErr(nil)
		_ = pipe.Process(ctx, script)
	}
	_, _ = pipe.Exec(ctx)
}
