package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"writ/internal/sleep"
	"writ/internal/test/testenv"
	"writ/runner/queue"
)

// batching is a client with batched commands that can be blocked.
type batching struct {
	*redis.Client
	hook *batchHook

	mu    sync.Mutex
	trips []int           // number of commands in each round trip with batched ones
	holds []chan struct{} // the first round trips wait until their channel is closed
}

// newBatching blocks the first round trips.
func newBatching(t *testing.T, held int) *batching {
	g := &batching{Client: client(t, testenv.Redis(t).URL)}
	for range held {
		g.holds = append(g.holds, make(chan struct{}))
	}
	g.hook = &batchHook{client: g.Client}
	g.AddHook(g.hook)
	g.AddHook(tripHook{g})
	if err := g.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	return g
}

// tripHook observes the actual round trips.
type tripHook struct{ g *batching }

func (h tripHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h tripHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if batched[cmd.Name()] {
			h.g.trip(ctx, 1)
		}
		return next(ctx, cmd)
	}
}

func (h tripHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if batched[cmds[0].Name()] { // otherwise it is the HELLO of go-redis
			h.g.trip(ctx, len(cmds))
		}
		return next(ctx, cmds)
	}
}

func (g *batching) trip(ctx context.Context, commands int) {
	g.mu.Lock()
	n := len(g.trips)
	g.trips = append(g.trips, commands)
	g.mu.Unlock()
	if n < len(g.holds) {
		select {
		case <-g.holds[n]:
		case <-ctx.Done():
		}
	}
}

// until waits for a number of started round trips and of waiting commands.
func (g *batching) until(t *testing.T, trips, waiting int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), guard)
	defer cancel()
	for {
		g.mu.Lock()
		begun := len(g.trips)
		g.mu.Unlock()
		g.hook.mu.Lock()
		wait := len(g.hook.waiting)
		g.hook.mu.Unlock()
		if begun == trips && wait == waiting {
			return
		}
		if sleep.For(ctx, time.Millisecond) != nil {
			t.Fatalf("%d round trips and %d commands that wait, want %d and %d", begun, wait, trips, waiting)
		}
	}
}

func (g *batching) add(ctx context.Context, key string) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- g.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: []any{field, key}}).Err() }()
	return ended
}

// Commands that arrive during a round trip go with the next one, and each caller gets the reply to its own command.
// This includes a command that fails, one whose script Redis does not know, and one whose caller gives up.
//
// Promise: Load and attackers: Concurrent short commands to Redis share a round trip, get their own answers, and
// never wait for a blocking command.
// How: The first waiting command starts the next round trip with all queued ones.
// Also: TestBatchedCallersKeepTheirDeadlines.
func TestCommandsThatComeTogetherShareARoundTrip(t *testing.T) {
	t.Parallel()
	g := newBatching(t, 1)
	if err := g.Set(t.Context(), "text", "no stream", 0).Err(); err != nil {
		t.Fatal(err)
	}
	alone := g.add(t.Context(), "alone")
	g.until(t, 1, 0)
	const n = 20
	var good []<-chan error
	for i := range n {
		good = append(good, g.add(t.Context(), fmt.Sprintf("stream %d", i)))
	}
	bad := g.add(t.Context(), "text")
	value := make(chan any, 1)
	go func() {
		value <- redis.NewScript(`return ARGV[1] .. "!"`).Run(t.Context(), g, nil, "unknown").Val()
	}()
	g.until(t, 1, n+2)
	leaving, leave := context.WithCancel(t.Context())
	left := g.add(leaving, "left")
	g.until(t, 1, n+3)
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("who leaves gets %v, want the end of its context, at once", err)
	}

	close(g.holds[0])
	for _, ended := range append(good, alone) {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if err := <-bad; !redis.HasErrorPrefix(err, "WRONGTYPE") {
		t.Errorf("a command that is wrong gets %v", err)
	}
	if got := <-value; got != "unknown!" {
		t.Errorf("a script that Redis did not know returns %v", got)
	}
	if len(g.trips) != 2 || g.trips[1] != n+2 {
		t.Errorf("commands of each round trip are %v, want 1 and %d", g.trips, n+2)
	}
	if there := g.Exists(t.Context(), "left").Val(); there != 0 {
		t.Error("what was not waited for was sent")
	}
	g.until(t, 2, 0)
	if err := <-g.add(t.Context(), "afterwards"); err != nil {
		t.Error(err)
	}
}

// The caller that makes the round trip has its own deadline, and so do the others.
func TestBatchedCallersKeepTheirDeadlines(t *testing.T) {
	t.Parallel()
	g := newBatching(t, 2)
	first := g.add(t.Context(), "first")
	g.until(t, 1, 0)
	impatient, end := context.WithCancel(t.Context())
	lead := g.add(impatient, "lead")
	g.until(t, 1, 1)
	others := []<-chan error{g.add(t.Context(), "a"), g.add(t.Context(), "b")}
	g.until(t, 1, 3)
	close(g.holds[0])
	if err := <-first; err != nil {
		t.Error(err)
	}
	g.until(t, 2, 0)
	end()
	if err := <-lead; !errors.Is(err, context.Canceled) {
		t.Errorf("the impatient one gets %v", err)
	}
	for _, ended := range others {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	for _, key := range []string{"a", "b"} {
		if n := g.XLen(t.Context(), key).Val(); n != 1 {
			t.Errorf("%s was sent %d times", key, n)
		}
	}
}

// A blocking command must not delay others.
func TestBlockingCommandsAreNotBatched(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"xreadgroup", "xread", "blpop", "brpop", "blmove", "brpoplpush", "bzpopmin", "subscribe", "wait", "eval"} {
		if batched[name] {
			t.Errorf("%s is batched", name)
		}
	}
}

// A restarted Redis does not know the script that adds tasks to a queue.
func TestPushKeepsOrderAfterScriptFlush(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	admin, q := client(t, server.URL), open(t, server.URL)
	for round, forget := range []bool{false, true, false} {
		if forget {
			if err := admin.ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		var tasks []queue.Task
		var want []string
		for i := range 20 {
			id := fmt.Sprintf("%d-%d", round, i)
			tasks = append(tasks, queue.Task{ID: id, EndBy: time.Now().Add(time.Minute)})
			want = append(want, id)
		}
		if err := q.Push(t.Context(), testNode, tasks...); err != nil {
			t.Fatal(err)
		}
		waiting, err := admin.LRange(t.Context(), key(testNode, "pending"), 0, int64(len(tasks))-1).Result()
		if err != nil {
			t.Fatal(err)
		}
		slices.Reverse(waiting) // the next one is at the right end
		if diff := cmp.Diff(want, waiting); diff != "" {
			t.Errorf("round %d (-want +got):\n%s", round, diff)
		}
	}
}
