package redisqueue

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"writ"
)

// lookouts let asynq wait for tasks, and take several at once. asynq knows only to look into a queue for one task, to sleep if there is
// none, and to look again: whoever looks often burns CPU while nothing is to be done, and whoever does not makes every task wait; and a
// look costs here and in Redis as much for one task as for many. Here one look takes as many as there are slots for, from which asynq's
// next looks are answered; and when there were fewer, the next one is held back until Redis says that there is something to find. asynq
// does not notice, and makes its own pause only after a wait in vain.
type lookouts struct {
	client *redis.Client
	reader *redis.Client // for commands that block

	mu sync.Mutex
	of map[string]*lookout // by the key of the tasks that wait
}

// lookout is that of one queue that is being served, by one of asynq's servers: nobody else asks it.
type lookout struct {
	keys  []string        // of asynq's script that takes a task: pending, paused, active, lease
	slots int             // how many tasks asynq has at a time
	over  <-chan struct{} // closed when nobody is to wait any more

	more bool // the last look found as many tasks as were wanted: there may be more; of the one who asks alone

	mu    sync.Mutex
	taken []takenTask     // taken out of the queue, and not given to asynq yet
	given map[string]bool // the ids of those that asynq has
}

// takenTask is a task that Redis counts as active.
type takenTask struct{ id, message string }

// begin lets a queue be waited for until over is closed and end is called.
func (l *lookouts) begin(node writ.NodeID, over <-chan struct{}, slots int) *lookout {
	o := &lookout{slots: slots, over: over, given: map[string]bool{}}
	for _, name := range []string{"pending", "paused", "active", "lease"} {
		o.keys = append(o.keys, key(node, name))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string]*lookout{}
	}
	l.of[o.keys[0]] = o
	return o
}

// end returns the tasks that were taken for nobody.
func (l *lookouts) end(o *lookout) (left []string) {
	l.mu.Lock()
	delete(l.of, o.keys[0])
	l.mu.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range o.taken {
		left = append(left, t.id)
	}
	return left
}

// at returns the lookout of a node's queue, nil if it is not being served.
func (l *lookouts) at(node writ.NodeID) *lookout {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of[key(node, "pending")]
}

// holds reports whether a task was taken out of the queue and not given to asynq yet.
func (o *lookout) holds(id string) bool {
	if o == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.taken, func(t takenTask) bool { return t.id == id })
}

// gave returns the tasks that asynq got and that are not over.
func (o *lookout) gave() []string {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Keys(o.given))
}

// done is called when asynq has done with tasks.
func (o *lookout) done(ids ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range ids {
		delete(o.given, id)
	}
}

// find returns the lookout of the queue that a command takes a task from, nil if it does something else.
func (l *lookouts) find(cmd redis.Cmder) (*lookout, *redis.Cmd) {
	const keys = 2 // where the number of keys stands; they follow, and then the end of the lease and the prefix of tasks
	ask, ok := cmd.(*redis.Cmd)
	args := cmd.Args()
	if !ok || cmd.Name() != "evalsha" || len(args) != keys+7 || args[keys] != 4 {
		return nil, nil
	}
	pending, _ := args[keys+1].(string)
	active, _ := args[keys+3].(string)
	if !strings.HasSuffix(pending, ":pending") || !strings.HasSuffix(active, ":active") {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of[pending], ask
}

func (l *lookouts) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *lookouts) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l *lookouts) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		o, ask := l.find(cmd)
		if o == nil {
			return next(ctx, cmd)
		}
		task, err := o.next(ctx, l, ask)
		if err != nil {
			cmd.SetErr(err)
			return err
		}
		ask.SetVal(task.message)
		return nil
	}
}

// next returns the task that asynq gets, redis.Nil if there is none. asynq asks again at once after an error, and soon after it got none.
func (o *lookout) next(ctx context.Context, l *lookouts, ask *redis.Cmd) (takenTask, error) {
	select {
	case <-o.over:
		return takenTask{}, redis.Nil
	default:
	}
	if t, ok := o.handOut(); ok {
		return t, nil
	}
	waited := false
	if !o.more {
		err := o.wait(ctx, l.reader)
		if errors.Is(err, redis.Nil) {
			return takenTask{}, err
		}
		// An account that may not wait was made by a supervisor that is older than this node: then asynq's way has to do.
		waited = !redis.HasErrorPrefix(err, "NOPERM")
	}
	found, err := o.look(ctx, l.client, ask)
	if err != nil || waited && found == 0 { // Redis cannot do it now, or the queue is paused
		o.rest()
	}
	if err != nil {
		return takenTask{}, err
	}
	if t, ok := o.handOut(); ok {
		return t, nil
	}
	return takenTask{}, redis.Nil
}

// wait returns nil as soon as the queue has a task, and redis.Nil when it was empty for a while. It takes nothing out: a task that moves from
// the end of a list to its end stays where it was, and Redis waits for one to come.
func (o *lookout) wait(ctx context.Context, reader *redis.Client) error {
	// Written out, because go-redis has whole seconds for this command.
	return reader.Do(ctx, "blmove", o.keys[0], o.keys[0], "RIGHT", "RIGHT", blockFor.Seconds()).Err()
}

// look takes as many tasks as there are slots for, at least one, and returns how many there were.
func (o *lookout) look(ctx context.Context, client *redis.Client, ask *redis.Cmd) (found int, err error) {
	o.more = false
	o.mu.Lock()
	wanted := min(max(o.slots-len(o.given), 1), maxTaken)
	o.mu.Unlock()
	lease := ask.Args()[len(ask.Args())-2:]
	tasks, err := take(ctx, client, o.keys, append(slices.Clone(lease), wanted)...)
	if err != nil {
		return 0, err
	}
	o.more = len(tasks) == wanted
	o.mu.Lock()
	defer o.mu.Unlock()
	o.taken = tasks
	return len(tasks), nil
}

// handOut returns the task that was taken first.
func (o *lookout) handOut() (t takenTask, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.taken) == 0 {
		return t, false
	}
	t = o.taken[0]
	o.taken = o.taken[1:]
	o.given[t.id] = true
	return t, true
}

// rest waits a while.
func (o *lookout) rest() {
	timer := time.NewTimer(blockFor)
	defer timer.Stop()
	select {
	case <-o.over:
	case <-timer.C:
	}
}
