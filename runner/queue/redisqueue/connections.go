package redisqueue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"writ"
	"writ/runner/queue"
)

// Redis limits connections of all users together, and refuses new ones beyond. When half of them are taken, those of each node are counted. A client gives
// its connection a name, which is as long as it likes and belongs to no key: when Redis keeps more than keys, these names are measured.

// NodeConnections is what a node sets Server.Connections to: with all that go-redis opens besides, it stays within queue.BudgetConnections.
const NodeConnections = 16

// namesMost is how many bytes of names the connections of a node may have when Redis keeps more than keys.
const namesMost = 16 << 20

// named returns the nodes whose connections have long names, if Redis keeps more than keys. To list such connections would take as much memory again, so
// those of one node after the other are closed, and what that frees is what their names took: nobody else does anything in between. Nodes connect
// again at once. A supervisor that may not close connections leaves it: Examine says so.
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
				What: fmt.Sprintf("its %d connections to the queue had names of %d MiB", closed, freed>>20)})
		}
	}
	_ = a.queue.client.Do(ctx, "slowlog", "reset").Err() // each entry has a copy of the name; a supervisor that may not do it lets them be displaced
	left, err := a.queue.info(ctx)
	if err == nil {
		a.sweep.others = max(dataset(left)-a.sweep.keys, 0) // it is not the nodes'
	}
	return found, err
}

// closeAll closes the connections of a user, and returns how many there were and how much memory that freed. Redis carries out what comes in one packet
// without a pause. It queues no transaction while its memory is full.
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

// dataset returns the bytes of Redis that hold data. Redis subtracts its overhead from its memory without a sign, and both change meanwhile. A
// difference below zero shows as a number that is too large for an int64. It counts as 0.
func dataset(info map[string]string) int64 {
	bytes, err := strconv.ParseInt(info["used_memory_dataset"], 10, 64)
	if err != nil {
		return 0
	}
	return bytes
}

// unlessRefused returns no error for what Redis refuses.
func unlessRefused(ctx context.Context, err error) error {
	if _, refused := errors.AsType[redis.Error](err); refused {
		return nil
	}
	return away(ctx, err)
}

// crowds returns the nodes with too many connections, if half of those that Redis allows are taken. A supervisor that may not list them leaves it:
// Examine says so.
func (a *Accounts) crowds(ctx context.Context, info map[string]string) (found []queue.Finding, err error) {
	if taken := number(info["connected_clients"]); taken == 0 || taken <= number(info["maxclients"])/2 {
		return nil, nil
	}
	text, err := a.queue.reader.Do(ctx, "client", "list").Text() // the filter on this connection bounds what it reads
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

// nodeOf reads a line of usersOf; false if the user is no node of this datacenter.
func (a *Accounts) nodeOf(line string) (writ.NodeID, bool) {
	id, is := strings.CutPrefix(strings.TrimSpace(line), userField+a.prefix)
	return writ.NodeID(id), is && writ.ValidUUID(id)
}

const (
	userField = "user="
	maxField  = 256 // bytes of a field with a user; the names of ours have half as many
)

// usersOf keeps the fields with the users of a CLIENT LIST, and of what an ACL LOG tells of a connection, each in a line. Each of the other fields can be
// as long as a client likes: its name is one.
type usersOf struct {
	text  []byte
	most  int // fields, any number if 0: a string that is no list can be made of anything
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

// usersIn is what usersOf keeps of a text, also of one that the filter has replaced by that.
func usersIn(text string) string {
	if _, _, replaced := marked(text); replaced {
		_, text, _ = strings.Cut(text, "\n")
		return text
	}
	users := new(usersOf)
	users.write([]byte(text + "\n"))
	return string(users.text)
}
