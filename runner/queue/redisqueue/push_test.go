package redisqueue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ/internal/test/testenv"
	"writ/runner/queue"
)

// Promise: Speed and storage: Tasks that are pushed together arrive in order, also if Redis lost the script, and a
// failure is reported.
// How: They are added one after the other, and existing tasks are not an error.
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
		for range 2 { // existing tasks are not an error
			if err := q.Push(t.Context(), testNode, tasks...); err != nil {
				t.Fatal(err)
			}
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
	// Redis rejects writes.
	if err := admin.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if err := q.Push(t.Context(), testNode, queue.Task{ID: "a"}, queue.Task{ID: "b"}); err == nil {
		t.Error("tasks that Redis rejected count as pushed")
	}
}
