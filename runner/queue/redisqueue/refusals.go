package redisqueue

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"writ"
	"writ/runner/queue"
)

// Redis logs the full names of forbidden keys and commands. This log is not stored in a key, and remains when the user
// is deleted. It has 128 entries by default, each as large as a request.

const (
	refusalsRead = 1000    // number of entries to read: all, unless the operator configured a longer log
	refusalLong  = 4 << 10 // minimum size in bytes of a suspicious entry
	refusalsMost = 1 << 20 // limit in bytes for all suspicious entries
)

// refusals clears the log if it uses much memory, and returns the responsible nodes. Without the right to read the log
// it has no effect; Examine reports that.
func (a *Accounts) refusals(ctx context.Context) ([]queue.Finding, error) {
	// The filter on this connection limits the reply.
	entries, err := a.queue.reader.Do(ctx, "acl", "log", refusalsRead).Slice()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case redis.HasErrorPrefix(err, "NOPERM"), redis.HasErrorPrefix(err, "ERR"): // an older Redis also has no users
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
	if err := a.queue.client.ACLLogReset(ctx).Err(); err != nil { // also clears a log that is too large to read
		return nil, err
	}
	var found []queue.Finding
	for _, f := range nodes {
		f.What = fmt.Sprintf("it filled the log of Redis with %d KiB of forbidden names", f.Bytes>>10)
		found = append(found, f)
	}
	return found, err
}

// refusal returns the approximate size of an entry of the log, and the description of the connection that caused the
// entry. It ignores the username field, because a client that failed to log in chose it freely.
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
