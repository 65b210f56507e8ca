package redisqueue

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// endScript removes finished tasks like asynq's script (see dispatcher.go), but without its statistics, which need more
// rights. KEYS: active, lease. ARGV: prefix of tasks, ids. It returns the ids that were not active. LREM is fast,
// because it starts at the left end of the list, where the oldest tasks are. The script returns an error if the list is
// too long for the number of ids, which only a hostile node causes.
var endScript = newScript(`
local missing, ids, tasks = {}, {}, {}
local most = math.floor(2000000 / #ARGV)
if #redis.call("LRANGE", KEYS[1], most, most) > 0 then
	return redis.error_reply("TOOLONG the list of active tasks is too long")
end
for i = 2, #ARGV do
	if redis.call("LREM", KEYS[1], 1, ARGV[i]) == 1 then
		ids[#ids + 1] = ARGV[i]
		tasks[#tasks + 1] = ARGV[1] .. ARGV[i]
	else
		missing[#missing + 1] = ARGV[i]
	end
end
if #ids > 0 then
	redis.call("ZREM", KEYS[2], unpack(ids))
	redis.call("DEL", unpack(tasks))
end
return missing`)

// errNotActive is the error that asynq's own script returns for a task that is not active.
var errNotActive = errors.New("NOT FOUND")

// endHook replaces the script of asynq that removes a finished task by endScript.
type endHook struct {
	client *redis.Client
	gone   func(active, id string) // called with each removed task
}

func (*endHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*endHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *endHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		e := endingOf(cmd)
		if e == nil {
			return next(ctx, cmd)
		}
		prefix := strings.TrimSuffix(e.task, e.id)
		missing, err := endScript.Run(ctx, h.client, []string{e.active, e.lease}, prefix, e.id).StringSlice()
		if err == nil && len(missing) > 0 {
			err = errNotActive
		}
		if err != nil {
			e.SetErr(err)
			return err
		}
		e.SetVal("OK")
		h.gone(e.active, e.id)
		return nil
	}
}

// ending is an asynq command that removes a finished task.
type ending struct {
	*redis.Cmd
	active, lease string // keys
	task, id      string // key of the task, which ends with the ID, and the ID
}

// endingOf parses a command that removes a task. It returns nil for another command.
func endingOf(cmd redis.Cmder) *ending {
	const keys = 2 // index of the key count; the keys follow, then the ID and two numbers for statistics
	done, ok := cmd.(*redis.Cmd)
	args := cmd.Args()
	if !ok || cmd.Name() != "evalsha" || len(args) != keys+9 || args[keys] != 5 {
		return nil
	}
	e := &ending{Cmd: done}
	for i, into := range []*string{&e.active, &e.lease, &e.task} {
		*into, _ = args[keys+1+i].(string)
	}
	e.id, _ = args[keys+6].(string)
	if !strings.HasSuffix(e.active, ":active") || !strings.HasSuffix(e.lease, ":lease") || e.id == "" ||
		!strings.HasSuffix(e.task, ":"+taskKey+e.id) {
		return nil
	}
	return e
}
