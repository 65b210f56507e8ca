package redisqueue

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// asynq 0.26 keeps a registry of all its servers and their current tasks, including payloads, in keys that every server
// writes. Only display tools need the registry. registryHook suppresses it, because a node with access to these keys
// could read the data of other nodes. It also suppresses groups of tasks, which writ does not use and which asynq
// checks every minute. It answers the commands for both without sending them.
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

// forRegistry reports whether a command is only for the registry or for groups.
func forRegistry(cmd redis.Cmder) bool {
	place := 1
	switch cmd.Name() {
	case "zadd", "zrem":
	case "eval", "evalsha":
		place = 3 // index of the first key, after the script and the key count
	default:
		return false
	}
	args := cmd.Args()
	if place >= len(args) {
		return false
	}
	key, _ := args[place].(string)
	return strings.HasPrefix(key, "asynq:servers") || strings.HasPrefix(key, "asynq:workers") ||
		strings.HasSuffix(key, "}:aggregation_sets")
}
