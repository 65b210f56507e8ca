package redisqueue

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// credentials returns the function that go-redis calls before each connection.
func (q *Queue) credentials(name, password string) func(context.Context) (string, string, error) {
	return func(ctx context.Context) (string, string, error) {
		if q.Login == nil {
			return name, password, nil
		}
		refused := q.refused.Swap(false)
		own, secret, err := q.Login(ctx, refused)
		if err != nil {
			q.refused.CompareAndSwap(false, refused) // Login failed, so the next call must report this refusal
			return "", "", err
		}
		if own == "" {
			return name, password, nil
		}
		return own, secret, nil
	}
}

// refusalHook detects that Redis rejects a login or requires one.
type refusalHook struct{ refused *atomic.Bool }

func (h refusalHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h refusalHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		h.note(err)
		return err
	}
}

func (h refusalHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		h.note(err)
		return err
	}
}

func (h refusalHook) note(err error) {
	if redis.IsAuthError(err) {
		h.refused.Store(true)
	}
}
