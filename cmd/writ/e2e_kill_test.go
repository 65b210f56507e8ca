package main

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
)

// steps is a script with sequential calls, so that processes can be killed in the middle of it.
const (
	stepCount = 8
	steps     = `
herodb := import("herodb")
run := import("run")
params := {name: {type: "string"}}
for i := 0; i < 8; i++ {
	db := herodb.create(run.params.name + "-" + i, {memory_mib: 64})
	run.log("step", i, "at", db.address)
}
run.output({steps: 8})
`
)

// TestKilledProcessesFinishTheRun kills each kind of process in the middle of a run and restarts it. The run succeeds,
// and each call took effect once.
//
// Promise: Failures: A run completes despite a kill at any point, and each effect happens once.
// How: A step counts once it is in a journal; open calls are delivered again.
// Also: TestKillsLoseNoEffectsOfRun.
func TestKilledProcessesFinishTheRun(t *testing.T) {
	t.Parallel()
	broker := testenv.RedisWithPassword(t)
	s := testcluster.New(t)
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: broker.URL, Nodes: 1, Speed: "0.5"})
	s.Script("steps.tengo", steps)

	for _, victim := range []string{"coord", "dc1", "dc1-n1"} {
		t.Run(victim, func(t *testing.T) {
			id := s.Submit("steps.tengo", "-p", "name=kill-"+victim)
			run := s.Follow(id, 3, func() {
				s.Kill(victim)
				s.Restart(victim)
			})
			if summary := s.Succeeded(run); summary.Calls != stepCount {
				t.Errorf("%d calls, want %d", summary.Calls, stepCount)
			}
			s.OnceEach(id, stepCount, "dc1-n1")
		})
	}
	t.Run("redis", func(t *testing.T) {
		id := s.Submit("steps.tengo", "-p", "name=kill-redis")
		run := s.Follow(id, 3, func() {
			broker.Kill()
			broker.Start()
		})
		s.Succeeded(run)
		s.OnceEach(id, stepCount, "dc1-n1")
	})
	t.Run("flushall", func(t *testing.T) {
		options, err := redis.ParseURL(broker.URL)
		if err != nil {
			t.Fatal(err)
		}
		c := redis.NewClient(options)
		defer c.Close()
		id := s.Submit("steps.tengo", "-p", "name=flush")
		run := s.Follow(id, 3, func() {
			if err := c.FlushAll(t.Context()).Err(); err != nil {
				t.Error(err)
			}
		})
		s.Succeeded(run)
		s.OnceEach(id, stepCount, "dc1-n1")
	})
}
