package redisqueue

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// This file takes tasks out of a queue and takes them off as asynq's scripts do (see layout.go), several at once: a script costs Redis and
// this process about as much for one as for some.

// takeScript moves tasks to those that are worked on. KEYS: pending, paused, active, lease. ARGV: the end of their leases, prefix of
// tasks, how many. It returns ids and messages in turns, in the order of the queue. It takes no more when it has 4 MiB, and what it does is bounded
// whatever it is given: it looks at the list once, so that a list which is pending and active at once does not go round.
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

// maxTaken bounds the tasks of one look: Lua has room for some thousand arguments of a command.
const maxTaken = 1000

// take takes tasks out of a queue.
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

// endScript takes tasks off that are done. KEYS: active, lease. ARGV: prefix of tasks, ids. It returns the ids that were not worked on.
// The oldest are at the left end of the list. A list that is too long for so many ids is an error: nothing honest makes one.
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

// ending is one command of asynq that takes off a task that is done.
type ending struct {
	*redis.Cmd
	active, lease string // keys
	task, id      string // its key, which ends with its id
}

// endingOf returns what a command takes off, nil if it does something else.
func endingOf(cmd redis.Cmder) *ending {
	const keys = 2 // where the number of keys stands; they follow, and then the id and two numbers for statistics
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
	if !strings.HasSuffix(e.active, ":active") || !strings.HasSuffix(e.lease, ":lease") || e.id == "" || !strings.HasSuffix(e.task, ":"+taskKey+e.id) {
		return nil
	}
	return e
}

// endings are those of one queue in a round trip.
type endings struct {
	all []*ending
	cmd *redis.Cmd // takes all of them off
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

// answer answers asynq's commands when the round trip is over, and returns the ids of the tasks that are gone.
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

// errNotActive is what asynq's own script says.
var errNotActive = errors.New("NOT FOUND")
