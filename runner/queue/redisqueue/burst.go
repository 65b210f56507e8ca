package redisqueue

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// burst sends the tasks of one Push in one round trip, in order, although asynq's client knows single tasks only: each is enqueued in
// a goroutine whose command joins the burst instead of being sent, and waits there until all are.
type burst struct {
	joined chan *joinedCmd // one command at a time
}

// joinedCmd is a command in a burst.
type joinedCmd struct {
	redis.Cmder
	sent chan struct{} // closed when it has its reply
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
		c := &joinedCmd{cmd, make(chan struct{})}
		b.joined <- c
		<-c.sent
		return cmd.Err()
	}
}

// together runs do for 0 to n-1 so that the one script that each of them calls with the given context is sent with those of the
// others. It returns the first error.
func together(ctx context.Context, client *redis.Client, n int, do func(ctx context.Context, i int) error) error {
	b := &burst{joined: make(chan *joinedCmd)}
	joint := context.WithValue(ctx, burstKey{}, b)
	ended := make(chan error, n)
	var first error
	note := func(err error) {
		if err != nil && first == nil {
			first = err
		}
	}
	var waiting []*joinedCmd
	for i := range n {
		go func() { ended <- do(joint, i) }()
		select { // the next one begins when this one's command has its place
		case cmd := <-b.joined:
			waiting = append(waiting, cmd)
		case err := <-ended: // it did not get as far as its command
			note(err)
		}
	}
	send(ctx, client, waiting)
	if len(waiting) > 1 && redis.HasErrorPrefix(waiting[0].Err(), "NOSCRIPT") {
		// Redis does not know the script yet. The first one brings it, as go-redis does by itself; the others follow it, in order.
		close(waiting[0].sent)
		note(<-ended)
		waiting = waiting[1:]
		send(ctx, client, waiting)
	}
	for _, cmd := range waiting {
		close(cmd.sent)
	}
	for range waiting {
		note(<-ended)
	}
	return first
}

// send makes one round trip. Each command has its own error afterwards.
func send(ctx context.Context, client *redis.Client, commands []*joinedCmd) {
	pipe := client.Pipeline()
	for _, cmd := range commands {
		cmd.SetErr(nil)
		_ = pipe.Process(ctx, cmd.Cmder)
	}
	_, _ = pipe.Exec(ctx)
}
