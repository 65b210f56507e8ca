package redisqueue

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"writ"
)

// lookouts let asynq wait for tasks. It knows only to look into a queue, to sleep if there is nothing, and to look again: whoever looks
// often burns CPU while nothing is to be done, and whoever does not makes every task wait. Here a look that comes after one in vain is held
// back until Redis says that there is something to find. asynq does not notice; its own pause is short, and only there so that tasks
// which come one after the other are taken together.
type lookouts struct {
	reader *redis.Client // for commands that block

	mu sync.Mutex
	of map[string]*lookout // by the key of the tasks that wait
}

// lookout is that of one queue that is being served.
type lookout struct {
	pending string
	over    <-chan struct{} // closed when nobody is to wait any more
	vain    atomic.Bool     // the last look found nothing, or failed
	turn    chan struct{}   // holds a token while one of asynq's servers waits; the others come after it
}

// begin lets a queue be waited for until over is closed and end is called.
func (l *lookouts) begin(node writ.NodeID, over <-chan struct{}) (end func()) {
	pending := key(node, "pending")
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string]*lookout{}
	}
	l.of[pending] = &lookout{pending: pending, over: over, turn: make(chan struct{}, 1)}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.of, pending)
	}
}

// find returns the lookout of the queue that a command looks into, nil if it does something else.
func (l *lookouts) find(cmd redis.Cmder) *lookout {
	const keys = 2 // where the number of keys stands; they follow
	args := cmd.Args()
	if cmd.Name() != "evalsha" || len(args) <= keys+3 || args[keys] != 4 {
		return nil
	}
	pending, _ := args[keys+1].(string)
	active, _ := args[keys+3].(string)
	if !strings.HasSuffix(pending, ":pending") || !strings.HasSuffix(active, ":active") {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of[pending]
}

func (l *lookouts) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *lookouts) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l *lookouts) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		o := l.find(cmd)
		if o == nil {
			return next(ctx, cmd)
		}
		if o.vain.Load() {
			select {
			case o.turn <- struct{}{}:
				defer func() { <-o.turn }()
			case <-o.over:
			}
			if !o.wait(ctx, l.reader) {
				cmd.SetErr(redis.Nil)
				return redis.Nil
			}
		}
		err := next(ctx, cmd)
		o.vain.Store(err != nil)
		return err
	}
}

// wait returns true as soon as the queue has a task, and false when it was empty for a while. It takes nothing out: a task that moves from
// the end of a list to its end stays where it was, and Redis waits for one to come.
func (o *lookout) wait(ctx context.Context, reader *redis.Client) bool {
	select {
	case <-o.over:
		return false
	default:
	}
	// Written out, because go-redis has whole seconds for this command.
	err := reader.Do(ctx, "blmove", o.pending, o.pending, "RIGHT", "RIGHT", blockFor.Seconds()).Err()
	switch {
	case err == nil:
		return true
	case errors.Is(err, redis.Nil):
		return false
	case redis.HasErrorPrefix(err, "NOPERM"):
		return true // its supervisor is older than this node, and made the account without this: then asynq's way has to do
	}
	select { // Redis is away; asynq itself makes no pause then
	case <-o.over:
	case <-time.After(blockFor):
	}
	return true
}
