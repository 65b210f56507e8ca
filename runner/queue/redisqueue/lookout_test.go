package redisqueue

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"writ/internal/testenv"
	"writ/runner/queue"
)

func TestAnIdleNodeWaitsInsteadOfLooking(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	release := make(chan struct{})
	close(release)
	w := startWorker(t, server.URL, release)
	w.push("first")
	w.next("first")
	w.untilCalled("blmove", 2) // one ended in vain, for whoever looked for more came to wait after it
	before := w.called("evalsha")
	w.untilCalled("blmove", w.called("blmove")+2)
	if n := w.called("evalsha") - before; n > 3 { // asynq has other scripts, for now and then
		t.Errorf("%d scripts in half a second in which there was nothing to do", n)
	}
	w.push("second")
	w.next("second")
}

// A supervisor that does not know of waiting made the account.
func TestANodeThatMayNotWaitLooksAgain(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	admin, supervisor := client(t, server.URL), open(t, server.URL)
	older := slices.Clone(allowances)
	older[0].commands = slices.DeleteFunc(slices.Clone(older[0].commands), func(c string) bool { return c == "blmove" })
	release := make(chan struct{})
	close(release)
	w := startWorker(t, account(t, admin, server.URL, testNode, older), release)
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

// called returns how often Redis carried out a command.
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
		if pause(ctx, 10*time.Millisecond) != nil {
			w.t.Fatalf("%s was not called %d times", command, times)
		}
	}
}
