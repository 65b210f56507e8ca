package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"writ"
	"writ/runner/queue"
)

// access holds the connections to Redis and the offences of nodes. The parts of a Queue share it.
type access struct {
	client   *redis.Client
	reader   *redis.Client // for blocking commands, which must not occupy connections of client, and for data from nodes
	waits    *interrupts   // of reader
	log      func() *slog.Logger
	offences offences // of nodes
}

// away converts an error of Redis or of the connection to QUEUE_UNAVAILABLE. If ctx has ended, it returns the error of
// ctx.
func away(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	e := &writ.Error{Code: writ.CodeQueueUnavailable, Message: fmt.Sprintf("Redis is not usable: %v", err), Err: err}
	if known, ok := errors.AsType[*writ.Error](err); ok {
		e.Hint = known.Hint
	} else {
		e.Hint = remedyFor(err)
	}
	return e
}

// interrupts ends blocking commands early. go-redis does not end a command when its context ends, because it cannot
// interrupt a read.
type interrupts struct {
	mu    sync.Mutex
	conns map[*interruptible]bool // the open connections
}

// errInterrupted is the error of a command whose connection was interrupted.
var errInterrupted = errors.New("the wait for Redis was interrupted")

// dialing returns a dialer whose connections can be interrupted.
func (i *interrupts) dialing(dial dialing) dialing {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c := &interruptible{Conn: conn, all: i}
		i.mu.Lock()
		i.conns[c] = true
		i.mu.Unlock()
		return withRaw(c, conn), nil
	}
}

// interrupt ends the reads of all connections, the present ones and the next. go-redis closes a connection after a failed
// read. The callers with other contexts repeat their commands.
func (i *interrupts) interrupt() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for c := range i.conns {
		c.interrupt()
	}
}

// interruptible is a connection of interrupts.
type interruptible struct {
	net.Conn
	all *interrupts

	mu   sync.Mutex
	over bool
}

func (c *interruptible) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	_ = c.Conn.SetReadDeadline(time.Unix(1, 0)) // a closed connection needs no deadline
}

// SetReadDeadline implements net.Conn. The deadline of an interrupted connection stays in the past.
func (c *interruptible) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		t = time.Unix(1, 0)
	}
	return c.Conn.SetReadDeadline(t)
}

// Read implements net.Conn.
func (c *interruptible) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.over {
			err = errInterrupted
		}
	}
	return n, err
}

// Close implements net.Conn.
func (c *interruptible) Close() error {
	c.all.mu.Lock()
	delete(c.all.conns, c)
	c.all.mu.Unlock()
	return c.Conn.Close()
}

// info returns the sections memory and clients of INFO, or nil if Redis rejects the command.
func (a *access) info(ctx context.Context) (map[string]string, error) {
	text, err := a.client.Info(ctx, "memory", "clients").Result()
	if _, refused := errors.AsType[redis.Error](err); refused {
		return nil, nil // Redis is too old, or its user may not use INFO: Examine reports that
	}
	return infoOf(text), away(ctx, err)
}

// deleteMistyped deletes the keys of a node that have the wrong type, including keys of the given tasks, and records
// the offence. deleted reports whether there were any.
func (a *access) deleteMistyped(ctx context.Context, node writ.NodeID, tasks ...string) (deleted bool, err error) {
	types := belongs(node)
	for _, id := range tasks {
		types[key(node, taskKey+id)] = "hash"
	}
	are := make(map[string]*redis.StatusCmd, len(types))
	if _, err := a.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for key := range types {
			are[key] = p.Type(ctx, key)
		}
		return nil
	}); err != nil {
		return false, err
	}
	for key, cmd := range are {
		is := cmd.Val()
		if is == "none" || is == types[key] {
			continue
		}
		if err := a.client.Unlink(ctx, key).Err(); err != nil {
			return deleted, err
		}
		deleted = true
		name := key[strings.LastIndexByte(key, '}')+2:]
		if len(name) > len(taskKey) && strings.HasPrefix(name, taskKey) {
			name = "a task"
		}
		a.offences.add(queue.Finding{Node: node, Offence: queue.WrongType, Count: 1, What: name + " was a " + is})
	}
	return deleted, nil
}

// mended handles err, the error of an operation. If the cause is a key with the wrong type, it deletes the key and
// calls the function `again`, which repeats the operation.
func (a *access) mended(ctx context.Context, node writ.NodeID, tasks []string, err error, again func() error) error {
	if !isWrongType(err) {
		return err
	}
	if ok, failed := a.deleteMistyped(ctx, node, tasks...); failed != nil || !ok {
		return err // for example, the account of a node may not delete the key
	}
	return again()
}

// belongs returns the keys of a node whose type is known, with their types. The key that pauses a queue must not exist:
// writ never pauses a queue.
func belongs(node writ.NodeID) map[string]string {
	all := map[string]string{key(node, "pending"): "list", key(node, "active"): "list", key(node, "paused"): "none"}
	for _, name := range []string{"lease", "retry", "scheduled", "completed", "archived"} {
		all[key(node, name)] = "zset"
	}
	for _, d := range []queue.Direction{queue.In, queue.Out} {
		all[streamKey(queue.Stream{Node: node, Direction: d})] = "stream"
	}
	return all
}

// isWrongType reports whether a command or a script in Redis found a key of another type than required. Before version
// 7, Redis puts the code of a script's error behind other words.
func isWrongType(err error) bool { return err != nil && strings.Contains(err.Error(), "WRONGTYPE") }

// isReply reports whether err is nil or an error reply of Redis.
func isReply(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return err == nil || ok
}

// offences holds the offences of nodes since the last survey, added up by node and kind.
type offences struct {
	mu  sync.Mutex
	all map[offence]queue.Finding
}

type offence struct {
	node writ.NodeID
	kind queue.Offence
}

// add counts an offence.
func (o *offences) add(f queue.Finding) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = make(map[offence]queue.Finding)
	}
	at := offence{f.Node, f.Offence}
	f.Count += o.all[at].Count
	f.Bytes += o.all[at].Bytes
	o.all[at] = f
}

// take returns and clears all offences.
func (o *offences) take() (all []queue.Finding) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.all {
		all = append(all, f)
	}
	o.all = nil
	return all
}

// number parses a number from Redis; 0 if invalid.
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
