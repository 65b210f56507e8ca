package redisqueue

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
)

// This file takes tasks like asynq's script (see dispatcher.go), but several at once. A script costs Redis and this
// process about the same for several tasks as for one.

// takeScript moves tasks from pending to active. KEYS: pending, paused, active, lease. ARGV: end of their leases,
// prefix of tasks, number of tasks. It returns alternating ids and messages, in queue order. It stops after 4 MiB. The
// work of the script is limited for all inputs. It reads the list once, so it does not loop if pending and active are
// the same list.
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

// take runs takeScript and returns the tasks that the script made active.
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
