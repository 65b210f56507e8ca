package redisqueue

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"

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

// endHook replaces the script of asynq that removes a finished task by endScript. The tasks of a queue that end while a
// script runs share the next one: a runner acknowledges many results at once, and a script costs about the same for
// several tasks as for one.
type endHook struct {
	client *redis.Client
	gone   func(active, id string) // called with each removed task, before its end returns

	mu sync.Mutex
	// waiting holds the endings without a script, by the key of the active tasks. A goroutine works on each key.
	waiting map[string][]*ending
}

// maxEnded limits the tasks of one script.
const maxEnded = 128

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
		if err := h.end(ctx, e); err != nil {
			e.SetErr(err)
			return err
		}
		e.SetVal("OK")
		return nil
	}
}

// end removes a finished task together with other tasks of its queue.
func (h *endHook) end(ctx context.Context, e *ending) error {
	h.mu.Lock()
	waiting, served := h.waiting[e.active]
	h.waiting[e.active] = append(waiting, e)
	h.mu.Unlock()
	if !served {
		go h.serve(context.WithoutCancel(ctx), e.active)
	}
	select {
	case err := <-e.ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serve removes the finished tasks of a queue until none waits.
func (h *endHook) serve(ctx context.Context, active string) {
	for {
		runtime.Gosched() // lets the other tasks join whose results were acknowledged together
		h.mu.Lock()
		all := h.waiting[active]
		n := min(len(all), maxEnded)
		if n == 0 {
			delete(h.waiting, active)
			h.mu.Unlock()
			return
		}
		h.waiting[active] = all[n:]
		h.mu.Unlock()
		h.remove(ctx, all[:n])
	}
}

// remove removes finished tasks of one queue with one script.
func (h *endHook) remove(ctx context.Context, some []*ending) {
	first := some[0]
	active := first.active
	args := []any{strings.TrimSuffix(first.task, first.id)}
	for _, e := range some {
		args = append(args, e.id)
	}
	missing, err := endScript.Run(ctx, h.client, []string{active, first.lease}, args...).StringSlice()
	for _, e := range some {
		switch {
		case err != nil:
			e.ended <- err
		case slices.Contains(missing, e.id):
			e.ended <- errNotActive
		default:
			h.gone(active, e.id)
			e.ended <- nil
		}
	}
}

// ending is an asynq command that removes a finished task.
type ending struct {
	*redis.Cmd
	active, lease string     // keys
	task, id      string     // key of the task, which ends with the ID, and the ID
	ended         chan error // receives the result of the removal
}

// endingOf parses a command that removes a task. It returns nil for another command.
func endingOf(cmd redis.Cmder) *ending {
	const keys = 2 // index of the key count; the keys follow, then the ID and two numbers for statistics
	done, ok := cmd.(*redis.Cmd)
	args := cmd.Args()
	if !ok || cmd.Name() != "evalsha" || len(args) != keys+9 || args[keys] != 5 {
		return nil
	}
	e := &ending{Cmd: done, ended: make(chan error, 1)}
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
