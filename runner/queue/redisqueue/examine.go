package redisqueue

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// minMajor is the oldest major version of Redis whose accounts are fine enough for nodes.
const minMajor = 7

// Finding is something about a Redis that should be otherwise.
type Finding struct {
	What string // a sentence
	Fix  string // what to do about it
}

// Examine looks at the settings of Redis and returns its version and what should be otherwise. Nothing that it finds makes results
// wrong: what Redis loses is delivered again, but only as long as it takes what is sent.
func (q *Queue) Examine(ctx context.Context) (version string, found []Finding, err error) {
	text, err := q.client.Info(ctx).Result()
	if err != nil {
		if strings.HasPrefix(err.Error(), "NOPERM") {
			return "", []Finding{{"its settings cannot be seen", "let the supervisor's user at Redis use it: ACL SETUSER name +info"}}, nil
		}
		return "", nil, away(ctx, err)
	}
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		info[name] = value
	}
	version = info["redis_version"]
	first, _, _ := strings.Cut(version, ".")
	if major, err := strconv.Atoi(first); err != nil {
		return version, []Finding{{"it does not say which version it is", "use a Redis or Valkey of version 7 or later"}}, nil
	} else if major < minMajor {
		found = append(found, Finding{fmt.Sprintf("its version is %s; nodes have accounts of their own from version %d on", version, minMajor), "upgrade it"})
	}
	if policy := info["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		found = append(found, Finding{
			"maxmemory-policy is " + policy + ": when memory is short it drops work without a word, and that is noticed late",
			"redis-cli CONFIG SET maxmemory-policy noeviction, and the same in redis.conf",
		})
	}
	if info["aof_enabled"] == "0" {
		found = append(found, Finding{
			"appendonly is no: whenever it starts again everything that is open is delivered anew, which takes some seconds",
			"redis-cli CONFIG SET appendonly yes, and the same in redis.conf",
		})
	}
	if o := q.client.Options(); o.Username == "" && o.Password == "" && q.Login == nil {
		found = append(found, Finding{
			"it wants no password: whoever reaches it may do everything there, and accounts of nodes keep nobody out",
			"requirepass in redis.conf, and the password in the supervisor's --redis",
		})
	}
	return version, found, nil
}
