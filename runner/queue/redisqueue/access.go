package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"writ"
	"writ/runner/queue"
)

// access holds the connections to Redis and the offences of nodes. The parts of a Queue share it.
type access struct {
	client   *redis.Client
	reader   *redis.Client // for blocking commands, which must not use the pool's connections, and for data from nodes
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

// info returns the sections memory and clients of INFO, or nil if Redis rejects the command.
func (a *access) info(ctx context.Context) (map[string]string, error) {
	text, err := a.client.Info(ctx, "memory", "clients").Result()
	if _, refused := errors.AsType[redis.Error](err); refused {
		return nil, nil // too old, or forbidden for this user: Examine reports that
	}
	return infoOf(text), away(ctx, err)
}

// deleteMistyped deletes keys of a node with the wrong type, including tasks, and records the offence. It reports
// whether there were any.
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
		return err // a node, for example, lacks the rights to delete the key
	}
	return again()
}

// belongs returns the keys of a node with a defined type, and the types. The key that pauses a queue must not exist:
// writ never pauses one.
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

// offences are the offences of nodes since the last survey, one of each kind per node.
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
