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

// prefetchers make asynq wait for tasks and take several at once. asynq itself polls: it tries to take one task from a
// queue, and sleeps if the queue is empty. Frequent polling wastes CPU time on an idle node, rare polling delays every
// task, and a request for one task costs as much as a request for many. Here one request takes a task for each free
// slot, and the next requests of asynq are answered from memory. If Redis had fewer tasks than free slots, the next
// request blocks until the queue has a task. asynq sleeps only if that wait ends without a task.
type prefetchers struct {
	*access

	mu sync.Mutex
	of map[string]*prefetcher // by the key of the pending tasks
}

// prefetcher takes the tasks of one served queue. Only one asynq server uses it.
type prefetcher struct {
	keys  []string        // arguments of asynq's script that takes a task: pending, paused, active, lease
	slots int             // number of tasks that asynq handles at a time
	serve context.Context // ends when waits must end

	more bool // the last request returned all tasks that it asked for, so more may wait; used by one goroutine only

	mu    sync.Mutex
	taken []takenTask     // taken from the queue, not yet returned to asynq
	given map[string]bool // IDs of tasks that asynq has received and not finished
	asked int             // number of requests for tasks
}

// takenTask is a task that is active in Redis.
type takenTask struct{ id, message string }

// begin adds the prefetcher of a queue. It works until ctx ends, and the caller must call end.
func (l *prefetchers) begin(ctx context.Context, node writ.NodeID, slots int) *prefetcher {
	o := &prefetcher{slots: slots, serve: ctx, given: map[string]bool{}}
	for _, name := range []string{"pending", "paused", "active", "lease"} {
		o.keys = append(o.keys, key(node, name))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string]*prefetcher{}
	}
	l.of[o.keys[0]] = o
	return o
}

// end removes a prefetcher and returns the tasks that asynq has not received.
func (l *prefetchers) end(o *prefetcher) (left []string) {
	l.mu.Lock()
	delete(l.of, o.keys[0])
	l.mu.Unlock()
	return o.held()
}

// held returns the tasks that were taken from the queue and not yet returned to asynq.
func (o *prefetcher) held() (ids []string) {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range o.taken {
		ids = append(ids, t.id)
	}
	return ids
}

// gave returns the tasks that asynq has received and not finished.
func (o *prefetcher) gave() []string {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Keys(o.given))
}

// requests returns the number of requests for tasks so far, and whether asynq and the prefetcher have no task.
func (o *prefetcher) requests() (asked int, idle bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asked, len(o.taken)+len(o.given) == 0
}

// done records that asynq has finished tasks.
func (o *prefetcher) done(ids ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range ids {
		delete(o.given, id)
	}
}

// find returns the prefetcher for a command that takes a task, or nil for another command.
func (l *prefetchers) find(cmd redis.Cmder) (*prefetcher, *redis.Cmd) {
	const keys = 2 // index of the key count; the keys follow, then the end of the lease and the prefix of task keys
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

func (l *prefetchers) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *prefetchers) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l *prefetchers) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
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

// next returns the next task for asynq, or redis.Nil. After an error asynq asks again at once, and after redis.Nil it
// pauses for lookAgain.
func (o *prefetcher) next(ctx context.Context, l *prefetchers, ask *redis.Cmd) (takenTask, error) {
	if o.serve.Err() != nil {
		return takenTask{}, redis.Nil
	}
	if o.choked() {
		o.rest()
		return takenTask{}, redis.Nil
	}
	if t, ok := o.handOut(); ok {
		return t, nil
	}
	waited := false
	if !o.more {
		err := o.wait(l.access)
		if errors.Is(err, redis.Nil) || errors.Is(err, errInterrupted) {
			return takenTask{}, redis.Nil
		}
		// NOPERM: a supervisor of an earlier version created the account without the right to use BLMOVE. Then asynq polls.
		waited = !redis.HasErrorPrefix(err, "NOPERM")
	}
	found, err := o.takeFree(ctx, l.client, ask)
	if err != nil || waited && found == 0 { // the script failed, or the queue is paused
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

// maxIdle limits the tasks, beyond the number of slots, that asynq has received without calling a handler. Only an
// attacker with access to Redis adds such tasks in larger numbers. repair removes them.
const maxIdle = 64

// choked reports whether asynq has too many tasks without a handler. Then no task may be taken until repair has removed
// some of them.
func (o *prefetcher) choked() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.given) >= o.slots+maxIdle
}

// wait returns nil as soon as the queue has a task, and redis.Nil if it stayed empty for blockFor. It does not change
// the queue: BLMOVE moves a task from the end of the list to the same end.
func (o *prefetcher) wait(a *access) error {
	defer context.AfterFunc(o.serve, a.waits.interrupt)()
	return a.reader.BLMove(o.serve, o.keys[0], o.keys[0], "RIGHT", "RIGHT", blockFor).Err()
}

// takeFree takes one task per free slot, at least one, and returns their number.
func (o *prefetcher) takeFree(ctx context.Context, client *redis.Client, ask *redis.Cmd) (found int, err error) {
	o.more = false
	o.mu.Lock()
	o.asked++
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

// handOut returns the first taken task.
func (o *prefetcher) handOut() (t takenTask, ok bool) {
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

// restFor is the pause after an error, and between two requests to a paused queue.
const restFor = 250 * time.Millisecond

// rest waits for restFor or until Serve ends.
func (o *prefetcher) rest() {
	timer := time.NewTimer(restFor)
	defer timer.Stop()
	select {
	case <-o.serve.Done():
	case <-timer.C:
	}
}
