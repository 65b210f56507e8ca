package redisqueue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"writ"
	"writ/runner/queue"
)

// A node may write any key with the prefix of its queue, so its memory is measured by scanning all keys: a part in each
// survey, in repeated passes. Each pass counts from zero. It reports a node as soon as the count of the node exceeds
// the budget, before the end of the pass. A pass follows sweepRest after the last one. If the memory of all keys has
// grown since the last pass by more than the budget of one node, a new pass starts at once and runs faster.

// Limits of one survey.
const (
	sweepScripts = 20  // maximum number of scripts
	sweepKeys    = 500 // approximate number of keys per script
	fastScripts  = 200 // maximum number of scripts in a fast pass
	sweepRest    = 5 * time.Second
	// maxSwept limits the nodes of a pass, because key names may contain invented nodes. Further nodes are not measured.
	maxSwept = 50_000
)

// sweep is a pass through all keys.
type sweep struct {
	cursor string
	has    map[writ.NodeID]belongings
	fast   bool
	ended  time.Time // end of the last complete pass
	began  int64     // bytes of all keys at the start of the pass, or the lowest number of bytes since then
	before int64     // began of the last complete pass
	sum    int64     // bytes of all nodes so far
	keys   int64     // bytes of all nodes in the last complete pass
	others int64     // bytes that are neither keys of nodes nor names of their connections
}

// unexplained reports whether Redis uses more memory than its keys explain, by an amount that puts a node over its
// budget. used is as for begin.
func (s *sweep) unexplained(used int64) bool {
	s.others = min(s.others, max(used-s.keys, 0))
	return used > s.keys+s.others+queue.BudgetBytes
}

// belongings is the memory use of a node in Redis. long counts the bytes of lists and sorted sets with entries longer
// than task IDs: a script of asynq reads all entries at once, and long entries block Redis for a second even within the
// budget.
type belongings struct{ bytes, items, keys, long int64 }

// over returns a finding if the node exceeds its budget.
func (h belongings) over(node writ.NodeID) (queue.Finding, bool) {
	f := queue.Finding{Node: node, Offence: queue.OverBudget, Count: h.items, Bytes: h.bytes}
	switch {
	case h.bytes > queue.BudgetBytes, h.items > queue.BudgetEntries:
		return f, true
	case h.long > 0:
		f.What = fmt.Sprintf("it had %d KiB in lists of tasks whose entries are not ids", h.long>>10)
		return f, true
	case h.keys > queue.BudgetKeys:
		f.What = fmt.Sprintf("it had %d keys in the queue; %d are allowed", h.keys, queue.BudgetKeys)
		return f, true
	}
	return f, false
}

// A node chooses the length of its key names. A script that reads several long names at once blocks Redis for too long.
// Therefore, scripts read one key at a time, or up to ten keys if Redis has many keys, and stop after 1 MiB of names.
const someKeys = `
local cursor, left, names = ARGV[1], tonumber(ARGV[2]), 0
local at_once = math.max(1, math.min(10, math.floor(redis.call("DBSIZE") / 1000)))
local function some(...)
	local found = redis.call("SCAN", cursor, "COUNT", at_once, ...)
	cursor, left = found[1], left - at_once
	for _, key in ipairs(found[2]) do
		names = names + #key
	end
	if cursor == "0" or names > 1048576 then
		left = 0
	end
	return found[2]
end
`

// sweepScript measures some keys. ARGV: cursor, approximate number of keys. It returns the next cursor, and then for
// each node: its ID, bytes, entries, keys, bytes of lists with long entries, and keys of the wrong type. The script
// runs with the supervisor's rights; nodes may not use its commands.
var sweepScript = newScript(someKeys + `
local lengths = {list = "LLEN", zset = "ZCARD", set = "SCARD", hash = "HLEN", stream = "XLEN"}
local types = {
	["asynq:pending"] = "list", ["asynq:active"] = "list", ["asynq:lease"] = "zset", ["asynq:retry"] = "zset",
	["asynq:paused"] = "none", ["writ:in"] = "stream", ["writ:out"] = "stream"
}
local bytes, items, keys, long, wrong, order = {}, {}, {}, {}, {}, {}
while left > 0 do
	for _, key in ipairs(some()) do
		local by, node, name = string.match(key, "^(%a+:){([^}]*)}:(.*)$")
		if by == "asynq:" or by == "writ:" then
			if not bytes[node] then
				bytes[node], items[node], keys[node], long[node], wrong[node] = 0, 0, 0, 0, 0
				order[#order + 1] = node
			end
			local size = redis.call("MEMORY", "USAGE", key, "SAMPLES", "0") or 0
			local kind = redis.call("TYPE", key)
			kind = kind.ok or kind
			local length = lengths[kind] and redis.call(lengths[kind], key) or 1
			bytes[node], items[node], keys[node] = bytes[node] + size, items[node] + length, keys[node] + 1
			if (kind == "list" or kind == "zset") and size > #key + 65536 + 512 * length then
				long[node] = long[node] + size
			end
			if #name < 16 and types[by .. name] and types[by .. name] ~= kind then
				wrong[node] = wrong[node] + 1
			end
		end
	end
end
local all = {cursor}
for _, node in ipairs(order) do
	all[#all + 1] = node
	all[#all + 1] = string.format("%.0f", bytes[node])
	all[#all + 1] = string.format("%.0f", items[node])
	all[#all + 1] = string.format("%.0f", keys[node])
	all[#all + 1] = string.format("%.0f", long[node])
	all[#all + 1] = string.format("%.0f", wrong[node])
end
return all`)

// Survey implements queue.Accounts.
func (a *Accounts) Survey(ctx context.Context) ([]queue.Finding, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := a.queue.offences.take()
	info, err := a.queue.info(ctx)
	if err != nil {
		return found, err
	}
	used := dataset(info)
	for range a.sweep.begin(used) {
		over, spoiled, whole, err := a.sweep.next(ctx, a.queue.client)
		for _, node := range spoiled {
			if err == nil {
				_, err = a.queue.deleteMistyped(ctx, node)
			}
		}
		if err != nil {
			return found, away(ctx, err)
		}
		found = append(found, over...)
		if whole {
			break
		}
	}
	if a.sweep.complete() { // the size of the keys is known
		named, err := a.named(ctx, used)
		found = append(found, named...)
		if err != nil {
			return found, err
		}
	}
	crowds, err := a.crowds(ctx, info)
	if err != nil {
		return found, err
	}
	found = append(found, crowds...)
	refused, err := a.refusals(ctx)
	return append(found, refused...), away(ctx, err)
}

// begin starts a new pass if the previous pass is complete or a fast pass is needed. It returns the number of scripts
// to run in this survey. used is the memory of the keys, or 0 if unknown.
func (s *sweep) begin(used int64) (scripts int) {
	s.began, s.before = min(s.began, used), min(s.before, used)
	fast := s.fast || used > s.before+queue.BudgetBytes
	if s.complete() && !fast && time.Since(s.ended) < sweepRest {
		return 0
	}
	if s.cursor == "" || s.complete() || fast && !s.fast {
		*s = sweep{
			cursor: "0", has: map[writ.NodeID]belongings{}, began: used, before: s.before, keys: s.keys, others: s.others,
		}
	}
	if s.fast = fast; fast {
		return fastScripts
	}
	return sweepScripts
}

// complete reports whether the last pass is complete.
func (s *sweep) complete() bool { return s.cursor == "0" && !s.ended.IsZero() }

// next measures some more keys. It returns the nodes over their budget (over), the nodes with keys of the wrong type
// (spoiled), and whether all keys were visited (whole).
func (s *sweep) next(
	ctx context.Context, client *redis.Client,
) (over []queue.Finding, spoiled []writ.NodeID, whole bool, err error) {
	words, err := sweepScript.Run(ctx, client, nil, s.cursor, sweepKeys).StringSlice()
	if err != nil || len(words) == 0 {
		return nil, nil, true, err
	}
	s.cursor = words[0]
	for one := range slices.Chunk(words[1:], 6) {
		node := writ.NodeID(one[0])
		if len(one) < 6 || !writ.ValidUUID(one[0]) {
			continue
		}
		if _, known := s.has[node]; !known && len(s.has) >= maxSwept {
			continue
		}
		s.sum += number(one[1])
		h := s.has[node]
		h.bytes, h.items, h.keys, h.long = h.bytes+
			number(one[1]), h.items+number(one[2]), h.keys+number(one[3]), h.long+number(one[4])
		if number(one[5]) > 0 {
			spoiled = append(spoiled, node)
		}
		if f, is := h.over(node); is {
			over, h = append(over, f), belongings{}
		}
		s.has[node] = h
	}
	if s.cursor == "0" {
		s.before, s.keys, s.fast, s.ended = s.began, s.sum, false, time.Now()
	}
	return over, spoiled, s.cursor == "0", nil
}

// clearScript deletes some keys. ARGV: cursor, approximate number of keys to visit, pattern. It returns the next
// cursor.
var clearScript = newScript(someKeys + `
while left > 0 do
	for _, key in ipairs(some("MATCH", ARGV[3])) do
		redis.call("UNLINK", key)
	end
end
return cursor`)

// Clear implements queue.Accounts.
func (a *Accounts) Clear(ctx context.Context, node writ.NodeID) error {
	if !writ.ValidUUID(string(node)) {
		return writ.Errorf(writ.CodeInternal, "%q is not the id of a node", node)
	}
	client := a.queue.client
	err := func() error {
		for _, pattern := range []string{key(node, "*"), streamKey(queue.Stream{Node: node, Direction: "*"})} {
			for cursor, first := "0", true; cursor != "0" || first; first = false {
				var err error
				if cursor, err = clearScript.Run(ctx, client, nil, cursor, sweepKeys, pattern).Text(); err != nil {
					return err
				}
			}
		}
		return nil
	}()
	for _, d := range []queue.Direction{queue.In, queue.Out} {
		a.queue.lose([]queue.Stream{{Node: node, Direction: d}})
	}
	return away(ctx, err)
}
