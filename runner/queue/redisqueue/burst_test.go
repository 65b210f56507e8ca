package redisqueue

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ/internal/test/testenv"
	"writ/runner/queue"
)

// asynq gets a positive answer for each task of a Push before Redis gets any.
//
// Promise: Speed and storage: Tasks that are pushed together arrive in order, also if Redis lost the script, and a
// failure is reported.
// How: One round trip carries the scripts of all.
func TestTasksThatArePushedTogetherAreThereInOrder(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	q, redis := open(t, server.URL), client(t, server.URL)
	push := func(ids ...string) error {
		tasks := make([]queue.Task, len(ids))
		for i, id := range ids {
			tasks[i] = queue.Task{ID: id, Body: []byte(id), EndBy: time.Now().Add(time.Hour)}
		}
		return q.Push(t.Context(), testNode, tasks...)
	}
	for _, ids := range [][]string{{"1", "2", "3"}, {"2", "4", "1", "5"}} { // existing tasks are not an error
		if err := redis.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if err := push(ids...); err != nil {
			t.Fatal(err)
		}
	}
	pending, err := redis.LRange(t.Context(), key(testNode, "pending"), 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(pending)
	if diff := cmp.Diff([]string{"1", "2", "3", "4", "5"}, pending); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// asynq's own script is not sent. If this fails, asynq may have another script.
	if err := redis.ConfigResetStat(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := push("a", "b", "c", "d"); err != nil {
		t.Fatal(err)
	}
	if stats := redis.Info(t.Context(), "commandstats").Val(); !strings.Contains(stats, "cmdstat_evalsha:calls=1,") {
		t.Errorf("four tasks took more than one script:\n%s", stats)
	}
	// No request is long enough to fill the buffers of a connection.
	var ids []string
	for i := range 30 {
		ids = append(ids, strings.Repeat(string(rune('A'+i)), maxBurst/20)) // once as the ID and once as the body
	}
	if err := redis.ConfigResetStat(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := push(ids...); err != nil {
		t.Fatal(err)
	}
	if stats := redis.Info(t.Context(), "commandstats").Val(); !strings.Contains(stats, "cmdstat_evalsha:calls=3,") {
		t.Errorf("30 tasks of which ten fill a script did not take three:\n%s", stats)
	}
	if pending, err = redis.LRange(t.Context(), key(testNode, "pending"), 0, int64(len(ids)-1)).Result(); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(pending)
	if diff := cmp.Diff(ids, pending); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Redis rejects writes: the script fails, but asynq is not affected.
	if err := redis.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if err := push("6", "7"); err == nil {
		t.Error("tasks that could not be put there count as pushed")
	}
}
