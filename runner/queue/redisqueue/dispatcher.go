package redisqueue

import (
	"context"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"

	"writ"
	"writ/internal/failpoint"
	"writ/runner/queue"
)

// The dispatcher and the repairs depend on the layout of a queue in asynq 0.26: a hash per task with its state; the
// lists of IDs `pending` (taken from the right) and `active` (extended on the right by this package, and on the left by
// asynq itself); the sorted sets `lease` (for active tasks) and `retry`. A task that was never taken has the field
// pending_since. The first process that takes the task removes the field, and this package never restores it: Withdraw
// relies on that.
//
// If a process dies, asynq gives its tasks to another process after one to three minutes. Only one process serves a
// node, so this package is simpler and faster. Active tasks without a delivery in this process have no owner, and
// return to the queue at once.

func key(node writ.NodeID, name string) string { return "asynq:{" + string(node) + "}:" + name }

const taskKey = "t:" // followed by the ID

// dispatcher adds tasks to the queues of nodes and withdraws them.
type dispatcher struct {
	*access
	asynq *asynqClient
}

// Push implements queue.Queue.
func (d *dispatcher) Push(ctx context.Context, node writ.NodeID, tasks ...queue.Task) error {
	if len(tasks) == 0 {
		return nil
	}
	err := d.pushAll(ctx, node, tasks)
	if isWrongType(err) {
		err = d.pushAgain(ctx, node, tasks, err)
	}
	return away(ctx, err)
}

func (d *dispatcher) pushAll(ctx context.Context, node writ.NodeID, tasks []queue.Task) error {
	if len(tasks) == 1 {
		failpoint.JobSent.Begin()
		err := enqueue(ctx, d.asynq, node, tasks[0])
		failpoint.JobSent.End(err)
		return err
	}
	failpoint.JobsSent.Begin()
	err := d.pushBurst(ctx, node, tasks)
	failpoint.JobsSent.End(err)
	return err
}

// pushAgain adds tasks after a key of the queue had the wrong type and was deleted. It first deletes what the failed
// script wrote, because otherwise the tasks would count as existing. A task that the node is already working on is
// delivered twice, as after any loss of data.
func (d *dispatcher) pushAgain(ctx context.Context, node writ.NodeID, tasks []queue.Task, err error) error {
	ids, keys := make([]string, len(tasks)), make([]string, len(tasks))
	for i, t := range tasks {
		ids[i], keys[i] = t.ID, key(node, taskKey+t.ID)
	}
	return d.mended(ctx, node, ids, err, func() error {
		if err := d.client.Unlink(ctx, keys...).Err(); err != nil {
			return err
		}
		return d.pushAll(ctx, node, tasks)
	})
}

// Missing implements queue.Queue.
func (d *dispatcher) Missing(ctx context.Context, node writ.NodeID, ids ...string) ([]string, error) {
	var missing []string
	lists := []string{key(node, "pending"), key(node, "active"), key(node, "retry")}
	for some := range slices.Chunk(ids, maxAsked) {
		gone, err := heldScript.Run(ctx, d.client, lists, arguments(node, some)...).StringSlice()
		if err != nil {
			return nil, away(ctx, err)
		}
		missing = append(missing, gone...)
	}
	return missing, nil
}

// Withdraw implements queue.Queue.
func (d *dispatcher) Withdraw(ctx context.Context, node writ.NodeID, ids ...string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var all, withdrawn []string
	failpoint.Begin(ctx)
	var err error
	for some := range slices.Chunk(ids, maxMoved) { // each script scans a list whose length the node controls
		withdraw := func() (err error) {
			withdrawn, err = withdrawScript.Run(ctx, d.client, []string{key(node, "pending")},
				arguments(node, some)...).StringSlice()
			return err
		}
		if err = d.mended(ctx, node, some, withdraw(), withdraw); err != nil {
			break
		}
		all = append(all, withdrawn...)
	}
	failpoint.End(ctx, err)
	return all, away(ctx, err)
}

// heldScript checks which tasks exist. KEYS: pending, active, retry. ARGV: prefix of tasks, ids. It returns the ids of
// missing tasks. A task in none of the lists is missing, because no node will ever get it. The script does not read a
// state of 16 bytes or more, because a node chooses its length. It deletes the key of a task if it is not a hash. Lists
// that are too long for a quick answer are not read; only a hostile node has such lists.
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

// maxStates limits the states of one round trip, because an attacker chooses the length of each.
const maxStates = 16

// goneTasks is Missing with the rights of a node's account. It does not read the lists of the queue.
func goneTasks(
	ctx context.Context, client *redis.Client, node writ.NodeID, ids []string,
) (missing []string, err error) {
	for some := range slices.Chunk(ids, maxStates) {
		gone, err := goneStates(ctx, client, node, some)
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
		// WRONGTYPE: the key is not a hash, so it holds no task.
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

func arguments(node writ.NodeID, ids []string) []any {
	args := []any{key(node, taskKey)}
	for _, id := range ids {
		args = append(args, id)
	}
	return args
}
