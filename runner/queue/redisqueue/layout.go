package redisqueue

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"writ"
	"writ/internal/failpoint"
)

// This file depends on the layout of a queue in asynq 0.26: a hash per task with its state; the lists of IDs `pending`
// (taken from the right) and `active` (extended on the right; by asynq itself on the left); the sorted sets `lease`
// (for active tasks) and `retry`. A task that was never taken has the field pending_since. The first taker removes it,
// and this package never restores it: Withdraw relies on that.
//
// asynq gives a task of a dead process to another one after one to three minutes. Because there is one process per
// node, this package is simpler and faster: active tasks that this process does not know have no owner, and return to
// the queue at once.

func key(node writ.NodeID, name string) string { return "asynq:{" + string(node) + "}:" + name }

const taskKey = "t:" // followed by the ID

// tendEvery is the interval of repairs.
const tendEvery = time.Second

// heldScript checks which tasks exist. KEYS: pending, active, retry. ARGV: prefix of tasks, ids. It returns the ids of
// missing tasks. A task in none of the lists is missing: no node ever gets it. It does not read an implausibly long
// state, because a node chooses its length, and it deletes a key of another type. Lists that are too long for a quick
// answer are not read; only a hostile node has such lists.
var heldScript = newScript(`
local missing, listed = {}, {}
local function list(entries)
	if entries.err then
		return true
	end
	for _, id in ipairs(entries) do
		listed[id] = true
	end
	return #entries <= 20000
end
local whole = list(redis.pcall("LRANGE", KEYS[1], 0, 20000)) and list(redis.pcall("LRANGE", KEYS[2], 0, 20000))
	and list(redis.pcall("ZRANGE", KEYS[3], 0, 20000))
for i = 2, #ARGV do
	local task = ARGV[1] .. ARGV[i]
	local length = redis.pcall("HSTRLEN", task, "state")
	if type(length) ~= "number" then
		redis.call("UNLINK", task)
		length = 0
	end
	local state = length > 0 and length < 16 and redis.call("HGET", task, "state")
	if not state or state == "archived" or state == "completed" or whole and not listed[ARGV[i]] then
		missing[#missing + 1] = ARGV[i]
	end
end
return missing`)

// maxAsked limits the tasks of one script.
const maxAsked = 1000

// Missing implements queue.Queue.
func (q *Queue) Missing(ctx context.Context, node writ.NodeID, ids ...string) ([]string, error) {
	var missing []string
	lists := []string{key(node, "pending"), key(node, "active"), key(node, "retry")}
	for some := range slices.Chunk(ids, maxAsked) {
		gone, err := heldScript.Run(ctx, q.client, lists, arguments(node, some)...).StringSlice()
		if err != nil {
			return nil, away(ctx, err)
		}
		missing = append(missing, gone...)
	}
	return missing, nil
}

// maxStates limits the states of one round trip, because an attacker chooses the length of each.
const maxStates = 16

// gone is Missing with the rights of a node's account. It does not look into the lists.
func (q *Queue) gone(ctx context.Context, node writ.NodeID, ids ...string) (missing []string, err error) {
	for some := range slices.Chunk(ids, maxStates) {
		gone, err := goneStates(ctx, q.client, node, some)
		if err != nil {
			return nil, err
		}
		missing = append(missing, gone...)
	}
	return missing, nil
}

// goneStates reads the states of tasks and returns the missing ones.
func goneStates(
	ctx context.Context, client *redis.Client, node writ.NodeID, ids []string,
) (missing []string, err error) {
	states := make([]*redis.StringCmd, len(ids))
	_, err = client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, id := range ids {
			states[i] = p.HGet(ctx, key(node, taskKey+id), "state")
		}
		return nil
	})
	if !isReply(err) {
		return nil, away(ctx, err)
	}
	for i, id := range ids {
		state, err := states[i].Result()
		switch {
		// Not the state of a task.
		case errors.Is(err, redis.Nil), state == "archived", state == "completed", redis.HasErrorPrefix(err, "WRONGTYPE"):
			missing = append(missing, id)
		case err != nil:
			return nil, away(ctx, err)
		}
	}
	return missing, nil
}

// withdrawScript removes tasks that were never taken. KEYS: pending. ARGV: prefix of tasks, ids. It returns the removed
// ids.
var withdrawScript = newScript(`
local gone = {}
for i = 2, #ARGV do
	local task = ARGV[1] .. ARGV[i]
	if redis.call("HSTRLEN", task, "state") == 7 and redis.call("HGET", task, "state") == "pending" and redis.call("HEXISTS", task, "pending_since") == 1 then
		redis.call("LREM", KEYS[1], 0, ARGV[i])
		redis.call("DEL", task)
		table.insert(gone, ARGV[i])
	end
end
return gone`)

// Withdraw implements queue.Queue.
func (q *Queue) Withdraw(ctx context.Context, node writ.NodeID, ids ...string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var all, withdrawn []string
	failpoint.Begin(ctx)
	var err error
	for some := range slices.Chunk(ids, maxMoved) { // each script scans a list whose length the node controls
		withdraw := func() (err error) {
			withdrawn, err = withdrawScript.Run(ctx, q.client, []string{key(node, "pending")},
				arguments(node, some)...).StringSlice()
			return err
		}
		if err = q.mended(ctx, node, some, withdraw(), withdraw); err != nil {
			break
		}
		all = append(all, withdrawn...)
	}
	failpoint.End(ctx, err)
	return all, away(ctx, err)
}

func arguments(node writ.NodeID, ids []string) []any {
	args := []any{key(node, taskKey)}
	for _, id := range ids {
		args = append(args, id)
	}
	return args
}

// putBackScript returns tasks without a handler to the queue, to be taken next. KEYS: active, lease, retry, pending.
// ARGV: prefix of tasks, ids, with the one to be taken last first.
var putBackScript = newScript(`
local most = math.floor(2000000 / #ARGV)
if #redis.call("LRANGE", KEYS[1], most, most) > 0 then
	return redis.error_reply("TOOLONG a list of tasks is too long")
end
for i = 2, #ARGV do
	local task = ARGV[1] .. ARGV[i]
	local found = redis.call("LREM", KEYS[1], 0, ARGV[i]) + redis.call("ZREM", KEYS[3], ARGV[i])
	redis.call("ZREM", KEYS[2], ARGV[i])
	if found > 0 and redis.call("EXISTS", task) == 1 then
		redis.call("HDEL", task, "pending_since")
		redis.call("HSET", task, "state", "pending")
		redis.call("RPUSH", KEYS[4], ARGV[i])
	end
end
return redis.status_reply("OK")`)

// finishScript removes tasks whose handlers have returned. KEYS and ARGV as for putBackScript.
var finishScript = newScript(`
local most = math.floor(2000000 / #ARGV)
if #redis.call("LRANGE", KEYS[1], most, most) + #redis.call("LRANGE", KEYS[4], most, most) > 0 then
	return redis.error_reply("TOOLONG a list of tasks is too long")
end
for i = 2, #ARGV do
	redis.call("LREM", KEYS[1], 0, ARGV[i])
	redis.call("ZREM", KEYS[2], ARGV[i])
	redis.call("ZREM", KEYS[3], ARGV[i])
	redis.call("LREM", KEYS[4], 0, ARGV[i])
	redis.call("DEL", ARGV[1] .. ARGV[i])
end
return redis.status_reply("OK")`)

// takeOver returns all tasks of a previous process to the queue. It retries until it succeeds, and returns false if ctx
// or the queue ends before.
func (q *Queue) takeOver(ctx context.Context, node writ.NodeID) bool {
	warned := false
	for {
		_, err := q.repair(ctx, node, nil)
		if err == nil {
			return true
		}
		if ctx.Err() == nil && !warned {
			warned = true
			q.log().WarnContext(ctx, "serve the queue; trying again", "node", node, "err", err)
		}
		select {
		case <-ctx.Done():
			return false
		case <-q.closed:
			return false
		case <-time.After(tendEvery / 4):
		}
	}
}

// repairUntilEnd repairs regularly until ctx or the queue ends.
func (q *Queue) repairUntilEnd(ctx context.Context, node writ.NodeID) {
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	strangers := []string{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.closed:
			return
		case <-tick.C:
		}
		next, err := q.repair(ctx, node, strangers)
		if err != nil {
			next = []string{} // asynq logs the outage of Redis
		}
		strangers = next
	}
}

// repair compares the active tasks in Redis with the active tasks of this process. A task whose handler returned a
// while ago is removed. An unknown task is returned to the queue: at once if before is nil, otherwise only if it was
// already unknown in before, because it may be in transit from Redis to its handler. A task that asynq received and
// that has no handler after the same time is refused. repair returns the unknown tasks.
func (q *Queue) repair(ctx context.Context, node writ.NodeID, before []string) (strangers []string, err error) {
	var active, failed *redis.StringSliceCmd
	_, err = q.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		active = p.LRange(ctx, key(node, "active"), 0, -1)
		failed = p.ZRange(ctx, key(node, "retry"), 0, -1)
		return nil
	})
	if err != nil {
		return nil, away(ctx, err)
	}
	var back, finished, refused []string
	strangers = []string{}
	looking := q.prefetchers.at(node)
	given, held := setOf(looking.gave()), setOf(looking.held())
	unknown := setOf(before)
	newestFirst := slices.Clone(active.Val())
	slices.Reverse(newestFirst)
	all := append(failed.Val(), newestFirst...)
	listed := setOf(all)
	for id := range given {
		if !listed[id] {
			all = append(all, id)
		}
	}
	for _, id := range all {
		switch d := q.deliveries.get(node, id); {
		case d == nil && held[id]: // asynq gets it next
		case d == nil && unknown[id] && given[id]:
			refused = append(refused, id)
		case d == nil && (before == nil || unknown[id]):
			back = append(back, id)
		case d == nil:
			strangers = append(strangers, id)
		case d.over() && (d.seen || before == nil):
			finished = append(finished, id)
		case d.over():
			d.seen = true
		}
	}
	if err := q.move(ctx, node, putBackScript, back); err != nil {
		return nil, err
	}
	if err := q.move(ctx, node, finishScript, finished); err != nil {
		return nil, err
	}
	if err := q.refuse(ctx, node, looking, refused); err != nil {
		return nil, err
	}
	return strangers, q.forget(ctx, node)
}

func setOf(ids []string) map[string]bool {
	set := make(map[string]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}

// refuse removes tasks that asynq received without calling a handler: it cannot decode them, or they had expired
// before. It would receive them again and again. The sender detects the missing task and sends another one.
func (q *Queue) refuse(ctx context.Context, node writ.NodeID, by *prefetcher, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	if err := q.move(ctx, node, finishScript, ids); err != nil {
		return err
	}
	by.done(ids...)
	// An attacker with access to Redis can add any number of such tasks under any name.
	if times, say := q.unreadable.Say("", time.Now()); say {
		q.log().WarnContext(ctx, "unreadable tasks were removed from the queue", "code", writ.CodeBadRequest, "node", node,
			"tasks", len(ids), "times", times)
	}
	return nil
}

// move runs one of the scripts on tasks.
func (q *Queue) move(ctx context.Context, node writ.NodeID, script script, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	keys := []string{key(node, "active"), key(node, "lease"), key(node, "retry"), key(node, "pending")}
	for some := range slices.Chunk(ids, maxMoved) {
		failpoint.TasksMoved.Begin()
		err := script.Run(ctx, q.client, keys, arguments(node, some)...).Err()
		failpoint.TasksMoved.End(err)
		if err != nil {
			return away(ctx, err)
		}
	}
	return nil
}

// forget drops finished tasks that are no longer in Redis.
func (q *Queue) forget(ctx context.Context, node writ.NodeID) error {
	gone, err := q.gone(ctx, node, q.deliveries.over(node)...)
	if err != nil {
		return err
	}
	q.deliveries.forget(node, gone...)
	return nil
}

// isReply reports whether err is nil or an error reply of Redis.
func isReply(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return err == nil || ok
}
