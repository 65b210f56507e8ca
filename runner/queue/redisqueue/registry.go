package redisqueue

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// asynq 0.26 keeps a register of all its servers and of what each works on, payloads included, in keys that every server writes; for
// tools to show, and for nothing that a queue needs. It is left out here: a node that could write there could read there what others
// do. The same goes for groups of tasks, which nothing here makes, and after whose leftovers asynq looks every minute. registryHook answers the
// commands for both, so that nothing is sent.
type registryHook struct{}

func (registryHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (registryHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if forRegistry(cmd) {
			return nil
		}
		return next(ctx, cmd)
	}
}

func (registryHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// forRegistry reports whether a command is for the register alone, or for groups.
func forRegistry(cmd redis.Cmder) bool {
	place := 1
	switch cmd.Name() {
	case "zadd", "zrem":
	case "eval", "evalsha":
		place = 3 // the first key, after the script and their number
	default:
		return false
	}
	args := cmd.Args()
	if place >= len(args) {
		return false
	}
	key, _ := args[place].(string)
	return strings.HasPrefix(key, "asynq:servers") || strings.HasPrefix(key, "asynq:workers") || strings.HasSuffix(key, "}:aggregation_sets")
}
