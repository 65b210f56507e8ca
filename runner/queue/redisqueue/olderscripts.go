package redisqueue

// Scripts of runners that were built before nodes lost EVAL. They are loaded only while a node needs them, because
// their work grows with their arguments: a hostile node could keep Redis busy forever with them. The first one is
// asynq's, under its license.
var olderScripts = map[string]script{
	"reclaim groups": newScript(`
local staleSetKeys = redis.call("ZRANGEBYSCORE", KEYS[1], "-inf", ARGV[1])
for _, key in ipairs(staleSetKeys) do
	local idx = string.find(key, ":[^:]*$")
	local groupKey = string.sub(key, 1, idx-1)
	local res = redis.call("ZRANGE", key, 0, -1, "WITHSCORES")
	for i=1, table.getn(res)-1, 2 do
		redis.call("ZADD", groupKey, tonumber(res[i+1]), res[i])
	end
	redis.call("DEL", key)
end
redis.call("ZREMRANGEBYSCORE", KEYS[1], "-inf", ARGV[1])
return redis.status_reply("OK")
`),
	"take": newScript(`
local taken, leases = {}, {}
if redis.call("EXISTS", KEYS[2]) == 1 then
	return taken
end
for _ = 1, tonumber(ARGV[3]) do
	local id = redis.call("RPOPLPUSH", KEYS[1], KEYS[3])
	if not id then
		break
	end
	local task = ARGV[2] .. id
	local message = redis.call("HGET", task, "msg")
	if message then
		redis.call("HSET", task, "state", "active")
		redis.call("HDEL", task, "pending_since")
		leases[#leases + 1] = ARGV[1]
		leases[#leases + 1] = id
		taken[#taken + 1] = id
		taken[#taken + 1] = message
	else
		redis.call("LREM", KEYS[3], 1, id)
	end
end
if #leases > 0 then
	redis.call("ZADD", KEYS[4], unpack(leases))
end
return taken`),
	"end": newScript(`
local missing, ids, tasks = {}, {}, {}
for i = 2, #ARGV do
	if redis.call("LREM", KEYS[1], -1, ARGV[i]) == 1 then
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
return missing`),
	"put back": newScript(`
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
return redis.status_reply("OK")`),
	"settle": newScript(`
for i = 2, #ARGV do
	redis.call("LREM", KEYS[1], 0, ARGV[i])
	redis.call("ZREM", KEYS[2], ARGV[i])
	redis.call("ZREM", KEYS[3], ARGV[i])
	redis.call("LREM", KEYS[4], 0, ARGV[i])
	redis.call("DEL", ARGV[1] .. ARGV[i])
end
return redis.status_reply("OK")`),
}
