package redisqueue

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/redis/go-redis/v9"
)

// maxGathered bounds the commands of one round trip: the first of them waits for the last.
const maxGathered = 128

// gathered are the commands that wait for others: the short ones that come once or more for each task. None of them may block, because
// whatever is behind it would, too. EVAL is not among them: it is what the caller sends when Redis does not know a script yet.
var gathered = map[string]bool{"evalsha": true, "xadd": true}

// gatherHook sends commands that come at the same time, from asynq's servers and from here, in one round trip: system calls and
// wake-ups, here and in Redis, are most of what a short command costs. One round trip is under way at a time, and what comes meanwhile
// goes with the next; a command that comes alone goes at once. It starts no goroutine: each round trip is made by one of those who
// wait for it.
//
// The commands of a round trip that take off tasks which are done become one.
type gatherHook struct {
	client *redis.Client
	gone   func(active string, ids []string) // hears of tasks that were taken off, if it is not nil

	mu      sync.Mutex
	flying  bool
	waiting []*gatheredCmd
}

// gatheredCmd is a command that waits.
type gatheredCmd struct {
	redis.Cmder
	ending *ending   // nil if it is none
	turn   chan bool // true: make the next round trip; false: this command has its reply
	// again says that the round trip ended with the patience of the one who made it, and the caller is to try by itself. Valid once turn
	// said false.
	again bool
}

func (g *gatherHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *gatherHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (g *gatherHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !gathered[cmd.Name()] {
			return next(ctx, cmd)
		}
		c, alone := g.join(cmd)
		if alone && c.ending != nil { // many of them come at once: those who wait for one message of results
			g.fly(ctx, c)
			return cmd.Err()
		}
		if alone {
			defer g.land()
			return next(ctx, cmd)
		}
		select {
		case <-ctx.Done():
			if g.leave(c) {
				return ctx.Err()
			}
			// It is on its way, or the next round trip is waiting for this caller.
			if <-c.turn {
				g.land()
				return ctx.Err()
			}
		case lead := <-c.turn:
			if lead {
				g.fly(ctx, c)
			}
		}
		if c.again {
			return next(ctx, cmd)
		}
		return cmd.Err()
	}
}

// join lets a command wait for the next round trip. If none is under way it goes alone, and who sends it calls land afterwards.
func (g *gatherHook) join(cmd redis.Cmder) (c *gatheredCmd, alone bool) {
	c = &gatheredCmd{Cmder: cmd, ending: endingOf(cmd)}
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

// leave takes a command back that waits. It returns false if it does not wait any more.
func (g *gatherHook) leave(c *gatheredCmd) bool {
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

// land ends a round trip: the first of those who wait makes the next one.
func (g *gatherHook) land() {
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

// fly makes a round trip with the command of the caller and all that wait.
func (g *gatherHook) fly(ctx context.Context, own *gatheredCmd) {
	runtime.Gosched() // lets those join who got their replies with the last one
	g.mu.Lock()
	n := min(len(g.waiting), maxGathered-1)
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
	g.land()
	for _, c := range others {
		c.again = ctx.Err() != nil && !isReply(c.Err())
		c.turn <- false
	}
}

// isReply reports whether Redis itself said so.
func isReply(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return err == nil || ok
}
