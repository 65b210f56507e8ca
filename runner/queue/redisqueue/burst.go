package redisqueue

import (
	"cmp"
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"writ"
	"writ/runner/queue"
)

// maxBurst limits the bytes of the tasks in one script, not counting the last task. Redis reads a request in pieces of
// 16 KiB, and serves other connections in between. A request that fills the buffers of its connection can stall until
// TCP probes again after 200 ms (measured on loopback, with Linux 6.18 and requests of 150 KB). With several scripts,
// the node can also start with the first tasks earlier.
const maxBurst = 32 << 10

// pushScript adds missing tasks to a queue, as asynq's script does for one task. KEYS: pending. ARGV: prefix of tasks,
// the time, alternating ids and messages.
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

// burst adds several tasks to a queue with one script. asynq's client can only add single tasks, but it encodes them
// in its own format. So the burst lets asynq run its script for each task, collects the arguments of these scripts
// instead of sending them, and answers that each task was added. Then pushScript adds all of them. The zero value has
// no tasks.
type burst struct {
	prefix, pending string // keys
	since           any    // time of the first task, as asynq formats it
	tasks           []any  // alternating IDs and messages
	size            int    // bytes of all messages
}

// burstKey is the key of a *burst in the context of asynq's requests.
type burstKey struct{}

// burstHook passes the scripts of a context with a burst to the burst.
type burstHook struct{}

func (burstHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (burstHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (burstHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if b, _ := ctx.Value(burstKey{}).(*burst); b != nil && b.collect(cmd) {
			return nil
		}
		return next(ctx, cmd)
	}
}

// collect adds the task of asynq's script to the burst. It returns false if cmd is another command or adds a task to
// another queue.
func (b *burst) collect(cmd redis.Cmder) bool {
	const keys = 2 // index of the key count; the keys follow, then message, ID and time
	script, ok := cmd.(*redis.Cmd)
	args := cmd.Args()
	if !ok || cmd.Name() != "evalsha" || len(args) != keys+6 || args[keys] != 2 {
		return false
	}
	task, _ := args[keys+1].(string)
	pending, _ := args[keys+2].(string)
	message, isBytes := args[keys+3].([]byte)
	id, _ := args[keys+4].(string)
	prefix, ok := strings.CutSuffix(task, id)
	if !ok || !isBytes || id == "" || !strings.HasSuffix(prefix, ":"+taskKey) || !strings.HasSuffix(pending, ":pending") {
		return false
	}
	if len(b.tasks) == 0 {
		b.prefix, b.pending, b.since = prefix, pending, args[keys+5]
	}
	if b.prefix != prefix || b.pending != pending {
		return false
	}
	script.SetVal(int64(1)) // this reply means that the task is new
	b.tasks = append(b.tasks, id, message)
	b.size += len(message)
	return true
}

// send adds the collected tasks to the queue and empties the burst.
func (b *burst) send(ctx context.Context, client *redis.Client) error {
	if len(b.tasks) == 0 {
		return nil
	}
	defer func() { *b = burst{} }()
	return pushScript.Run(ctx, client, []string{b.pending}, append([]any{b.prefix, b.since}, b.tasks...)...).Err()
}

// pushBurst adds tasks to the queue of a node with few scripts, in order. After an error it still adds the other tasks,
// and then returns the first error.
func (d *dispatcher) pushBurst(ctx context.Context, node writ.NodeID, tasks []queue.Task) (first error) {
	b := &burst{}
	collecting := context.WithValue(ctx, burstKey{}, b)
	for i, t := range tasks {
		err := enqueue(collecting, d.asynq, node, t)
		if b.size >= maxBurst || i == len(tasks)-1 {
			err = cmp.Or(err, b.send(ctx, d.client))
		}
		first = cmp.Or(first, err)
	}
	return first
}
