package redisqueue

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// This file takes and finishes tasks like asynq's scripts (see layout.go), but several at once: a script costs Redis
// and this process about the same for one task as for several.

// takeScript moves tasks from pending to active. KEYS: pending, paused, active, lease. ARGV: end of their leases,
// prefix of tasks, number of tasks. It returns alternating ids and messages, in queue order. It stops after 4 MiB. Its
// work is limited for all inputs: it reads the list once, so it does not loop if pending and active are the same list.
var takeScript = newScript(`
local taken, leases, active, size = {}, {}, {}, 0
if redis.call("EXISTS", KEYS[2]) == 1 then
	return taken
end
local waiting = redis.call("LRANGE", KEYS[1], -math.min(tonumber(ARGV[3]), 1000), -1)
for i = #waiting, 1, -1 do
	local id = waiting[i]
	redis.call("LREM", KEYS[1], -1, id)
	local task = ARGV[2] .. id
	local message = redis.call("HGET", task, "msg")
	if message then
		redis.call("HSET", task, "state", "active")
		redis.call("HDEL", task, "pending_since")
		active[#active + 1] = id
		leases[#leases + 1] = ARGV[1]
		leases[#leases + 1] = id
		taken[#taken + 1] = id
		taken[#taken + 1] = message
		size = size + #message
		if size > 4194304 then
			break
		end
	end
end
if #active > 0 then
	redis.call("RPUSH", KEYS[3], unpack(active))
	redis.call("ZADD", KEYS[4], unpack(leases))
end
return taken`)

// maxTaken limits the tasks of one request, because Lua allows only some thousand arguments of a command.
const maxTaken = 1000

// take takes tasks from a queue.
func take(ctx context.Context, client *redis.Client, keys []string, args ...any) ([]takenTask, error) {
	words, err := takeScript.Run(ctx, client, keys, args...).StringSlice()
	if err != nil {
		return nil, err
	}
	var tasks []takenTask
	for pair := range slices.Chunk(words, 2) {
		tasks = append(tasks, takenTask{id: pair[0], message: pair[1]})
	}
	return tasks, nil
}

// endScript removes finished tasks. KEYS: active, lease. ARGV: prefix of tasks, ids. It returns the ids that were not
// active. The oldest are at the left end of the list. It returns an error if the list is too long for the number of
// ids, which only a hostile node causes.
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

// endings are the endings of one queue in a round trip.
type endings struct {
	all []*ending
	cmd *redis.Cmd // removes all of them
}

// join adds an ending to those of its queue.
func (e *ending) join(all []*endings) []*endings {
	for _, same := range all {
		if same.all[0].active == e.active {
			same.all = append(same.all, e)
			return all
		}
	}
	return append(all, &endings{all: []*ending{e}})
}

func (e *endings) keys() []string { return []string{e.all[0].active, e.all[0].lease} }

func (e *endings) args() []any {
	args := []any{strings.TrimSuffix(e.all[0].task, e.all[0].id)}
	for _, one := range e.all {
		args = append(args, one.id)
	}
	return args
}

// answer sets the replies to asynq's commands after the round trip, and returns the IDs of the removed tasks.
func (e *endings) answer(ctx context.Context, client *redis.Client) (gone []string) {
	if redis.HasErrorPrefix(e.cmd.Err(), "NOSCRIPT") {
		e.cmd = endScript.Eval(ctx, client, e.keys(), e.args()...)
	}
	missing, err := e.cmd.StringSlice()
	for _, one := range e.all {
		switch {
		case err != nil:
			one.SetErr(err)
		case slices.Contains(missing, one.id):
			one.SetErr(errNotActive)
		default:
			one.SetErr(nil)
			one.SetVal("OK")
			gone = append(gone, one.id)
		}
	}
	return gone
}

// errNotActive is the error of asynq's own script.
var errNotActive = errors.New("NOT FOUND")
