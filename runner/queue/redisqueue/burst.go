package redisqueue

import (
	"cmp"
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// maxBurst bounds the bytes of the tasks that one script puts into a queue, but for the last of them. Redis reads a request in pieces of
// 16 KiB between others; one that fills the buffers of its connection can stand still until TCP asks again, after 200 ms (read off on
// loopback, with Linux 6.18 and requests of 150 KB). A node begins with the first ones meanwhile.
const maxBurst = 32 << 10

// burst puts tasks of one Push into a queue with one script, in order, although asynq's client knows single tasks only: what the script
// of each says joins the burst instead of being sent, and asynq is told that it put the task there. What Redis says of all of them comes
// later. Whether a task was there already makes no difference to Push, and of errors it hears itself.
type burst struct {
	prefix, pending string // keys
	since           any    // when the first was put there, as asynq says it
	tasks           []any  // ids and messages in turns
	size            int    // of the messages, in bytes
}

type burstKey struct{}

// pushScript puts tasks into a queue that are not there. KEYS: pending. ARGV: prefix of tasks, the time, ids and messages in turns.
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

// burstHook takes scripts whose context has a burst.
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

// join takes what a command of asynq puts into a queue. It returns false if that is something else, or for another queue.
func (b *burst) join(cmd redis.Cmder) bool {
	const keys = 2 // where the number of keys stands; they follow, and then message, id and time
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
	script.SetVal(int64(1)) // that the task is new
	b.tasks = append(b.tasks, id, args[keys+3])
	if message, ok := args[keys+3].([]byte); ok {
		b.size += len(message)
	}
	return true
}

// put sends what has joined, and begins anew.
func (b *burst) put(ctx context.Context, client *redis.Client) error {
	if len(b.tasks) == 0 {
		return nil
	}
	defer func() { *b = burst{} }()
	return pushScript.Run(ctx, client, []string{b.pending}, append([]any{b.prefix, b.since}, b.tasks...)...).Err()
}

// together runs do for 0 to n-1 so that what the one script that each of them calls with the given context would do is done by few. It
// returns the first error.
func together(ctx context.Context, client *redis.Client, n int, do func(ctx context.Context, i int) error) (first error) {
	b := &burst{}
	joint := context.WithValue(ctx, burstKey{}, b)
	for i := range n {
		err := do(joint, i) // fails if it did not get as far as its script
		if b.size >= maxBurst || i == n-1 {
			err = cmp.Or(err, b.put(ctx, client))
		}
		first = cmp.Or(first, err)
	}
	return first
}
