package redisqueue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"writ"
	"writ/internal/serveraddr"
	"writ/runner/queue"
)

// Redis has one limit for the connections of all users and rejects further connections. When half of the limit is in
// use, the connections of each node are counted. A client can give its connection a name of any length, which takes
// memory outside of keys. If Redis uses more memory than its keys explain, these names are measured.

// NodeConnections is the value of Server.Connections for nodes. Together with the other connections of go-redis, it
// stays within queue.BudgetConnections.
const NodeConnections = 16

// namesMost limits the bytes of the names of a node's connections. The limit is checked if Redis uses more memory than
// its keys explain.
const namesMost = 16 << 20

// named returns the nodes whose connections have long names, if Redis uses more memory than its keys explain. A list of
// these connections would take the same amount of memory again. Instead, named closes the connections of one node after
// another. No other command runs in between, so the freed memory is the size of their names. Nodes reconnect at once.
// Without the right to close connections it has no effect; Examine reports that.
func (a *Accounts) named(ctx context.Context, used int64) (found []queue.Finding, err error) {
	if !a.sweep.unexplained(used) {
		return nil, nil
	}
	lines, err := a.queue.client.ACLList(ctx).Result()
	if err != nil {
		return nil, unlessRefused(ctx, err)
	}
	for _, line := range lines {
		user, _, _ := parseUser(line)
		node, is := a.nodeOf(userField + user)
		if !is {
			continue
		}
		freed, closed, err := a.closeAll(ctx, user)
		if err != nil {
			return found, unlessRefused(ctx, err)
		}
		if freed > namesMost {
			found = append(found, queue.Finding{Node: node, Offence: queue.OverBudget, Count: closed, Bytes: freed,
				What: fmt.Sprintf("the names of its %d connections to the queue used %d MiB", closed, freed>>20)})
		}
	}
	// Each entry of the slow log has a copy of the name of a connection. Without the right to reset the log, the entries
	// remain until later ones displace them.
	_ = a.queue.client.Do(ctx, "slowlog", "reset").Err()
	left, err := a.queue.info(ctx)
	if err == nil {
		a.sweep.others = max(dataset(left)-a.sweep.keys, 0) // not caused by nodes
	}
	return found, err
}

// closeAll closes the connections of a user and returns their number and the freed memory. Redis executes commands from
// one packet without interruption. A transaction is not possible, because Redis rejects it when its memory is full.
func (a *Accounts) closeAll(ctx context.Context, user string) (freed, closed int64, err error) {
	var before, after *redis.StringCmd
	var killed *redis.IntCmd
	_, err = a.queue.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		before = p.Info(ctx, "memory")
		killed = p.ClientKillByFilter(ctx, "user", user)
		after = p.Info(ctx, "memory")
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	of := func(info *redis.StringCmd) int64 { return dataset(infoOf(info.Val())) }
	return of(before) - of(after), killed.Val(), nil
}

// dataset returns the bytes of Redis that hold data. Redis computes memory minus overhead as an unsigned number, and
// both change meanwhile. A negative difference appears as a number that exceeds an int64, and counts as 0.
func dataset(info map[string]string) int64 {
	bytes, err := strconv.ParseInt(info["used_memory_dataset"], 10, 64)
	if err != nil {
		return 0
	}
	return bytes
}

// unlessRefused returns nil for error replies of Redis.
func unlessRefused(ctx context.Context, err error) error {
	if _, refused := errors.AsType[redis.Error](err); refused {
		return nil
	}
	return away(ctx, err)
}

// A list of connections has 0.4 KB for each. If it has more than crowdMany, the next one is made after crowdRest, or as
// soon as one node may have opened too many connections.
const (
	crowdMany = 1000
	crowdRest = 5 * time.Second
)

// crowds returns the nodes with too many connections, if at least half of the limit of Redis is in use. Without the
// right to list connections it has no effect; Examine reports that.
func (a *Accounts) crowds(ctx context.Context, info map[string]string) (found []queue.Finding, err error) {
	taken := number(info["connected_clients"])
	if taken == 0 || taken <= number(info["maxclients"])/2 {
		return nil, nil
	}
	if more := taken - a.listed.connections; taken > crowdMany && more < queue.BudgetConnections &&
		time.Since(a.listed.at) < crowdRest {
		return nil, nil
	}
	a.listed.connections, a.listed.at = taken, time.Now()
	text, err := a.queue.reader.Do(ctx, "client", "list").Text() // the filter on this connection limits the reply
	if err != nil {
		return nil, unlessRefused(ctx, err)
	}
	connections := make(map[writ.NodeID]int64)
	for line := range strings.Lines(usersIn(text)) {
		if node, is := a.nodeOf(line); is {
			connections[node]++
		}
	}
	for node, n := range connections {
		if n > queue.BudgetConnections {
			found = append(found, queue.Finding{Node: node, Offence: queue.TooMany, Count: n})
		}
	}
	return found, nil
}

// nodeOf returns the node in a line of usersOf. It returns false if the user is not a node of this datacenter.
func (a *Accounts) nodeOf(line string) (writ.NodeID, bool) {
	id, is := strings.CutPrefix(strings.TrimSpace(line), userField+a.prefix)
	return writ.NodeID(id), is && writ.ValidUUID(id)
}

const (
	userField = "user="
	maxField  = 256     // maximum bytes of a field with a user
	maxUsers  = 1 << 17 // fields of a list of connections; a forged string that is not a list may have more
)

// usersOf extracts the user fields of a CLIENT LIST, or of the client info in an ACL LOG, one per line. Other fields
// can have any length, because a client chooses the name of its connection.
type usersOf struct {
	text  []byte
	most  int // maximum number of fields, because a forged string may have many; 0 means no limit
	kept  int
	field []byte
	long  bool
}

func (u *usersOf) write(some []byte) {
	for len(some) > 0 {
		if u.long {
			end := bytes.IndexByte(some, ' ')
			if end < 0 {
				end = len(some)
			}
			if line := bytes.IndexByte(some[:end], '\n'); line >= 0 {
				end = line
			}
			if some = some[end:]; len(some) == 0 {
				return
			}
		}
		b := some[0]
		some = some[1:]
		switch {
		case b != ' ' && b != '\n':
			if u.long = len(u.field) == maxField; !u.long {
				u.field = append(u.field, b)
			}
			continue
		case !u.long && bytes.HasPrefix(u.field, []byte(userField)) && (u.most == 0 || u.kept < u.most):
			u.text = append(append(u.text, u.field...), '\n')
			u.kept++
		}
		u.field, u.long = u.field[:0], false
	}
}

// usersIn returns the user fields of a text, even if the filter has replaced the text.
func usersIn(text string) string {
	if _, _, replaced := marked(text); replaced {
		_, text, _ = strings.Cut(text, "\n")
		return text
	}
	users := new(usersOf)
	users.write([]byte(text + "\n"))
	return string(users.text)
}

// parse parses the URL of a Redis. Its error, a USAGE error, contains no part of a password.
func parse(text string) (*redis.Options, error) {
	_, err := serveraddr.Parse(text)
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "the URL of Redis cannot be used: %v", err).
			WithHint("write redis://user:password@host:port/0 or unix:///path/to/redis.sock; %s", serveraddr.Hint)
	}
	options, err := redis.ParseURL(text)
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "the URL of Redis cannot be used: %v", err).
			WithHint("write redis://host:port/0, rediss://user:password@host:port/0 or unix:///path/to/redis.sock")
	}
	return options, nil
}
