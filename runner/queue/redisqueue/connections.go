package redisqueue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"writ"
	"writ/runner/queue"
)

// Redis limits connections of all users together, and refuses new ones beyond. When half of them are taken, those of each node are counted. A client gives
// its connection a name, which is as long as it likes and belongs to no key: when Redis keeps more than its keys take, these names are measured.

// NodeConnections is what a node sets Server.Connections to: with all that go-redis opens besides, it stays within queue.BudgetConnections.
const NodeConnections = 16

const (
	nameShort = 1 << 10  // bytes of what Redis tells of a connection whose name is none to talk about
	namesMost = 16 << 20 // bytes beyond that of all connections of a node
)

// crowds returns the nodes with too many connections, if half of those that Redis allows are taken, and those with too long names, if it keeps more than
// keys. A supervisor that may not list them leaves it: Examine says so.
func (a *Accounts) crowds(ctx context.Context, info map[string]string) (found []queue.Finding, err error) {
	scarce := number(info["connected_clients"]) > number(info["maxclients"])/2
	if !scarce && !a.sweep.unexplained(number(info["used_memory_dataset"])) {
		return nil, nil
	}
	text, err := a.queue.reader.Do(ctx, "client", "list").Text() // the filter on this connection bounds what it reads
	if _, refused := errors.AsType[redis.Error](err); refused {
		return nil, nil
	}
	if err != nil {
		return nil, away(ctx, err)
	}
	type has struct{ connections, excess int64 }
	nodes := make(map[writ.NodeID]has)
	for line := range strings.Lines(usersIn(text)) {
		if node, size, is := a.nodeOf(line); is {
			h := nodes[node]
			nodes[node] = has{h.connections + 1, h.excess + max(size-nameShort, 0)}
		}
	}
	for node, h := range nodes {
		if scarce && h.connections > queue.BudgetConnections {
			found = append(found, queue.Finding{Node: node, Offence: queue.TooMany, Count: h.connections})
		}
		if h.excess > namesMost {
			found = append(found, queue.Finding{Node: node, Offence: queue.OverBudget, Count: h.connections, Bytes: h.excess,
				What: fmt.Sprintf("its connections to the queue have names of %d KiB", h.excess>>10)})
		}
	}
	return found, nil
}

// nodeOf reads a line of usersOf; false if the user is no node of this datacenter.
func (a *Accounts) nodeOf(line string) (node writ.NodeID, size int64, is bool) {
	user, length, _ := strings.Cut(strings.TrimSpace(line), " ")
	id, is := strings.CutPrefix(user, userField+a.prefix)
	return writ.NodeID(id), number(length), is && writ.ValidUUID(id)
}

const (
	userField = "user="
	maxField  = 256 // bytes of a field with a user; the names of ours have half as many
)

// usersOf keeps the user and the length of each line of a CLIENT LIST, and of what an ACL LOG tells of a connection, which is one. All but the user can be as
// long as a client likes: its name is.
type usersOf struct {
	text   []byte // "user=NAME LENGTH", a line each
	most   int    // lines, any number if 0: a string that is no list can be made of anything
	kept   int
	length int64 // of the line that has begun
	user   []byte
	field  []byte
	long   bool
}

func (u *usersOf) write(some []byte) {
	for _, b := range some {
		if b != '\n' {
			u.length++
		}
		if b != ' ' && b != '\n' {
			if u.long = u.long || len(u.field) == maxField; !u.long {
				u.field = append(u.field, b)
			}
			continue
		}
		if !u.long && u.user == nil && bytes.HasPrefix(u.field, []byte(userField)) {
			u.user = bytes.Clone(u.field)
		}
		u.field, u.long = u.field[:0], false
		if b == '\n' {
			u.end()
		}
	}
}

// end ends a line.
func (u *usersOf) end() {
	if u.user != nil && (u.most == 0 || u.kept < u.most) {
		u.text = fmt.Appendf(u.text, "%s %d\n", u.user, u.length)
		u.kept++
	}
	u.user, u.length = nil, 0
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
