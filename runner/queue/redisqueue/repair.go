package redisqueue

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"writ"
	"writ/internal/failpoint"
)

// tendEvery is the interval of repairs, and tendIdle the interval while the node has no tasks.
const (
	tendEvery = time.Second
	tendIdle  = 5 * time.Second
)

// putBackScript returns tasks without a handler to the queue, to be taken next. KEYS: active, lease, retry, pending.
// ARGV: prefix of tasks, ids in reverse order: the first id is taken last.
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
// ends or the queue is closed first.
func (s *service) takeOver(ctx context.Context) bool {
	warned := false
	for {
		_, err := s.repair(ctx, nil)
		if err == nil {
			return true
		}
		if ctx.Err() == nil && !warned {
			warned = true
			s.queue.log().WarnContext(ctx, "serve the queue; trying again", "node", s.node, "err", err)
		}
		select {
		case <-ctx.Done():
			return false
		case <-s.queue.closed:
			return false
		case <-time.After(tendEvery / 4):
		}
	}
}

// repairUntilEnd calls repair every tendEvery until ctx ends or the queue is closed.
func (s *service) repairUntilEnd(ctx context.Context) {
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	strangers := []string{}
	var last time.Time // of the last repair
	asked := 0         // requests for tasks until then
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.queue.closed:
			return
		case <-tick.C:
		}
		now, idle := s.prefetcher.requests()
		idle = idle && now == asked && len(strangers) == 0 && !s.queue.deliveries.any(s.node)
		if idle && time.Since(last) < tendIdle {
			continue
		}
		next, err := s.repair(ctx, strangers)
		if err != nil {
			next = []string{} // asynq logs the outage of Redis
		}
		strangers, last, asked = next, time.Now(), now
	}
}

// repair compares the active tasks in Redis with the active tasks of this process. A task whose handler returned before
// the previous repair, or before this one if `before` is nil, is removed. A task without a delivery in this process is
// unknown. It returns to the queue at once if `before` is nil. Otherwise it returns only if `before` contains it,
// because the task may be in transit from Redis to its handler. A task that asynq received is refused if `before`
// contains it and it still has no handler. repair returns the unknown tasks, as `before` for the next call.
func (s *service) repair(ctx context.Context, before []string) (strangers []string, err error) {
	var active, failed *redis.StringSliceCmd
	_, err = s.queue.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		active = p.LRange(ctx, key(s.node, "active"), 0, -1)
		failed = p.ZRange(ctx, key(s.node, "retry"), 0, -1)
		return nil
	})
	if err != nil {
		return nil, away(ctx, err)
	}
	var back, finished, refused []string
	strangers = []string{}
	given, held := setOf(s.prefetcher.gave()), setOf(s.prefetcher.held())
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
		switch d := s.queue.deliveries.get(s.node, id); {
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
	if err := s.move(ctx, putBackScript, back); err != nil {
		return nil, err
	}
	if err := s.move(ctx, finishScript, finished); err != nil {
		return nil, err
	}
	if err := s.refuse(ctx, refused); err != nil {
		return nil, err
	}
	return strangers, s.forget(ctx)
}

func setOf(ids []string) map[string]bool {
	set := make(map[string]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}

// refuse removes tasks that asynq received without calling a handler, because it cannot decode them or because they had
// expired. Otherwise asynq would receive them again and again. The sender detects that the task is missing and sends
// another delivery.
func (s *service) refuse(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	if err := s.move(ctx, finishScript, ids); err != nil {
		return err
	}
	s.prefetcher.done(ids...)
	// An attacker with access to Redis can add any number of such tasks under any name.
	if times, say := s.queue.unreadable.Say("", time.Now()); say {
		s.queue.log().WarnContext(ctx, "unreadable tasks were removed from the queue", "code", writ.CodeBadRequest,
			"node", s.node, "tasks", len(ids), "times", times)
	}
	return nil
}

// move runs putBackScript or finishScript on tasks, in chunks of maxMoved.
func (s *service) move(ctx context.Context, script script, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	keys := []string{key(s.node, "active"), key(s.node, "lease"), key(s.node, "retry"), key(s.node, "pending")}
	for some := range slices.Chunk(ids, maxMoved) {
		failpoint.TasksMoved.Begin()
		err := script.Run(ctx, s.queue.client, keys, arguments(s.node, some)...).Err()
		failpoint.TasksMoved.End(err)
		if err != nil {
			return away(ctx, err)
		}
	}
	return nil
}

// forget drops the deliveries of finished tasks that are no longer in Redis.
func (s *service) forget(ctx context.Context) error {
	gone, err := goneTasks(ctx, s.queue.client, s.node, s.queue.deliveries.over(s.node))
	if err != nil {
		return err
	}
	s.queue.deliveries.forget(s.node, gone...)
	return nil
}
