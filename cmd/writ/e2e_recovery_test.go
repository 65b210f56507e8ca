package main

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/testenv"
)

// TestRecovery measures the recovery after a kill, from the start of the next process: for a runner until its job runs
// again, for a supervisor until the next call is done. It prints the times. It fails only after ten times the limit in
// docs/promises.md.
func TestRecovery(t *testing.T) {
	t.Parallel()
	kills := 4
	if testenv.IsLong() {
		kills = 50
	}
	const hang = 50 * time.Second
	s := testcluster.New(t)
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: testenv.Redis(t).URL, Nodes: 1, Speed: "0.5", Node: []string{"--log-level", "debug"}})
	s.Script("long.tengo", "herodb := import(\"herodb\")\nherodb.create(\"slow-3600-db\", {memory_mib: 64}, {timeout: \"2h\"})\n")
	s.Script("steps.tengo", `
herodb := import("herodb")
params := {name: {type: "string"}}
run := import("run")
for i := 0; i < 40; i++ {
	run.log(herodb.create(run.params.name + "-" + i, {memory_mib: 16}).address)
}
`)
	measure := func(what string, one func() time.Duration) {
		var took []time.Duration
		for range kills {
			took = append(took, one())
		}
		slices.Sort(took)
		t.Logf("%s: median %v, worst of %d %v", what, took[len(took)/2].Round(time.Millisecond), kills, took[len(took)-1].Round(time.Millisecond))
		if worst := took[len(took)-1]; worst > hang {
			t.Errorf("%s: %v", what, worst)
		}
	}

	long := s.Submit("long.tengo", "--deadline", "2h")
	s.Until("the node works on the job", func(ctx context.Context) bool {
		calls, err := s.Client.Runs.Calls(ctx, long)
		return err == nil && len(calls) == 1 && calls[0].State == writ.CallRunning
	})
	measure("a killed runner works on its job again", func() time.Duration {
		s.Kill("dc1-n1")
		began := time.Now()
		s.Await(s.Launch("dc1-n1"), "simulating herodb.create")
		return time.Since(began)
	})
	s.Writ("run", "cancel", string(long))

	round := 0
	measure("a killed supervisor has the next call done", func() time.Duration {
		round++
		steps := s.Submit("steps.tengo", "-p", fmt.Sprintf("name=s%d", round))
		s.Until("the run has begun", func(context.Context) bool { return s.Done(steps, "dc1-n1") > 1 })
		s.Kill("dc1")
		before := s.Done(steps, "dc1-n1") + 1 // a call that is already running needs no supervisor
		began := time.Now()
		s.Launch("dc1")
		s.Until("the next step of the run", func(context.Context) bool { return s.Done(steps, "dc1-n1") > before })
		took := time.Since(began)
		s.Says(0, []string{string(steps)}, "run", "cancel", string(steps))
		return took
	})
}
