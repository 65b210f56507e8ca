package redisqueue

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"writ"
	"writ/runner/queue"
)

// A node may write any key that begins with the name of its queue, so what it has in Redis is found by going through all keys: a part at each
// survey, and all over again when that is done. What a node has is counted from the beginning of a pass, so one that has more than it may is found
// in the middle of it.

// Of one survey.
const (
	sweepScripts = 20  // scripts at most
	sweepKeys    = 500 // keys that one script looks at, about
)

// sweep is a pass through all keys.
type sweep struct {
	cursor string
	bytes  map[writ.NodeID]int64
	items  map[writ.NodeID]int64
}

// sweepScript looks at some keys. ARGV: cursor, about how many. It returns the next cursor, and then node, bytes and entries in turns. It runs as the
// supervisor: no node may use what is in it.
var sweepScript = newScript(`
local lengths = {list = "LLEN", zset = "ZCARD", set = "SCARD", hash = "HLEN", stream = "XLEN"}
local found = redis.call("SCAN", ARGV[1], "COUNT", ARGV[2])
local bytes, items, order = {}, {}, {}
for _, key in ipairs(found[2]) do
	local node = string.match(key, "^asynq:{([^}]*)}:") or string.match(key, "^writ:{([^}]*)}:")
	if node then
		if not bytes[node] then
			bytes[node], items[node] = 0, 0
			order[#order + 1] = node
		end
		bytes[node] = bytes[node] + (redis.call("MEMORY", "USAGE", key, "SAMPLES", "0") or 0)
		local kind = redis.call("TYPE", key)
		local length = lengths[kind.ok or kind]
		items[node] = items[node] + (length and redis.call(length, key) or 1)
	end
end
local all = {found[1]}
for _, node in ipairs(order) do
	all[#all + 1] = node
	all[#all + 1] = string.format("%.0f", bytes[node])
	all[#all + 1] = string.format("%.0f", items[node])
end
return all`)

// Survey implements queue.Accounts.
func (a *Accounts) Survey(ctx context.Context) ([]queue.Finding, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := a.queue.offences.take()
	for range sweepScripts {
		over, whole, err := a.sweep.next(ctx, a.queue.client)
		if err != nil {
			return found, away(ctx, err)
		}
		found = append(found, over...)
		if whole {
			break
		}
	}
	refused, err := a.refusals(ctx)
	return append(found, refused...), away(ctx, err)
}

// next looks at some more keys. It returns the nodes that have more than they may by now, and whether all keys were seen.
func (s *sweep) next(ctx context.Context, client *redis.Client) (over []queue.Finding, whole bool, err error) {
	if s.cursor == "" || s.cursor == "0" {
		*s = sweep{cursor: "0", bytes: map[writ.NodeID]int64{}, items: map[writ.NodeID]int64{}}
	}
	words, err := sweepScript.Run(ctx, client, nil, s.cursor, sweepKeys).StringSlice()
	if err != nil || len(words) == 0 {
		return nil, true, err
	}
	s.cursor = words[0]
	for one := range slices.Chunk(words[1:], 3) {
		node := writ.NodeID(one[0])
		if len(one) < 3 || !writ.ValidUUID(one[0]) {
			continue
		}
		s.bytes[node] += number(one[1])
		s.items[node] += number(one[2])
		if s.bytes[node] > queue.BudgetBytes || s.items[node] > queue.BudgetEntries {
			over = append(over, queue.Finding{Node: node, Offence: queue.OverBudget, Count: s.items[node], Bytes: s.bytes[node]})
			s.bytes[node], s.items[node] = 0, 0
		}
	}
	return over, s.cursor == "0", nil
}

// Clear implements queue.Accounts.
func (a *Accounts) Clear(ctx context.Context, node writ.NodeID) error {
	if !writ.ValidUUID(string(node)) {
		return writ.Errorf(writ.CodeInternal, "%q is not the id of a node", node)
	}
	client := a.queue.client
	err := func() error {
		for _, pattern := range []string{key(node, "*"), streamKey(queue.Stream{Node: node, Direction: "*"})} {
			for cursor, first := uint64(0), true; cursor != 0 || first; first = false {
				keys, next, err := client.Scan(ctx, cursor, pattern, sweepKeys).Result()
				if err != nil {
					return err
				}
				if len(keys) > 0 {
					if err := client.Unlink(ctx, keys...).Err(); err != nil {
						return err
					}
				}
				cursor = next
			}
		}
		return nil
	}()
	for _, d := range []queue.Direction{queue.In, queue.Out} {
		a.queue.lose([]queue.Stream{{Node: node, Direction: d}})
	}
	return away(ctx, err)
}

// belongs are the keys of a node whose type is known, and what it is.
func belongs(node writ.NodeID) map[string]string {
	all := map[string]string{key(node, "pending"): "list", key(node, "active"): "list"}
	for _, name := range []string{"lease", "retry", "scheduled", "completed", "archived"} {
		all[key(node, name)] = "zset"
	}
	for _, d := range []queue.Direction{queue.In, queue.Out} {
		all[streamKey(queue.Stream{Node: node, Direction: d})] = "stream"
	}
	return all
}

// mend removes what is under a name of nodes and is not what belongs there, tasks included, and says so of the node. It reports whether there was
// anything.
func (q *Queue) mend(ctx context.Context, node writ.NodeID, tasks ...string) (mended bool, err error) {
	types := belongs(node)
	for _, id := range tasks {
		types[key(node, taskKey+id)] = "hash"
	}
	are := make(map[string]*redis.StatusCmd, len(types))
	if _, err := q.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for key := range types {
			are[key] = p.Type(ctx, key)
		}
		return nil
	}); err != nil {
		return false, err
	}
	for key, cmd := range are {
		is := cmd.Val()
		if is == "none" || is == types[key] {
			continue
		}
		if err := q.client.Unlink(ctx, key).Err(); err != nil {
			return mended, err
		}
		mended = true
		name := key[strings.LastIndexByte(key, '}')+2:]
		if len(name) > len(taskKey) && strings.HasPrefix(name, taskKey) {
			name = "a task"
		}
		q.offences.add(queue.Finding{Node: node, Offence: queue.WrongType, Count: 1, What: name + " was a " + is})
	}
	return mended, nil
}

// mended does something once more if it failed because of what stands under a name of the node, after that was removed.
func (q *Queue) mended(ctx context.Context, node writ.NodeID, tasks []string, err error, again func() error) error {
	if !isWrongType(err) {
		return err
	}
	if ok, failed := q.mend(ctx, node, tasks...); failed != nil || !ok {
		return err // this one may not: it is a node's
	}
	return again()
}

// isWrongType reports whether Redis, or a script in it, found a key of another type than it needs.
func isWrongType(err error) bool { return err != nil && strings.Contains(err.Error(), "WRONGTYPE") }
