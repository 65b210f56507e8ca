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

// This file knows how asynq 0.26 lays out a queue: a hash per task with its state; the lists of ids `pending` (taken from the right)
// and `active` (grown on the right, by asynq itself on the left); the sorted sets `lease` (of active tasks) and `retry`. A task that nobody took has the field
// pending_since, which the first taker removes and nothing here restores: that is how Withdraw tells.
//
// asynq gives a task of a dead process to another one after one to three minutes. There is one process per node, so it is simpler
// and faster here: what is active and unknown to this process is nobody's, and goes back to the queue at once.

func key(node writ.NodeID, name string) string { return "asynq:{" + string(node) + "}:" + name }

const taskKey = "t:" // before the id

// tendEvery is the pause between two looks after what asynq left behind.
const tendEvery = time.Second

// heldScript tells which tasks are there. ARGV: prefix of tasks, ids. It returns the ids of those that are not: a state that is none is not read, because
// its node chooses how long it is; what is no task goes.
var heldScript = newScript(`
local missing = {}
for i = 2, #ARGV do
	local task = ARGV[1] .. ARGV[i]
	local length = redis.pcall("HSTRLEN", task, "state")
	if type(length) ~= "number" then
		redis.call("UNLINK", task)
		length = 0
	end
	local state = length > 0 and length < 16 and redis.call("HGET", task, "state")
	if not state or state == "archived" or state == "completed" then
		missing[#missing + 1] = ARGV[i]
	end
end
return missing`)

// maxAsked bounds the tasks that one script is asked for.
const maxAsked = 1000

// Missing implements queue.Queue.
func (q *Queue) Missing(ctx context.Context, node writ.NodeID, ids ...string) ([]string, error) {
	var missing []string
	for some := range slices.Chunk(ids, maxAsked) {
		gone, err := heldScript.Run(ctx, q.client, nil, arguments(node, some)...).StringSlice()
		if err != nil {
			return nil, away(ctx, err)
		}
		missing = append(missing, gone...)
	}
	return missing, nil
}

// gone is Missing for the node itself, with what its account may do.
func (q *Queue) gone(ctx context.Context, node writ.NodeID, ids ...string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	states := make([]*redis.StringCmd, len(ids))
	_, err := q.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, id := range ids {
			states[i] = p.HGet(ctx, key(node, taskKey+id), "state")
		}
		return nil
	})
	if !isReply(err) {
		return nil, away(ctx, err)
	}
	var missing []string
	for i, id := range ids {
		state, err := states[i].Result()
		switch {
		case errors.Is(err, redis.Nil), state == "archived", state == "completed", redis.HasErrorPrefix(err, "WRONGTYPE"): // no task has that
			missing = append(missing, id)
		case err != nil:
			return nil, away(ctx, err)
		}
	}
	return missing, nil
}

// withdrawScript removes tasks that nobody took. KEYS: pending. ARGV: prefix of tasks, ids. It returns the ids that it removed.
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
	for some := range slices.Chunk(ids, maxMoved) { // each script goes through a list whose length its node chooses
		withdraw := func() (err error) {
			withdrawn, err = withdrawScript.Run(ctx, q.client, []string{key(node, "pending")}, arguments(node, some)...).StringSlice()
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

// putBackScript puts tasks that nobody works on back where they are taken next. KEYS: active, lease, retry, pending. ARGV: prefix of
// tasks, ids, the one to be taken last first.
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

// finishScript takes tasks off whose handlers returned. KEYS and ARGV as for putBackScript.
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

// takeOver puts back everything that a process before this one left behind. It tries until it can, and returns false if ctx or the
// queue ends before.
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

// tend repairs again and again until ctx or the queue ends.
func (q *Queue) tend(ctx context.Context, node writ.NodeID) {
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
			next = []string{} // asynq says enough about the absence of Redis
		}
		strangers = next
	}
}

// repair compares what Redis believes to be worked on with what this process works on. A task whose handler returned a while ago is
// taken off. One that nobody knows is put back: at once if before is nil, else if it was a stranger the time before, because it
// may be on its way from Redis to its handler. One that asynq got and that no handler has after the same time is refused. repair returns the
// strangers.
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
	looking := q.lookouts.at(node)
	given := looking.gave()
	newestFirst := slices.Clone(active.Val())
	slices.Reverse(newestFirst)
	all := append(failed.Val(), newestFirst...)
	nowhere := slices.DeleteFunc(slices.Clone(given), func(id string) bool { return slices.Contains(all, id) })
	for _, id := range append(all, nowhere...) {
		switch d := q.deliveries.get(node, id); {
		case d == nil && looking.holds(id): // asynq gets it next
		case d == nil && slices.Contains(before, id) && slices.Contains(given, id):
			refused = append(refused, id)
		case d == nil && (before == nil || slices.Contains(before, id)):
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

// refuse takes tasks off that asynq got and gave to no handler: it cannot decode them, or they are over before they begin. It would get them
// again and again. Whoever waits for one misses it, and sends another.
func (q *Queue) refuse(ctx context.Context, node writ.NodeID, by *lookout, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	if err := q.move(ctx, node, finishScript, ids); err != nil {
		return err
	}
	by.done(ids...)
	if times, say := q.unreadable.Say("", time.Now()); say { // whoever has Redis can put in as many as he likes, under any name
		q.log().WarnContext(ctx, "unreadable tasks were removed from the queue", "code", writ.CodeBadRequest, "node", node, "tasks", len(ids), "times", times)
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

// forget drops the memory of tasks that are over here and gone there.
func (q *Queue) forget(ctx context.Context, node writ.NodeID) error {
	gone, err := q.gone(ctx, node, q.deliveries.over(node)...)
	if err != nil {
		return err
	}
	q.deliveries.forget(node, gone...)
	return nil
}
