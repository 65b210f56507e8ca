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

	"writ/internal/test/testenv"
	"writ/runner/queue"
)

// This test fails if the package no longer recognises asynq's scripts.
func TestTasksAreTakenAndRemovedTogether(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	q, redis := open(t, server.URL), client(t, server.URL)
	w := &worker{t: t, queue: q, redis: redis}
	w.push("brings the script that pushes")
	if _, err := q.Withdraw(t.Context(), testNode, "brings the script that pushes"); err != nil {
		t.Fatal(err)
	}
	const n = 64
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprint(i))
	}
	w.push(ids...)
	before := w.called("evalsha")
	came, release := make(chan struct{}, n), make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- q.Serve(ctx, testNode, n, func(context.Context, queue.Task) {
			came <- struct{}{}
			<-release
		})
	}()
	for range n {
		select {
		case <-came:
		case <-time.After(guard):
			t.Fatal("a task did not come")
		}
	}
	close(release)
	w.gone(ids...)
	if scripts := w.called("evalsha") - before; scripts > n/2 { // usually two to four
		t.Errorf("%d scripts take and remove %d tasks", scripts, n)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// Tasks that were taken together and wait for a slot are active in Redis, but have no handler.
func TestTasksWithoutAHandlerArePutBack(t *testing.T) {
	t.Parallel()
	redisURL := startEmbedded(t)
	handled := make(chan struct{})
	w := startWorker(t, redisURL, handled)
	release := sync.OnceFunc(func() { close(handled) })
	t.Cleanup(release)
	w.push("a", "b", "c", "d") // one per slot
	for range 4 {
		select {
		case <-w.came:
		case <-time.After(guard):
			t.Fatal("a task did not come")
		}
	}
	w.push("first", "second")
	o := w.queue.prefetchers.of[key(testNode, "pending")]
	tasks, err := take(t.Context(), w.redis, o.keys, time.Now().Add(time.Minute).Unix(), key(testNode, taskKey), 3)
	if err != nil || len(tasks) != 2 || tasks[0].id != "first" || tasks[1].id != "second" {
		t.Fatalf("taken %v, %v", tasks, err)
	}
	o.mu.Lock()
	o.taken = tasks
	o.mu.Unlock()

	// As if they were unknown before.
	serving := &service{queue: w.queue, node: testNode, prefetcher: o}
	strangers, err := serving.repair(t.Context(), []string{"first", "second"})
	if err != nil || len(strangers) != 0 {
		t.Errorf("unknown tasks are %q, %v", strangers, err)
	}
	if waiting := w.redis.LLen(t.Context(), key(testNode, "pending")).Val(); waiting != 0 {
		t.Errorf("%d tasks were put back that asynq is to get", waiting)
	}
	stopped := make(chan struct{})
	go func() {
		w.stop()
		close(stopped)
	}()
	for served := o.serve.Done(); served != nil; {
		select {
		case <-served:
			served = nil
		case <-time.After(guard):
			t.Fatal("Serve does not end")
		}
	}
	release()
	<-stopped
	waiting := w.redis.LRange(t.Context(), key(testNode, "pending"), 0, -1).Val()
	slices.Reverse(waiting) // the next one is at the right end
	if diff := cmp.Diff([]string{"first", "second"}, waiting); diff != "" {
		t.Errorf("waiting tasks (-want +got):\n%s", diff)
	}
}

// The tasks end together. One of them was given to another process meanwhile, and must stay there.
func TestEndRemovesOnlyActiveTasks(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	q, admin := open(t, server.URL), client(t, server.URL)
	ended := make(map[string]chan error)
	for id, list := range map[string]string{"a": "active", "b": "pending", "c": "active"} {
		if err := admin.HSet(t.Context(), key(testNode, taskKey+id), "msg", id).Err(); err != nil {
			t.Fatal(err)
		}
		if err := admin.LPush(t.Context(), key(testNode, list), id).Err(); err != nil {
			t.Fatal(err)
		}
		d, _ := q.deliveries.begin(testNode, id)
		close(d.done)
		ended[id] = make(chan error, 1)
	}
	for id, end := range ended {
		go func() {
			keys := []string{key(testNode, "active"), key(testNode, "lease"), key(testNode, taskKey+id), key(testNode, "processed:today"), key(testNode, "processed")}
			end <- q.client.EvalSha(t.Context(), "asynq's own", keys, id, 1, 2).Err()
		}()
	}
	for id, end := range ended {
		err := <-end
		there := admin.Exists(t.Context(), key(testNode, taskKey+id)).Val() == 1
		known := q.deliveries.get(testNode, id) != nil
		if stays := id == "b"; (err != nil) != stays || there != stays || known != stays {
			t.Errorf("end of %s: %v; exists: %v, known: %v", id, err, there, known)
		}
	}
}

// A caller whose patience ends leaves its task to the others.
func TestEndOfOneCallerLeavesTheOthers(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	q := open(t, server.URL)
	h := &endHook{client: q.client, gone: func(string, string) {}, waiting: make(map[string][]*ending)}
	e := func(id string) *ending {
		return &ending{active: key(testNode, "active"), lease: key(testNode, "lease"), task: key(testNode, taskKey+id), id: id, ended: make(chan error, 1)}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.end(over, e("a")); !errors.Is(err, context.Canceled) && !errors.Is(err, errNotActive) {
		t.Errorf("end = %v", err)
	}
	if err := h.end(t.Context(), e("b")); !errors.Is(err, errNotActive) {
		t.Errorf("end of the other task = %v, want %v", err, errNotActive)
	}
}
