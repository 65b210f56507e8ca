package evaluator_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"writ"
	"writ/scripts"
	"writ/scripts/evaluator"
)

// burn returns a script that uses all fuel of a pass, some hundred milliseconds of CPU time. Each has its own digest.
func burn(i int) string { return fmt.Sprintf("// %d\nx := 0\nfor { x += 1 }\n", i) }

// of returns the inputs of a run of a project.
func of(project string, run any) scripts.Inputs {
	inputs := everything
	inputs.Project, inputs.Run = project, writ.RunID(fmt.Sprint(project, run))
	return inputs
}

func pass(ctx context.Context, t *testing.T, pool *evaluator.Pool, project string, run any, text string) {
	t.Helper()
	if o, err := pool.Pass(ctx, bundle(text), of(project, run), nil); ctx.Err() == nil && (err != nil || o.Status == scripts.Failed && o.Failure.Code != writ.CodeScriptLimit) {
		t.Errorf("pass of %s: %s %v, %v", project, o.Status, o.Failure, err)
	}
}

// TestLongPassYieldsItsChild occupies the only child with a long pass before another project arrives.
func TestLongPassYieldsItsChild(t *testing.T) {
	pool := newPool(t, 2)
	pool.Size = 1
	var order []string
	var mu sync.Mutex
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, what)
	}
	var group sync.WaitGroup
	group.Go(func() {
		pass(t.Context(), t, pool, "hostile", 1, burn(1))
		note("slow")
	})
	for pool.Busy() == 0 {
		runtime.Gosched()
	}
	pass(t.Context(), t, pool, "works", 1, facts)
	note("quick")
	group.Wait()
	if order[0] != "quick" {
		t.Errorf("they ended in the order %v: the small pass waited for the big one", order)
	}
}

func TestCPUTimeIsSharedByProject(t *testing.T) {
	for name, test := range map[string]struct {
		weights     map[string]int
		least, most int // passes of few by the time of 6 passes of many
	}{
		"alike":    {nil, 4, 9},
		"weighted": {map[string]int{"many": 3}, 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			pool := newPool(t, 2)
			pool.Size = 1
			pool.Weight = func(project string) int { return test.weights[project] }
			pass(t.Context(), t, pool, "before", 0, burn(0)) // it is recorded as slow
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var many, few, until atomic.Int32
			var group sync.WaitGroup
			work := func(project string, n *atomic.Int32, runs int) {
				for i := range runs {
					group.Go(func() {
						for j := 0; ctx.Err() == nil; j++ {
							pass(ctx, t, pool, project, fmt.Sprint(i, " ", j), burn(0))
							if ctx.Err() == nil && n.Add(1) == 6 && n == &many {
								until.Store(few.Load())
								stop()
							}
						}
					})
				}
			}
			work("many", &many, 20) // by number of passes, all of these would precede few
			work("few", &few, 3)
			group.Wait()
			if got := int(until.Load()); got < test.least || got > test.most {
				t.Errorf("the project with 3 runs had %d passes when the project with 20 runs had 6, want %d to %d", got, test.least, test.most)
			}
		})
	}
}

func TestCloseWaitsForSlowPasses(t *testing.T) {
	pool := newPool(t, 2)
	pool.Size = 1
	pass(t.Context(), t, pool, "slow", 1, burn(1)) // it is recorded as slow
	var group sync.WaitGroup
	group.Go(func() { pass(t.Context(), t, pool, "slow", 2, burn(1)) })
	for pool.Busy() == 0 {
		runtime.Gosched()
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	if n := pool.Busy(); n > 0 {
		t.Errorf("the pool is closed, and %d children are at work", n)
	}
	group.Wait()
	if idle := pool.Idle(); len(idle) > 0 {
		t.Errorf("the pool is closed, and %d children are left", len(idle))
	}
}
