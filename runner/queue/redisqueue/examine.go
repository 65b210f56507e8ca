package redisqueue

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// infoOf parses a reply to INFO.
func infoOf(text string) map[string]string {
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		info[name] = value
	}
	return info
}

// Limits for memory that a client can use beyond maxmemory, as recommended in docs/manual/redis.md.
const (
	mostString  = 16 << 20 // limit of proto-max-bulk-len
	mostEntries = 8        // limit of acllog-max-len and slowlog-max-len
)

// minMajor is the first major version of Redis with sufficient accounts for nodes.
const minMajor = 7

// Finding is an inadequate setting of Redis.
type Finding struct {
	What string // a sentence
	Fix  string // the remedy
}

// Examine checks the settings of Redis and returns its version and its inadequate settings. None of them leads to wrong
// results: lost data is delivered again, provided that Redis accepts writes.
func (q *Queue) Examine(ctx context.Context) (version string, found []Finding, err error) {
	text, err := q.client.Info(ctx).Result()
	if err != nil {
		if redis.IsPermissionError(err) {
			return "", []Finding{
				{"its settings cannot be read", "permit the supervisor's Redis user to read the information: ACL SETUSER name +info"},
			}, nil
		}
		return "", nil, away(ctx, err)
	}
	info := infoOf(text)
	version = info["redis_version"]
	first, _, _ := strings.Cut(version, ".")
	if major, err := strconv.Atoi(first); err != nil {
		return version, []Finding{{"its version is unknown", "use a Redis or Valkey of version 7 or later"}}, nil
	} else if major < minMajor {
		found = append(found,
			Finding{
				fmt.Sprintf("its version is %s; accounts for nodes need version %d or later", version, minMajor),
				"upgrade it",
			})
	}
	found = append(found, unfitServer(info)...)
	found = append(found, missingCommands(ctx, q)...)
	if policy := info["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		found = append(found, Finding{
			"maxmemory-policy is " + policy + ": when memory is short it drops work silently, and that is detected late",
			"redis-cli CONFIG SET maxmemory-policy noeviction, and the same in redis.conf",
		})
	}
	if info["maxmemory"] == "0" {
		found = append(found, Finding{
			"maxmemory is 0: it can use all memory of the host, until the kernel kills it or another process",
			"redis-cli CONFIG SET maxmemory 2gb, and the same in redis.conf: 64 MiB for each node are the most that nodes can keep there",
		})
	}
	// The following checks are skipped without the right to read settings.
	if limit, err := q.client.ConfigGet(ctx, "maxmemory-clients").Result(); err == nil &&
		limit["maxmemory-clients"] == "0" {
		found = append(found, Finding{
			"maxmemory-clients is 0: a node that sends many requests and never reads can fill its memory with answers",
			"redis-cli CONFIG SET maxmemory-clients 256mb, and the same in redis.conf",
		})
	}
	if limit, err := q.client.ConfigGet(ctx, "proto-max-bulk-len").Result(); err == nil &&
		number(limit["proto-max-bulk-len"]) > mostString {
		found = append(found, Finding{
			"proto-max-bulk-len is more than 16mb: a node can fill its memory beyond maxmemory at once, with names that are as long",
			"redis-cli CONFIG SET proto-max-bulk-len 16mb, and the same in redis.conf",
		})
	}
	for _, log := range []string{"acllog-max-len", "slowlog-max-len"} {
		if limit, err := q.client.ConfigGet(ctx, log).Result(); err == nil && number(limit[log]) > mostEntries {
			found = append(found, Finding{
				log +
					" is more than 8: a node can fill its memory beyond maxmemory at once, as each entry has a copy of the name of its connection",
				"redis-cli CONFIG SET " + log + " 8, and the same in redis.conf",
			})
		}
	}
	if info["aof_enabled"] == "0" {
		found = append(found, Finding{
			"appendonly is no: after each restart all open work is delivered again, which takes some seconds",
			"redis-cli CONFIG SET appendonly yes, and the same in redis.conf",
		})
	}
	if q.Login == nil && redis.HasErrorPrefix(q.reader.ACLLog(ctx, 1).Err(), "NOPERM") {
		found = append(found, Finding{
			"its log of refused users is not cleared, and a node can fill it with long names",
			"permit this to the supervisor's Redis user: ACL SETUSER name +acl|log; or acllog-max-len 0 in redis.conf",
		})
	}
	if q.Login == nil && redis.HasErrorPrefix(q.client.Do(ctx, "client", "list", "id", "1").Err(), "NOPERM") {
		found = append(found, Finding{
			"its connections cannot be counted, so one node can use all connections that it allows",
			"permit the supervisor's Redis user to list connections: ACL SETUSER name +client|list",
		})
	}
	if q.Login == nil && redis.HasErrorPrefix(q.client.ClientKillByFilter(ctx, "id", "0").Err(), "NOPERM") {
		found = append(found, Finding{
			"its connections cannot be closed, and a node can fill it with their names",
			"permit the supervisor's Redis user to close connections: ACL SETUSER name +client|kill",
		})
	}
	if o := q.client.Options(); o.Username == "" && o.Password == "" && q.Login == nil {
		found = append(found, Finding{
			"it has no password: every client that reaches it has all rights, and accounts of nodes are useless",
			"requirepass in redis.conf, and the password in the supervisor's --redis",
		})
	}
	return version, found, nil
}

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

// CommandCounts returns how often Redis has run each command since its start, including commands of scripts. The names
// are in lower case.
func CommandCounts(ctx context.Context, q *Queue) (map[string]int64, error) {
	text, err := q.client.Info(ctx, "commandstats").Result()
	if err != nil {
		return nil, away(ctx, err)
	}
	counts := make(map[string]int64)
	for field, value := range infoOf(text) {
		name, is := strings.CutPrefix(field, "cmdstat_")
		if calls, _, _ := strings.Cut(value, ","); is {
			counts[name] = number(strings.TrimPrefix(calls, "calls="))
		}
	}
	return counts, nil
}

// ownCommands are the commands of the supervisor that nodes do not use.
var ownCommands = []string{"eval", "script", "get", "set", "unlink", "xgroup", "xlen", "acl"}

// missingCommands finds commands that the configuration of Redis renames or disables. It returns nil if Redis does not
// answer COMMAND INFO, for example without the right to use it.
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
