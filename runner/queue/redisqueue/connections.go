package redisqueue

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"writ"
	"writ/runner/queue"
)

// Redis limits connections of all users together, and refuses new ones beyond. When half of them are taken, those of each node are counted.

// NodeConnections is what a node sets Server.Connections to: with all that go-redis opens besides, it stays within queue.BudgetConnections.
const NodeConnections = 16

// crowds returns the nodes with too many connections, if half of those that Redis allows are taken. A supervisor that may not list them leaves it:
// Examine says so.
func (a *Accounts) crowds(ctx context.Context, info map[string]string) (found []queue.Finding, err error) {
	if taken := number(info["connected_clients"]); taken == 0 || taken <= number(info["maxclients"])/2 {
		return nil, nil
	}
	text, err := a.queue.reader.Do(ctx, "client", "list").Text() // the filter on this connection bounds what it reads
	if _, refused := errors.AsType[redis.Error](err); refused {
		return nil, nil
	}
	if err != nil {
		return nil, away(ctx, err)
	}
	users := new(usersOf)
	users.write([]byte(text))
	connections := make(map[writ.NodeID]int64)
	for user := range strings.Lines(string(users.text)) {
		node, is := strings.CutPrefix(strings.TrimSpace(user), userField+a.prefix)
		if is && writ.ValidUUID(node) {
			connections[writ.NodeID(node)]++
		}
	}
	for node, n := range connections {
		if n > queue.BudgetConnections {
			found = append(found, queue.Finding{Node: node, Offence: queue.TooMany, Count: n})
		}
	}
	return found, nil
}

const (
	userField = "user="
	maxField  = 256 // bytes of a field with a user; the names of ours have half as many
)

// usersOf keeps the fields with the users of a CLIENT LIST, each in a line. Each of the other fields can be as long as a client likes: its name is one.
type usersOf struct {
	text  []byte
	field []byte
	long  bool
}

func (u *usersOf) write(some []byte) {
	for _, b := range some {
		switch {
		case b != ' ' && b != '\n':
			if u.long = u.long || len(u.field) == maxField; !u.long {
				u.field = append(u.field, b)
			}
			continue
		case !u.long && bytes.HasPrefix(u.field, []byte(userField)):
			u.text = append(append(u.text, u.field...), '\n')
		}
		u.field, u.long = u.field[:0], false
	}
}
