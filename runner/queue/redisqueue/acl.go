package redisqueue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"writ"
	"writ/internal/failpoint"
	"writ/runner/queue"
)

// allowance is what an account may do with some keys.
type allowance struct {
	keys     []string // patterns; {node} stands for the node's id in braces
	channels []string
	commands []string
}

// allowances are all that a node needs, found out with asynq 0.26 by taking away one after the other. Scripts run with the rights of the
// account that calls them, so the commands in asynq's and our own scripts are here too. Whatever is not named is refused.
var allowances = []allowance{
	{ // the node's queue
		keys: []string{"~asynq:{node}:*"},
		commands: []string{
			"eval", "evalsha",
			"exists", "del", "hget", "hset", "hdel",
			"lrange", "lrem", "rpush", "rpoplpush", "blmove",
			"zadd", "zrange", "zrangebyscore", "zrem", "zremrangebyscore",
		},
	},
	{ // what the supervisor tells it
		keys:     []string{"~writ:{node}:in"},
		commands: []string{"xreadgroup", "xack", "xdel", "xgroup|create"},
	},
	{ // what it tells the supervisor; it cannot read there
		keys:     []string{"%W~writ:{node}:out"},
		commands: []string{"xadd"},
	},
	{ // where asynq would be told to cancel tasks: it insists on listening, and on hearing that the line is alive; nobody speaks there
		channels: []string{"&asynq:cancel"},
		commands: []string{"subscribe", "ping"},
	},
}

// rules returns what ACL SETUSER is told of a node whose password has this hash. db is the database's number: only those who are not in
// the first one must choose it.
func rules(node writ.NodeID, hash string, db int, allowances []allowance) []string {
	all := []string{"reset", "on", "#" + hash}
	if db != 0 {
		all = append(all, "+select")
	}
	for _, a := range allowances {
		words := make([]string, 0, len(a.keys)+len(a.channels)+len(a.commands))
		for _, k := range a.keys {
			words = append(words, strings.ReplaceAll(k, "{node}", "{"+string(node)+"}"))
		}
		words = append(words, a.channels...)
		for _, c := range a.commands {
			words = append(words, "+"+c)
		}
		all = append(all, "("+strings.Join(words, " ")+")")
	}
	return all
}

// Accounts gives the nodes of a datacenter users of Redis. It needs Redis 7, and a login that may use ACL SETUSER, DELUSER and LIST.
type Accounts struct {
	queue  *Queue
	prefix string
}

var _ queue.Accounts = (*Accounts)(nil)

// Accounts returns the accounts of a datacenter. Redis has its users for all databases, so their names have the datacenter in them.
func (q *Queue) Accounts(datacenter writ.DatacenterID) *Accounts {
	return &Accounts{queue: q, prefix: "writ:" + string(datacenter) + ":"}
}

// User implements queue.Accounts.
func (a *Accounts) User(node writ.NodeID) string { return a.prefix + string(node) }

// Settle implements queue.Accounts.
func (a *Accounts) Settle(ctx context.Context, passwords map[writ.NodeID]string) error {
	lines, err := a.queue.client.ACLList(ctx).Result()
	if err != nil {
		return unsupported(ctx, err)
	}
	_, _, needed := parseUser("user NAME on " + strings.Join(rules("", "", a.queue.client.Options().DB, allowances), " "))
	have := make(map[string]string) // hash of the password by user, of those that may do what they should
	for _, line := range lines {
		name, hash, commands := parseUser(line)
		if !strings.HasPrefix(name, a.prefix) {
			continue
		}
		if !slices.Equal(commands, needed) {
			hash = "" // made by another version of this program
		}
		have[name] = hash
	}
	failpoint.Begin(ctx)
	_, err = a.queue.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for node, password := range passwords {
			name, hash := a.User(node), hashOf(password)
			if !writ.ValidUUID(string(node)) {
				return fmt.Errorf("%q is not the id of a node", node) // it would become part of a pattern
			}
			if have[name] != hash {
				p.ACLSetUser(ctx, name, rules(node, hash, a.queue.client.Options().DB, allowances)...)
			}
			delete(have, name)
		}
		for name := range have {
			p.ACLDelUser(ctx, name)
		}
		return nil
	})
	failpoint.End(ctx, err)
	return unsupported(ctx, err)
}

// parseUser reads a line of ACL LIST: "user NAME on sanitize-payload #HASH … (~KEYS … +COMMAND …) …". What is off has no hash. Commands
// are sorted.
func parseUser(line string) (name, hash string, commands []string) {
	words := strings.Fields(line)
	if len(words) < 3 || words[0] != "user" {
		return "", "", nil
	}
	for _, w := range words[3:] {
		if text, ok := strings.CutPrefix(w, "#"); ok && words[2] == "on" {
			hash = text
		}
		if text, ok := strings.CutPrefix(w, "+"); ok {
			commands = append(commands, strings.TrimSuffix(text, ")"))
		}
	}
	slices.Sort(commands)
	return words[1], hash, commands
}

func hashOf(password string) string {
	sum := sha256.Sum256([]byte(password))
	return hex.EncodeToString(sum[:])
}

// unsupported tells a Redis that has no accounts for us from one that is away.
func unsupported(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return away(ctx, err)
	}
	why := ""
	switch text := err.Error(); {
	case strings.HasPrefix(text, "NOPERM"):
		why = "the supervisor's user at Redis may not manage users; it needs +acl|list +acl|setuser +acl|deluser"
	case strings.HasPrefix(text, "ERR unknown command"), strings.HasPrefix(text, "ERR unknown subcommand"):
		why = "this Redis does not have users"
	case strings.Contains(text, "ACL SETUSER modifier"):
		why = "this Redis is older than version 7"
	default:
		return away(ctx, err)
	}
	return fmt.Errorf("%s: %w", why, errors.ErrUnsupported)
}
