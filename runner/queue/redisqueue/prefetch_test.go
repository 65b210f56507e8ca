package redisqueue

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"writ"
	"writ/internal/sleep"
	"writ/internal/test/testenv"
	"writ/runner/queue"
)

// Promise: Load and attackers: A node receives work at once, and an idle node asks Redis every 5 s.
// How: After an empty answer the node waits until Redis has work, and it repairs its queue less often.
// Also: TestNodeWithoutWaitPermissionPolls.
func TestAnIdleNodeWaitsInsteadOfLooking(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	w := startWorker(t, server.URL, released())
	w.push("first")
	w.next("first")
	w.gone("first")
	w.untilCalled("blmove", w.called("blmove")+1) // the wait after it has begun
	scripts, repairs := w.called("evalsha"), w.called("lrange")
	w.untilCalled("blmove", w.called("blmove")+2)
	if n := w.called("evalsha") - scripts; n > 3 { // asynq runs other scripts from time to time
		t.Errorf("%d scripts during two waits without tasks", n)
	}
	if n := w.called("lrange") - repairs; n > 4 {
		t.Errorf("%d repairs during two waits without tasks", n)
	}
	w.push("second")
	w.next("second")
}

// older returns the rights of an account that was made by a supervisor without BLMOVE.
func older() []allowance {
	all := slices.Clone(allowances)
	all[0].commands = slices.DeleteFunc(slices.Clone(all[0].commands), func(c string) bool { return c == "blmove" })
	return all
}

func TestNodeWithoutWaitPermissionPolls(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	admin, supervisor := client(t, server.URL), open(t, server.URL)
	w := startWorker(t, account(t, admin, server.URL, testNode, older()), released())
	for _, id := range []string{"a", "b", "c"} {
		if err := supervisor.Push(t.Context(), testNode, queue.Task{ID: id, EndBy: time.Now().Add(time.Minute)}); err != nil {
			t.Fatal(err)
		}
		w.next(id)
	}
	if all := refusals(t, admin, testNode); len(all) == 0 {
		t.Error("it may wait after all")
	}
}

// Promise: Load and attackers: A read-only or paused Redis is polled four times a second.
// How: A pause follows a failed or unexpectedly empty poll.
// Also: TestPausedQueueIsNotPolledFast.
func TestReadOnlyRedisIsNotPolledFast(t *testing.T) {
	t.Parallel()
	for name, login := range map[string]func(t *testing.T, admin *redis.Client, redisURL string) string{
		"and waits": func(_ *testing.T, _ *redis.Client, redisURL string) string { return redisURL },
		"and may not wait": func(t *testing.T, admin *redis.Client, redisURL string) string {
			return account(t, admin, redisURL, testNode, older())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.Redis(t)
			admin, supervisor := client(t, server.URL), open(t, server.URL)
			w := startWorker(t, login(t, admin, server.URL), released())
			w.redis = admin
			push := func(id string) {
				t.Helper()
				if err := supervisor.Push(t.Context(), testNode, queue.Task{ID: id, EndBy: time.Now().Add(time.Minute)}); err != nil {
					t.Fatal(err)
				}
			}
			push("a")
			w.next("a")
			w.gone("a")
			full := func(bytes string) {
				t.Helper()
				if err := admin.ConfigSet(t.Context(), "maxmemory", bytes).Err(); err != nil {
					t.Fatal(err)
				}
			}
			w.paused(true) // so that the task stays until Redis is full
			push("b")
			full("1")
			w.paused(false)
			if looks, waits := w.whileTended(3); looks+waits > 60 { // about 24
				t.Errorf("%d polls and %d waits in three seconds with Redis unavailable", looks, waits)
			}
			full("0")
			w.next("b")
		})
	}
}

func TestPausedQueueIsNotPolledFast(t *testing.T) {
	t.Parallel()
	w := startWorker(t, testenv.Redis(t).URL, released())
	w.push("a")
	w.next("a")
	w.gone("a")
	w.paused(true)
	w.push("b")
	if looks, waits := w.whileTended(3); looks+waits > 60 { // about 24
		t.Errorf("%d polls and %d waits in three seconds with a paused queue", looks, waits)
	}
	w.paused(false)
	w.next("b")
}

// There are more of them than slots, and they must not count as tasks in a handler.
//
// Promise: Recovery: An unreadable task leaves its queue within seconds and occupies no slot.
// How: The node removes and logs a task without a handler after two checks, a second apart.
func TestUnreadableTasksAreRemoved(t *testing.T) {
	t.Parallel()
	redisURL := testenv.Redis(t).URL
	w := startWorker(t, redisURL, released())
	w.push("a")
	w.next("a")
	bad := map[string]string{"of another name": message(t, redisURL, "a"), "empty": ""}
	for i := range 6 {
		bad[fmt.Sprint("broken ", i)] = "\xff\xff"
	}
	for id, text := range bad {
		if err := w.redis.HSet(t.Context(), key(testNode, taskKey+id), "msg", text, "state", "pending", "pending_since", 1).Err(); err != nil {
			t.Fatal(err)
		}
		if err := w.redis.LPush(t.Context(), key(testNode, "pending"), id).Err(); err != nil {
			t.Fatal(err)
		}
	}
	w.push("b")
	w.gone(append(slices.Collect(maps.Keys(bad)), "b")...)
	for _, list := range []string{"pending", "active"} {
		if left := w.redis.LRange(t.Context(), key(testNode, list), 0, -1).Val(); len(left) > 0 {
			t.Errorf("%s has %q", list, left)
		}
	}
	if given := w.queue.prefetchers.at(testNode).gave(); len(given) > 0 {
		t.Errorf("asynq is believed to work on %q", given)
	}
}

// An attacker with access to Redis can add any number of unreadable tasks.
func TestUnreadableTasksLogFewLines(t *testing.T) {
	t.Parallel()
	q, log := open(t, testenv.Redis(t).URL), new(testenv.Log)
	q.Log = log.Logger()
	s := &service{queue: q, node: testNode, prefetcher: new(prefetcher)}
	for i := range 1000 {
		if err := s.refuse(t.Context(), []string{fmt.Sprint(strings.Repeat("x", 10_000), i)}); err != nil {
			t.Fatal(err)
		}
	}
	if text := log.String(); log.Lines("") == 0 || log.Lines("") > 3 || len(text) > 2000 {
		t.Errorf("a thousand make %d lines of %d bytes", log.Lines(""), len(text))
	}
}

// paused pauses or resumes the queue.
func (w *worker) paused(yes bool) {
	w.t.Helper()
	err := w.redis.Del(w.t.Context(), key(testNode, "paused")).Err()
	if yes {
		err = w.redis.Set(w.t.Context(), key(testNode, "paused"), 1, 0).Err()
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// whileTended returns the number of reads and waits of the queue while it is repaired a number of times, once a second.
func (w *worker) whileTended(times int) (looks, waits int) {
	w.t.Helper()
	w.untilCalled("lrange", w.called("lrange")+1)
	looks, waits = w.called("evalsha"), w.called("blmove")
	w.untilCalled("lrange", w.called("lrange")+times)
	return w.called("evalsha") - looks, w.called("blmove") - waits
}

// called returns how often Redis executed a command.
func (w *worker) called(command string) int {
	w.t.Helper()
	calls := statOf(w.redis.Info(w.t.Context(), "commandstats").Val(), command)
	n, _ := strconv.Atoi(strings.TrimPrefix(calls, "calls="))
	return n
}

func (w *worker) untilCalled(command string, times int) {
	w.t.Helper()
	ctx, stop := context.WithTimeout(w.t.Context(), guard)
	defer stop()
	for w.called(command) < times {
		if sleep.For(ctx, 10*time.Millisecond) != nil {
			w.t.Fatalf("%s was not called %d times", command, times)
		}
	}
}

// at returns the prefetcher of a node's queue, or nil if the queue is not served.
func (l *prefetchers) at(node writ.NodeID) *prefetcher {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of[key(node, "pending")]
}
