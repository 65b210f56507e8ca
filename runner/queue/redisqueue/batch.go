package redisqueue

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/redis/go-redis/v9"

	"writ/internal/failpoint"
)

// maxBatched limits the commands of one round trip, because the first command waits for the last one.
const maxBatched = 128

// batched lists the commands that are batched: the short ones that occur at least once per task. A blocking command
// must not be among them, because it would delay all later ones. EVAL is excluded: callers send it when Redis does not
// know a script.
var batched = map[string]bool{"evalsha": true, "xadd": true}

// batchHook sends concurrent commands, of asynq and of this package, in one round trip. System calls and wake-ups,
// here and in Redis, are most of the cost of a short command. Only one round trip runs at a time; commands that arrive
// meanwhile go with the next one, and a single command goes at once. The hook starts no goroutines: each round trip is
// made by one of the waiting callers.
//
// In a round trip, the commands that remove finished tasks are merged into one.
type batchHook struct {
	client *redis.Client
	gone   func(active string, ids []string) // called with removed tasks, unless nil

	mu      sync.Mutex
	flying  bool
	waiting []*batchedCmd
}

// batchedCmd is a waiting command.
type batchedCmd struct {
	redis.Cmder
	ending *ending   // nil for another command
	turn   chan bool // true: make the next round trip; false: this command has its reply
	// again reports that the caller must send the command itself, because the context of the caller that made the round
	// trip ended. It is valid after turn received false.
	again bool
}

func (g *batchHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *batchHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (g *batchHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !batched[cmd.Name()] || failpoint.Tearing() {
			return next(ctx, cmd)
		}
		c, alone := g.join(cmd)
		if alone && c.ending != nil { // many come at once: all tasks whose results are in one message
			g.sendBatch(ctx, c)
			return cmd.Err()
		}
		if alone {
			defer g.endTrip()
			return next(ctx, cmd)
		}
		select {
		case <-ctx.Done():
			if g.leave(c) {
				return ctx.Err()
			}
			// The command is being sent, or this caller must make the next round trip.
			if <-c.turn {
				g.endTrip()
				return ctx.Err()
			}
		case lead := <-c.turn:
			if lead {
				g.sendBatch(ctx, c)
			}
		}
		if c.again {
			return next(ctx, cmd)
		}
		return cmd.Err()
	}
}

// join adds a command to the next round trip. If no round trip is running, the command goes alone, and the caller must
// call endTrip afterwards.
func (g *batchHook) join(cmd redis.Cmder) (c *batchedCmd, alone bool) {
	c = &batchedCmd{Cmder: cmd, ending: endingOf(cmd)}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.flying {
		g.flying = true
		return c, true
	}
	c.turn = make(chan bool, 1)
	g.waiting = append(g.waiting, c)
	return c, false
}

// leave removes a waiting command. It returns false if the command no longer waits.
func (g *batchHook) leave(c *batchedCmd) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, w := range g.waiting {
		if w == c {
			g.waiting = append(g.waiting[:i], g.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// endTrip ends a round trip; the first waiting caller makes the next one.
func (g *batchHook) endTrip() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.flying = false
		return
	}
	first := g.waiting[0]
	g.waiting = g.waiting[1:]
	first.turn <- true
}

// sendBatch makes a round trip with the caller's command and all waiting ones.
func (g *batchHook) sendBatch(ctx context.Context, own *batchedCmd) {
	runtime.Gosched() // lets callers join that got replies of the last one
	g.mu.Lock()
	n := min(len(g.waiting), maxBatched-1)
	others := g.waiting[:n:n]
	g.waiting = g.waiting[n:]
	g.mu.Unlock()
	pipe := g.client.Pipeline()
	var ends []*endings
	for i := range n + 1 {
		c := own
		if i > 0 {
			c = others[i-1]
		}
		if c.ending == nil {
			_ = pipe.Process(ctx, c.Cmder)
		} else {
			ends = c.ending.join(ends)
		}
	}
	for _, e := range ends {
		e.cmd = endScript.EvalSha(ctx, pipe, e.keys(), e.args()...)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for _, e := range ends {
		if gone := e.answer(ctx, g.client); len(gone) > 0 && g.gone != nil {
			g.gone(e.all[0].active, gone)
		}
	}
	g.endTrip()
	for _, c := range others {
		c.again = ctx.Err() != nil && !isReply(c.Err())
		c.turn <- false
	}
}

// isReply reports whether err is nil or an error reply of Redis.
func isReply(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return err == nil || ok
}
