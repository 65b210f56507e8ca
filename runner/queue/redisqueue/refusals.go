package redisqueue

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"writ"
	"writ/runner/queue"
)

// Redis notes whole names that a user may not use in a log, which going through keys does not find and which stays when the user is gone. It has
// 128 entries, and an entry can have as much as a request.

const (
	refusalsRead = 1000    // entries of the log: all, unless the operator wants a longer one
	refusalLong  = 4 << 10 // bytes of an entry that nobody means
	refusalsMost = 1 << 20 // bytes of such entries in the log
)

// refusals clears that log if it takes much memory, and returns the nodes that had it take that. A supervisor that may not read it leaves it:
// Examine says so.
func (a *Accounts) refusals(ctx context.Context) ([]queue.Finding, error) {
	entries, err := a.queue.reader.Do(ctx, "acl", "log", refusalsRead).Slice() // the filter on this connection bounds what it reads
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case redis.HasErrorPrefix(err, "NOPERM"), redis.HasErrorPrefix(err, "ERR"): // an older Redis has no users either
		return nil, nil
	}
	var total int64
	nodes := map[writ.NodeID]queue.Finding{}
	for _, e := range entries {
		size, client := refusal(e)
		if size < refusalLong {
			continue
		}
		total += size
		if node, is := a.nodeOf(usersIn(client)); is {
			f := nodes[node]
			nodes[node] = queue.Finding{Node: node, Offence: queue.OverBudget, Count: f.Count + 1, Bytes: f.Bytes + size}
		}
	}
	if err == nil && total < refusalsMost {
		return nil, nil
	}
	if err := a.queue.client.ACLLogReset(ctx).Err(); err != nil { // also if it is too large to be read in time
		return nil, err
	}
	var found []queue.Finding
	for _, f := range nodes {
		f.What = fmt.Sprintf("it had Redis keep %d KiB of names that it may not use", f.Bytes>>10)
		found = append(found, f)
	}
	return found, err
}

// refusal returns about how long an entry is, and whose connection it is about. Its username is what somebody said who failed to log in.
func refusal(entry any) (size int64, client string) {
	fields := map[string]any{}
	switch e := entry.(type) {
	case map[any]any:
		for k, v := range e {
			fields[fmt.Sprint(k)] = v
		}
	case []any:
		for i := 1; i < len(e); i += 2 {
			fields[fmt.Sprint(e[i-1])] = e[i]
		}
	}
	for _, v := range fields {
		text, _ := v.(string)
		if _, stands, ok := marked(text); ok {
			size += stands
			continue
		}
		size += int64(len(text))
	}
	client, _ = fields["client-info"].(string)
	return size, client
}
