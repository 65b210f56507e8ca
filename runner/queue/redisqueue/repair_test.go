package redisqueue

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"writ"
	"writ/internal/sleep"
	"writ/internal/test/testenv"
	"writ/runner/queue"
)

const (
	testNode = writ.NodeID("0192f6c2-0000-7000-8000-000000000003")
	guard    = 60 * time.Second // for a test that hangs; all take only a few seconds
)

// worker is a Serve whose handler reports its tasks, with a client for inspection.
type worker struct {
	t       *testing.T
	queue   *Queue
	redis   *redis.Client
	came    chan string
	release chan struct{} // closed to make handlers return
	stop    func()
}

func startWorker(t *testing.T, redisURL string, release chan struct{}) *worker {
	t.Helper()
	q, err := Open(redisURL)
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{t: t, queue: q, redis: client(t, redisURL), came: make(chan string, 1000), release: release}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- q.Serve(ctx, testNode, 4, func(_ context.Context, task queue.Task) {
			w.came <- task.ID
			<-w.release
		})
	}()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve = %v", err)
		}
		_ = q.Close()
	})
	t.Cleanup(w.stop)
	return w
}

func (w *worker) push(ids ...string) {
	w.t.Helper()
	var tasks []queue.Task
	for _, id := range ids {
		tasks = append(tasks, queue.Task{ID: id, Body: []byte(id), EndBy: time.Now().Add(time.Minute)})
	}
	if err := w.queue.Push(w.t.Context(), testNode, tasks...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *worker) next(want string) {
	w.t.Helper()
	select {
	case got := <-w.came:
		if got != want {
			w.t.Fatalf("got task %q, want %q", got, want)
		}
	case <-time.After(guard):
		w.t.Fatalf("task %q did not come", want)
	}
}

// gone waits until the queue and the process have dropped ids.
func (w *worker) gone(ids ...string) {
	w.t.Helper()
	for began := time.Now(); ; {
		missing, err := goneTasks(w.t.Context(), w.queue.client, testNode, ids)
		remembered := w.queue.deliveries.over(testNode)
		if err == nil && len(missing) == len(ids) && len(remembered) == 0 {
			return
		}
		if time.Since(began) > guard {
			w.t.Fatalf("of %q the queue holds all but %q, the process remembers %q, %v", ids, missing, remembered, err)
		}
		_ = sleep.For(w.t.Context(), 20*time.Millisecond)
	}
}

func released() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// The reply to asynq's dequeue was lost: the task is active in Redis but has no handler. asynq would notice after a
// minute.
func TestLostTaskIsDeliveredAgain(t *testing.T) {
	t.Parallel()
	redisURL := testenv.Redis(t).URL
	w := startWorker(t, redisURL, released())
	w.push("first")
	w.next("first")
	for _, state := range []string{"active", "retry"} {
		id := "lost-" + state
		if err := w.redis.HSet(t.Context(), key(testNode, taskKey+id), "msg", message(t, redisURL, id), "state", state).Err(); err != nil {
			t.Fatal(err)
		}
		var err error
		if state == "active" {
			// Without a lease, so asynq would never notice.
			err = w.redis.LPush(t.Context(), key(testNode, "active"), id).Err()
		} else {
			err = w.redis.ZAdd(t.Context(), key(testNode, "retry"), redis.Z{Member: id, Score: 1e12}).Err()
		}
		if err != nil {
			t.Fatal(err)
		}
		w.next(id)
		w.gone(id)
	}
}

// message returns asynq's encoding of a task, which asynq makes in another database.
func message(t *testing.T, redisURL, id string) string {
	t.Helper()
	elsewhere := client(t, strings.TrimSuffix(redisURL, "/0")+"/1")
	q := New(elsewhere)
	defer q.Close()
	if err := q.Push(t.Context(), testNode, queue.Task{ID: id, EndBy: time.Now().Add(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	text, err := elsewhere.HGet(t.Context(), key(testNode, taskKey+id), "msg").Result()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// asynq could not record the end of a task during an outage of Redis, and would pass it to the handler again.
func TestTaskEndedDuringOutageIsRemoved(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	release := make(chan struct{})
	w := startWorker(t, server.URL, release)
	w.push("a", "b")
	<-w.came
	<-w.came
	server.Kill()
	close(release)
	for len(w.queue.deliveries.over(testNode)) < 2 {
		_ = sleep.For(t.Context(), time.Millisecond)
	}
	server.Start()
	w.gone("a", "b")
	select {
	case id := <-w.came:
		t.Errorf("task %q was delivered again", id)
	default:
	}
	w.push("c")
	w.next("c")
}

// The same with internal functions, independent of timing.
func TestUnrecordedEndRemovesTheTask(t *testing.T) {
	t.Parallel()
	redisURL := startEmbedded(t)
	w := startWorker(t, redisURL, released())
	for _, where := range []string{"active", "pending"} {
		id := "over-" + where
		if err := w.redis.HSet(t.Context(), key(testNode, taskKey+id), "msg", message(t, redisURL, id), "state", where).Err(); err != nil {
			t.Fatal(err)
		}
		d, _ := w.queue.deliveries.begin(testNode, id)
		close(d.done)
		if err := w.redis.LPush(t.Context(), key(testNode, where), id).Err(); err != nil {
			t.Fatal(err)
		}
		w.gone(id)
	}
	select {
	case id := <-w.came:
		t.Errorf("task %q was delivered again", id)
	default:
	}
}

// asynq gives up a task when its lease or timeout expires, and considers its slot as free.
func TestServeCountsTasksAsynqGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, running := make(chan struct{}), make(chan string, 2)
		s := &service{queue: &Queue{}, node: testNode, free: make(chan struct{}, 1), handle: func(_ context.Context, task queue.Task) {
			running <- task.ID
			<-release
		}}
		ended := make(chan error, 3)
		run := func(id string) { ended <- s.run(t.Context(), queue.Task{ID: id}) }
		go run("a")
		synctest.Wait()
		go run("a") // the same task again
		go run("b")
		synctest.Wait()
		if n := len(running); n != 1 {
			t.Errorf("%d handlers run in one slot", n)
		}
		stopped := make(chan struct{})
		go func() {
			s.wait()
			close(stopped)
		}()
		synctest.Wait()
		select {
		case <-stopped:
			t.Error("the end of Serve does not wait for its handlers")
		default:
		}
		close(release)
		for range 3 {
			if err := <-ended; err != nil {
				t.Errorf("run = %v", err)
			}
		}
		<-stopped
		if first, second := <-running, <-running; first != "a" || second != "b" || len(running) != 0 {
			t.Errorf("handled %q and %q and %d more, want a and b once", first, second, len(running))
		}
	})
}

func TestRedisMayBeKilledAndLoseEverything(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	w := startWorker(t, server.URL, released())
	// Otherwise a write may be delayed by a second.
	if err := w.redis.ConfigSet(t.Context(), "appendfsync", "always").Err(); err != nil {
		t.Fatal(err)
	}
	w.push("a")
	w.next("a")
	stream, other := queue.Stream{Node: testNode, Direction: queue.Out}, queue.Stream{Node: testNode, Direction: queue.In}
	if err := w.queue.Send(t.Context(), stream, []byte("1")); err != nil {
		t.Fatal(err)
	}
	if err := w.queue.SetGeneration(t.Context(), "g"); err != nil {
		t.Fatal(err)
	}

	if _, err := w.queue.Receive(t.Context(), time.Millisecond, other); err != nil { // all old messages were read
		t.Fatal(err)
	}
	if err := w.queue.Send(t.Context(), other, []byte("lost reply")); err != nil {
		t.Fatal(err)
	}
	read := &redis.XReadGroupArgs{Group: group, Consumer: consumer, Streams: []string{streamKey(other), ">"}}
	if err := w.redis.XReadGroup(t.Context(), read).Err(); err != nil { // as by this process, but without its reply
		t.Fatal(err)
	}
	server.Kill() // its files are kept
	if got, err := w.queue.Receive(t.Context(), time.Millisecond, other); writ.CodeOf(err) != writ.CodeQueueUnavailable {
		t.Errorf("Receive without Redis = %v, %v", got, err)
	}
	server.Start()
	if got, err := w.queue.Receive(t.Context(), guard, other); err != nil || len(got) != 1 {
		t.Errorf("Receive after a reply was lost = %v, %v", got, err)
	}
	if got, err := w.queue.Receive(t.Context(), guard, stream); err != nil || len(got) != 1 {
		t.Errorf("Receive after a restart = %v, %v", got, err)
	}
	if got, err := w.queue.Generation(t.Context()); err != nil || got != "g" {
		t.Errorf("Generation after a restart = %q, %v", got, err)
	}
	server.Kill()
	if err := os.RemoveAll(filepath.Join(server.Dir, "appendonlydir")); err != nil {
		t.Fatal(err)
	}
	server.Start()
	if got, err := w.queue.Generation(t.Context()); err != nil || got != "" {
		t.Errorf("Generation after everything was lost = %q, %v", got, err)
	}
	w.push("b")
	w.next("b")
	w.gone("a", "b")
}

// A process must not keep all tasks that it ever handled in memory.
func TestHandledTasksAreForgotten(t *testing.T) {
	t.Parallel()
	w := startWorker(t, startEmbedded(t), released())
	var ids []string
	for i := range 200 {
		ids = append(ids, fmt.Sprint("t", i))
	}
	w.push(ids...)
	w.gone(ids...)
}

func TestCloseEndsServe(t *testing.T) {
	t.Parallel()
	q, err := Open(startEmbedded(t))
	if err != nil {
		t.Fatal(err)
	}
	begun := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- q.Serve(context.Background(), testNode, 1, func(ctx context.Context, _ queue.Task) {
			close(begun)
			<-ctx.Done()
		})
	}()
	if err := q.Push(t.Context(), testNode, queue.Task{ID: "a", EndBy: time.Now()}); err != nil {
		t.Fatal(err)
	}
	<-begun
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Serve = %v", err)
	}
}

func TestStreamOfAnAbsentReaderDoesNotGrowForEver(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	q, err := Open(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	stream := queue.Stream{Node: testNode, Direction: queue.Out}
	if err := q.Send(t.Context(), stream, []byte("oldest")); err != nil {
		t.Fatal(err)
	}
	if got, err := q.Receive(t.Context(), guard, stream); err != nil || len(got) != 1 {
		t.Fatalf("Receive = %v, %v", got, err)
	}
	var sending sync.WaitGroup
	for range 8 {
		sending.Go(func() {
			for range maxWaiting / 4 {
				if err := q.Send(t.Context(), stream, []byte("newer")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	sending.Wait()
	waiting := client(t, server.URL).XLen(t.Context(), streamKey(stream)).Val()
	if waiting > maxWaiting+200 {
		t.Errorf("%d messages wait, want about %d at most", waiting, maxWaiting)
	}

	next, err := Open(server.URL) // the reader's next process: the oldest of its messages were dropped
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	got, err := next.Receive(t.Context(), guard, stream)
	if err != nil || len(got) != maxReceived || string(got[0].Body) != "newer" {
		t.Fatalf("Receive = %d messages, %v; want %d newer ones", len(got), err, maxReceived)
	}
	if err := next.Acknowledge(t.Context(), got...); err != nil {
		t.Fatal(err)
	}
	if n := client(t, server.URL).XLen(t.Context(), streamKey(stream)).Val(); n != waiting-maxReceived {
		t.Errorf("%d messages are left of %d, so acknowledged ones were not deleted", n, waiting)
	}
	pending := client(t, server.URL).XPending(t.Context(), streamKey(stream), group).Val()
	if pending.Count != 0 {
		t.Errorf("%d messages are unacknowledged, want none", pending.Count)
	}
}
