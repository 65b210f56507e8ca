package redisqueue

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"writ/internal/test/testenv"
	"writ/runner/queue"
)

// pusher pushes tasks to a real Redis.
type pusher struct {
	*testing.T
	queue *Queue
	redis *redis.Client
}

func newPusher(t *testing.T) *pusher {
	server := testenv.Redis(t)
	return &pusher{t, open(t, server.URL), client(t, server.URL)}
}

// push pushes tasks whose bodies are their IDs.
func (p *pusher) push(ids ...string) error {
	var tasks []queue.Task
	for _, id := range ids {
		tasks = append(tasks, queue.Task{ID: id, Body: []byte(id), EndBy: time.Now().Add(time.Hour)})
	}
	return p.queue.Push(p.Context(), testNode, tasks...)
}

// scripts returns the number of scripts that Redis runs during a push.
func (p *pusher) scripts(ids ...string) int {
	p.Helper()
	w := &worker{t: p.T, queue: p.queue, redis: p.redis}
	before := w.called("evalsha")
	if err := p.push(ids...); err != nil {
		p.Fatal(err)
	}
	return w.called("evalsha") - before
}

// newest returns the last n tasks of the queue, in the order of delivery.
func (p *pusher) newest(n int) []string {
	p.Helper()
	waiting, err := p.redis.LRange(p.Context(), key(testNode, "pending"), 0, int64(n)-1).Result()
	if err != nil {
		p.Fatal(err)
	}
	slices.Reverse(waiting)
	return waiting
}

// Promise: Speed and storage: Tasks that are pushed together arrive in order, also if Redis lost the script, and a
// failure is reported.
// How: They share few scripts, and existing tasks are not an error.
func TestPushKeepsOrderAfterScriptFlush(t *testing.T) {
	t.Parallel()
	p := newPusher(t)
	for round, forget := range []bool{false, true, false} {
		if forget {
			if err := p.redis.ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		var ids []string
		for i := range 20 {
			ids = append(ids, fmt.Sprintf("%d-%d", round, i))
		}
		for _, some := range [][]string{ids[:10], ids, ids} { // some of the tasks exist
			if err := p.push(some...); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(ids, p.newest(len(ids))); diff != "" {
			t.Errorf("round %d (-want +got):\n%s", round, diff)
		}
	}
	// Redis rejects writes: the common script fails after it has reported to asynq that each task is added.
	if err := p.redis.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if err := p.push("a", "b"); err == nil {
		t.Error("tasks that Redis rejected count as pushed")
	}
}

// This test fails if the package no longer recognises asynq's script: then each task has its own.
func TestTasksOfAPushShareScripts(t *testing.T) {
	t.Parallel()
	p := newPusher(t)
	if err := p.push("brings the", "script to Redis"); err != nil {
		t.Fatal(err)
	}
	if n := p.scripts("a", "b", "c", "d"); n != 1 {
		t.Errorf("four tasks took %d scripts, want 1", n)
	}
	// The text of a task is in its ID and in its body, so ten tasks exceed maxBurst.
	var ids []string
	for i := range 30 {
		ids = append(ids, strings.Repeat(string(rune('A'+i)), maxBurst/20))
	}
	if n := p.scripts(ids...); n != 3 {
		t.Errorf("30 tasks with ten per script took %d scripts, want 3", n)
	}
	if diff := cmp.Diff(ids, p.newest(len(ids))); diff != "" {
		t.Errorf("tasks (-want +got):\n%s", diff)
	}
}
