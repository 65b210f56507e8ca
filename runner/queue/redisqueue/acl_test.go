package redisqueue

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"writ"
	"writ/internal/sleep"
	"writ/internal/test/testenv"
	"writ/runner/queue"
)

const (
	testDatacenter = writ.DatacenterID("0192f6c2-0000-7000-8000-000000000009")
	otherNode      = writ.NodeID("0192f6c2-0000-7000-8000-000000000004")
)

// open returns a queue that is closed when the test ends.
func open(t testing.TB, redisURL string) *Queue {
	t.Helper()
	q, err := Open(redisURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	return q
}

// as returns the URL of a server with a login.
func as(redisURL, name, password string) string {
	u, err := url.Parse(redisURL)
	if err != nil {
		panic(err)
	}
	u.User = url.UserPassword(name, password)
	return u.String()
}

// account makes the account of a node with these rights and returns its URL.
func account(t *testing.T, admin *redis.Client, redisURL string, node writ.NodeID, allowances []allowance) string {
	t.Helper()
	name := (&Accounts{prefix: "test:"}).User(node)
	if err := admin.ACLSetUser(t.Context(), name, rules(node, hashOf("secret"), admin.Options().DB, allowances)...).Err(); err != nil {
		t.Fatal(err)
	}
	if err := loadScripts(t.Context(), admin); err != nil {
		t.Fatal(err)
	}
	return as(redisURL, name, "secret")
}

// traffic executes all operations of a node: it takes over tasks of a dead process, serves, is stopped during a task,
// recovers after Redis lost all data, reads and writes its streams, and is idle for a while. It returns when all are
// done, or at once when Redis has refused a command.
func traffic(t *testing.T, node writ.NodeID, supervisor *Queue, admin *redis.Client, nodeURL string, idle time.Duration, refused func() bool, watch ...redis.Hook) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), guard)
	defer cancel()
	in, out := queue.Stream{Node: node, Direction: queue.In}, queue.Stream{Node: node, Direction: queue.Out}
	must := func(err error) {
		t.Helper()
		if err != nil && !refused() {
			t.Fatal(err)
		}
	}
	push := func(ids ...string) {
		for _, id := range ids {
			must(supervisor.Push(ctx, node, queue.Task{ID: id, Body: []byte(id), EndBy: time.Now().Add(time.Minute)}))
		}
	}
	until := func(what string, done func() bool) bool {
		for !done() && !refused() {
			if sleep.For(ctx, 5*time.Millisecond) != nil {
				t.Fatalf("%s: it does not come", what)
			}
		}
		return !refused()
	}

	must(admin.ScriptFlush(ctx).Err()) // scripts are common to all users
	if len(watch) == 0 {
		must(loadScripts(ctx, admin))
	}
	// State of a dead process: an active task with an expired lease. asynq's own recovery finds it before ours would.
	push("left", "left too")
	for _, id := range []string{"left", "left too"} {
		must(admin.LRem(ctx, key(node, "pending"), 0, id).Err())
		must(admin.LPush(ctx, key(node, "active"), id).Err())
		must(admin.HSet(ctx, key(node, taskKey+id), "state", "active").Err())
	}
	must(admin.ZAdd(ctx, key(node, "lease"), redis.Z{Member: "left", Score: 1}).Err())
	must(admin.ZAdd(ctx, key(node, "completed"), redis.Z{Member: "ended long ago", Score: 1}).Err())
	q := open(t, nodeURL)
	for _, h := range watch {
		q.client.AddHook(h)
	}
	recovered, end := context.WithCancel(ctx)
	looking := q.prefetchers.begin(recovered, node, 1)
	end() // no tasks are fetched
	server := asynq.NewServerFromRedisClient(q.client, (&service{queue: q, node: node, free: make(chan struct{}, 1)}).config())
	must(server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })))
	until("recovery", func() bool { return admin.ZScore(ctx, key(node, "retry"), "left").Err() == nil })
	server.Shutdown()
	q.prefetchers.end(looking)

	var mu sync.Mutex
	came := map[string]int{}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(came)
	}
	serve := func(slots int, work func(ctx context.Context, id string)) (stop func()) {
		serving, end := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() {
			ended <- q.Serve(serving, node, slots, func(ctx context.Context, task queue.Task) {
				mu.Lock()
				came[task.ID]++
				mu.Unlock()
				work(ctx, task.ID)
			})
		}()
		return func() {
			end()
			if err := <-ended; err != nil {
				t.Errorf("Serve = %v", err)
			}
		}
	}
	stop := serve(2, func(context.Context, string) {})
	push("a", "b")
	until("work", func() bool { return count() == 4 })
	stop()

	// Stopped with one task in its handler and others waiting.
	stop = serve(1, func(ctx context.Context, _ string) { <-ctx.Done() })
	push("c", "d", "e")
	until("a full slot", func() bool { return count() == 5 })
	stop()
	stop = serve(2, func(context.Context, string) {})
	until("what waited", func() bool { return count() == 7 })

	// Streams.
	must(supervisor.makeStreams(ctx, []queue.Stream{in})) // runs every second
	must(supervisor.Send(ctx, in, []byte("hello")))
	got, err := q.Receive(ctx, time.Second, in)
	must(err)
	must(q.Acknowledge(ctx, got...))
	must(q.Send(ctx, out, []byte("beat")))
	for key := range slices.Values(admin.Keys(ctx, "*{"+string(node)+"}*").Val()) {
		must(admin.Del(ctx, key).Err()) // like FLUSHALL
	}
	must(supervisor.Send(ctx, in, []byte("again")))
	if sleep.For(ctx, 2*scriptPause) == nil && len(watch) == 0 { // the node waits for its group
		must(supervisor.makeStreams(ctx, []queue.Stream{in}))
	}
	got, err = q.Receive(ctx, time.Second, in)
	must(err)
	must(q.Acknowledge(ctx, got...))
	must(q.Send(ctx, out, []byte("beat")))
	push("f")
	until("work after all was lost", func() bool { return count() == 8 })
	until("the end of it is known", func() bool {
		missing, err := supervisor.Missing(ctx, node, "f")
		return err == nil && len(missing) == 1
	})
	quiet := time.Now().Add(idle)
	until("the end of quiet", func() bool { return time.Now().After(quiet) })
	stop()
	_ = q.Close()
}

// asynq has periodic operations: it pings its connection (3 s), extends leases (5 s), and cleans up (8 s).
const allOfAsynq = 9 * time.Second

// refusals returns the commands that Redis refused to the user of a node.
func refusals(t *testing.T, admin *redis.Client, node writ.NodeID) []string {
	t.Helper()
	entries, err := admin.ACLLog(context.WithoutCancel(t.Context()), 1000).Result()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		if e.Username == (&Accounts{prefix: "test:"}).User(node) {
			all = append(all, fmt.Sprintf("%s %s (%s)", e.Reason, e.Object, e.Context))
		}
	}
	return all
}

func TestANodesAccountIsEnoughForAllItsTraffic(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	admin, supervisor := client(t, server.URL), open(t, server.URL)
	traffic(t, testNode, supervisor, admin, account(t, admin, server.URL, testNode, allowances), allOfAsynq, func() bool { return false })
	if all := refusals(t, admin, testNode); len(all) > 0 {
		t.Errorf("Redis refused %q", all)
	}
}

func TestANodesAccountAllowsOnlyNeededCommands(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	admin, supervisor := client(t, server.URL), open(t, server.URL)
	without := func(word string, change func(all []allowance)) {
		t.Run(word, func(t *testing.T) {
			all := slices.Clone(allowances)
			change(all)
			node := writ.NodeID(writ.NewUUID())
			refused := func() bool { return len(refusals(t, admin, node)) > 0 }
			idle := time.Duration(0)
			if word == "ping" {
				idle = allOfAsynq
			}
			traffic(t, node, supervisor, admin, account(t, admin, server.URL, node, all), idle, refused)
			if !refused() {
				t.Error("everything works without it")
			}
		})
	}
	drop := func(words []string, i int) []string { return slices.Delete(slices.Clone(words), i, i+1) }
	for n, a := range allowances {
		for i, word := range a.keys {
			without(word, func(all []allowance) { all[n].keys = drop(a.keys, i) })
		}
		for i, word := range a.channels {
			without(word, func(all []allowance) { all[n].channels = drop(a.channels, i) })
		}
		for i, word := range a.commands {
			without(word, func(all []allowance) { all[n].commands = drop(a.commands, i) })
		}
	}
}
