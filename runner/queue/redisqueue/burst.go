package redisqueue

import (
	"cmp"
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// maxBurst limits the bytes of the tasks in one script, not counting the last one. Redis reads a request in pieces of
// 16 KiB, alternating with other connections. A request that fills the buffers of its connection can stall until TCP
// probes again after 200 ms (measured on loopback, with Linux 6.18 and requests of 150 KB). Meanwhile the node can
// start with the first tasks.
const maxBurst = 32 << 10

// burst adds the tasks of one Push to a queue with one script, in order. asynq's client adds single tasks only: the
// script call of each is intercepted and collected in the burst, and asynq gets a positive answer. The script for all
// of them is sent later. Push treats existing tasks as added, and gets the error of the script itself.
type burst struct {
	prefix, pending string // keys
	since           any    // time of the first task, as asynq formats it
	tasks           []any  // alternating IDs and messages
	size            int    // bytes of all messages
}

type burstKey struct{}

// pushScript adds missing tasks to a queue. KEYS: pending. ARGV: prefix of tasks, the time, alternating ids and
// messages.
var pushScript = newScript(`
local fresh = {}
for i = 3, #ARGV, 2 do
	local task = ARGV[1] .. ARGV[i]
	if redis.call("EXISTS", task) == 0 then
		redis.call("HSET", task, "msg", ARGV[i + 1], "state", "pending", "pending_since", ARGV[2])
		fresh[#fresh + 1] = ARGV[i]
	end
end
if #fresh > 0 then
	redis.call("LPUSH", KEYS[1], unpack(fresh))
end
return redis.status_reply("OK")`)

// burstHook intercepts scripts whose context has a burst.
type burstHook struct{}

func (burstHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (burstHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (burstHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		b, _ := ctx.Value(burstKey{}).(*burst)
		if b == nil || !b.join(cmd) {
			return next(ctx, cmd)
		}
		return nil
	}
}

// join collects the task of an asynq command. It returns false for another command, or for another queue.
func (b *burst) join(cmd redis.Cmder) bool {
	const keys = 2 // index of the key count; the keys follow, then message, ID and time
	script, ok := cmd.(*redis.Cmd)
	args := cmd.Args()
	if !ok || cmd.Name() != "evalsha" || len(args) != keys+6 || args[keys] != 2 {
		return false
	}
	task, _ := args[keys+1].(string)
	pending, _ := args[keys+2].(string)
	id, _ := args[keys+4].(string)
	prefix, ok := strings.CutSuffix(task, id)
	if !ok || id == "" || !strings.HasSuffix(prefix, ":"+taskKey) || !strings.HasSuffix(pending, ":pending") {
		return false
	}
	if len(b.tasks) == 0 {
		b.prefix, b.pending, b.since = prefix, pending, args[keys+5]
	}
	if b.prefix != prefix || b.pending != pending {
		return false
	}
	script.SetVal(int64(1)) // means that the task is new
	b.tasks = append(b.tasks, id, args[keys+3])
	if message, ok := args[keys+3].([]byte); ok {
		b.size += len(message)
	}
	return true
}

// put sends the collected tasks and resets the burst.
func (b *burst) put(ctx context.Context, client *redis.Client) error {
	if len(b.tasks) == 0 {
		return nil
	}
	defer func() { *b = burst{} }()
	return pushScript.Run(ctx, client, []string{b.pending}, append([]any{b.prefix, b.since}, b.tasks...)...).Err()
}

// pushTogether calls do for 0 to n-1. The tasks that the calls would add with the given context, one script each, are
// added with few scripts. It returns the first error.
func pushTogether(
	ctx context.Context, client *redis.Client, n int, do func(ctx context.Context, i int) error,
) (first error) {
	b := &burst{}
	joint := context.WithValue(ctx, burstKey{}, b)
	for i := range n {
		err := do(joint, i) // fails if it did not reach its script
		if b.size >= maxBurst || i == n-1 {
			err = cmp.Or(err, b.put(ctx, client))
		}
		first = cmp.Or(first, err)
	}
	return first
}
