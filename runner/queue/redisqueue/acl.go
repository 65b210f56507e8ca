package redisqueue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"writ"
	"writ/internal/failpoint"
	"writ/runner/queue"
)

// allowance holds the rights of an account for some keys.
type allowance struct {
	keys     []string // patterns; {node} stands for the node's ID in braces
	channels []string
	commands []string
}

// allowances are the minimal rights of a node, determined with asynq 0.26 by removing each right in turn. Scripts run
// with the rights of the calling account, so the commands in asynq's and our own scripts are included. All other
// commands are forbidden. EVAL and SCRIPT LOAD are excluded, because with its own script a node could fill or block
// Redis (see scripts.go). XGROUP is excluded as well: names of groups use memory that MEMORY USAGE does not count, so
// the supervisor creates the only group of a node's stream.
var allowances = []allowance{
	{ // the node's queue
		keys: []string{"~asynq:{node}:*"},
		commands: []string{
			"evalsha",
			"exists", "del", "hget", "hset", "hdel",
			"lrange", "lrem", "rpush", "blmove",
			"zadd", "zrange", "zrangebyscore", "zrem",
		},
	},
	{ // messages from the supervisor
		keys:     []string{"~writ:{node}:in"},
		commands: []string{"xreadgroup", "xack", "xdel"},
	},
	{ // messages to the supervisor; the node cannot read them
		keys:     []string{"%W~writ:{node}:out"},
		commands: []string{"xadd"},
	},
	{ // asynq's channel for cancelled tasks: asynq always subscribes to it and pings; writ does not use it
		channels: []string{"&asynq:cancel"},
		commands: []string{"subscribe", "ping"},
	},
}

// rules returns the arguments of ACL SETUSER for a node with the hash of its password. db is the number of the
// database; clients select the database only if its number is not 0.
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

// anyPrefix is the prefix of the names of all users that supervisors create.
const anyPrefix = "writ:"

// Accounts manages the Redis users of a datacenter's nodes. It needs Redis 7, and a login that may use ACL SETUSER,
// DELUSER and LIST.
type Accounts struct {
	queue  *Queue
	prefix string

	mu     sync.Mutex // serialises surveys
	sweep  sweep
	listed struct { // the last list of connections
		connections int64
		at          time.Time
	}
}

var _ queue.Accounts = (*Accounts)(nil)

// Accounts returns the accounts of a datacenter. Users of Redis are common to all databases, so their names contain the
// datacenter.
func (q *Queue) Accounts(datacenter writ.DatacenterID) *Accounts {
	return &Accounts{queue: q, prefix: anyPrefix + string(datacenter) + ":"}
}

// User implements queue.Accounts.
func (a *Accounts) User(node writ.NodeID) string { return a.prefix + string(node) }

// Apply implements queue.Accounts. It also loads the scripts and creates the stream groups that nodes need.
//
// The rights of a user may differ from rules: another version of this program created the user, or an operator changed
// it. Apply deletes such a user together with its connections and creates it again. The node then reconnects.
func (a *Accounts) Apply(ctx context.Context, passwords map[writ.NodeID]string) error {
	lines, err := a.queue.client.ACLList(ctx).Result()
	if err != nil {
		return unsupported(ctx, err)
	}
	db := a.queue.client.Options().DB
	_, _, rights := parseUser("user : on " + strings.Join(rules("", "", db, allowances), " "))
	type user struct {
		hash    string
		current bool // the user has the rights that this version gives
	}
	have := make(map[string]user)
	for _, line := range lines {
		if name, hash, is := parseUser(line); strings.HasPrefix(name, a.prefix) {
			have[name] = user{hash, slices.Equal(is, rights)}
		}
	}
	failpoint.Begin(ctx)
	_, err = a.queue.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for node, password := range passwords {
			if !writ.ValidUUID(string(node)) {
				return fmt.Errorf("%q is not the id of a node", node) // the ID would become part of a pattern
			}
			name, want := a.User(node), user{hashOf(password), true}
			is, known := have[name]
			if known && !is.current {
				p.ACLDelUser(ctx, name)
			}
			if is != want {
				p.ACLSetUser(ctx, name, rules(node, want.hash, db, allowances)...)
			}
			delete(have, name)
		}
		for name := range have {
			p.ACLDelUser(ctx, name)
		}
		return nil
	})
	failpoint.End(ctx, err)
	if err == nil {
		err = loadScripts(ctx, a.queue.client)
	}
	if err == nil {
		err = a.queue.makeStreams(ctx, inStreams(passwords))
	}
	return unsupported(ctx, err)
}

// Instance implements queue.Accounts. It consists of the id that Redis draws when it starts, and the mark of the supervisor.
// If Redis does not permit INFO, it is only the mark.
func (a *Accounts) Instance(ctx context.Context) (string, error) {
	mark, err := a.queue.Generation(ctx)
	if err != nil {
		return "", err
	}
	text, err := a.queue.client.Info(ctx, "server").Result()
	return infoOf(text)["run_id"] + " " + mark, unlessRefused(ctx, err)
}

// inStreams returns the streams that the nodes with accounts read.
func inStreams(passwords map[writ.NodeID]string) []queue.Stream {
	streams := make([]queue.Stream, 0, len(passwords))
	for node := range passwords {
		streams = append(streams, queue.Stream{Node: node, Direction: queue.In})
	}
	return streams
}

// parseUser parses a line of ACL LIST: "user NAME on sanitize-payload #HASH … (~KEYS … +COMMAND …) …". Each element of
// rights holds the sorted keys, channels and commands of one pair of parentheses; {} stands for the node's ID in
// braces. A disabled user has no hash. With two passwords, hash is both hashes joined, which equals no valid hash.
func parseUser(line string) (name, hash string, rights []string) {
	words := strings.Fields(line)
	if len(words) < 3 || words[0] != "user" {
		return "", "", nil
	}
	name = words[1]
	own := "{" + name[strings.LastIndexByte(name, ':')+1:] + "}"
	var some []string
	end := func() {
		if len(some) > 0 {
			slices.Sort(some)
			rights = append(rights, strings.Join(some, " "))
		}
		some = nil
	}
	for _, w := range words[3:] {
		w, begins := strings.CutPrefix(w, "(")
		w, ends := strings.CutSuffix(w, ")")
		if begins {
			end()
		}
		if text, ok := strings.CutPrefix(w, "#"); ok && words[2] == "on" {
			hash += text
		}
		if isRight(w) {
			some = append(some, strings.ReplaceAll(w, own, "{}"))
		}
		if ends {
			end()
		}
	}
	end()
	return name, hash, rights
}

// isRight reports whether a word of ACL LIST allows something: keys, channels, commands, or a login without a password.
// Other words are defaults, which differ between versions of Redis.
func isRight(word string) bool {
	return word != "" && strings.ContainsRune("~%&+", rune(word[0])) || word == "nopass"
}

func hashOf(password string) string {
	sum := sha256.Sum256([]byte(password))
	return hex.EncodeToString(sum[:])
}

// unsupported returns an error that wraps errors.ErrUnsupported if Redis has no accounts or the supervisor may not
// manage them. It converts any other error with away.
func unsupported(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return away(ctx, err)
	}
	why := ""
	switch {
	case redis.IsPermissionError(err):
		why = "the supervisor's user at Redis may not manage users; it needs +acl|list +acl|setuser +acl|deluser"
	// These error replies of Redis have no code, only a text.
	case redis.HasErrorPrefix(err, "unknown command"), redis.HasErrorPrefix(err, "unknown subcommand"):
		why = "this Redis does not have users"
	case strings.Contains(err.Error(), "ACL SETUSER modifier"):
		why = "this Redis is older than version 7"
	default:
		return away(ctx, err)
	}
	return fmt.Errorf("%s: %w", why, errors.ErrUnsupported)
}
