package redisqueue

import (
	"context"
	"slices"
	"strings"
)

// unfitServer finds a server that rejects writes or keys because of its role.
func unfitServer(info map[string]string) (found []Finding) {
	if info["role"] == "slave" {
		found = append(found, Finding{
			"it is a replica of " + info["master_host"] + ":" + info["master_port"] + ": it rejects writes, or loses them",
			"give the address of the primary in --redis",
		})
	}
	if info["cluster_enabled"] == "1" {
		found = append(found, Finding{
			"it is part of a Redis Cluster: it rejects the keys of other nodes of the cluster",
			"use a Redis with `cluster-enabled no`",
		})
	}
	return found
}

// ownCommands are the commands of the supervisor that nodes do not use.
var ownCommands = []string{"eval", "script", "get", "set", "unlink", "xgroup", "xlen", "acl"}

// missingCommands finds commands that the configuration of Redis renames or disables. Without the right to ask it
// returns nil.
func missingCommands(ctx context.Context, q *Queue) []Finding {
	needed := slices.Clone(ownCommands)
	for _, a := range allowances {
		needed = append(needed, a.commands...)
	}
	args := []any{"command", "info"}
	for _, name := range needed {
		args = append(args, name)
	}
	infos, err := q.client.Do(ctx, args...).Slice()
	if err != nil || len(infos) != len(needed) {
		return nil
	}
	var missing []string
	for i, info := range infos {
		if info == nil {
			missing = append(missing, needed[i])
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return []Finding{{
		"it lacks the commands " + strings.Join(missing, ", "),
		"remove rename-command from redis.conf, or use a Redis or Valkey of version 7 or later",
	}}
}
