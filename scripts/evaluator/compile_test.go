package evaluator_test

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"

	"writ"
	"writ/scripts/evaluator"
)

// hasChild reports whether a child of the pool lives and is idle.
func hasChild(pool *evaluator.Pool, pid int) bool {
	return slices.ContainsFunc(pool.Idle(), func(p *os.Process) bool { return p.Pid == pid })
}

// besides runs work while passes of another project wait, and returns when both are done.
func besides(t *testing.T, pool *evaluator.Pool, work ...func()) {
	t.Helper()
	release := pool.Hold()
	var group sync.WaitGroup
	for _, do := range work {
		waiting := pool.Waiting()
		group.Go(do)
		for pool.Waiting() == waiting {
			runtime.Gosched()
		}
	}
	for i := range 3 {
		group.Go(func() {
			for j := range 50 {
				pass(t.Context(), t, pool, "works", fmt.Sprint(i, " ", j), facts)
			}
		})
	}
	release()
	group.Wait()
}

// TestLongCompilationEndsNoChild compiles big programs, in passes and plans, while passes of other projects wait: the
// child with the other program survives.
func TestLongCompilationEndsNoChild(t *testing.T) {
	pool := newPool(t, 1)
	pass(t.Context(), t, pool, "works", 0, facts)
	child := onlyChild(t, pool)
	run := func(i int) func() {
		return func() { finishRun(t, pool, bigBundle(i, 3), of("big", i)) }
	}
	besides(t, pool, run(1), run(2), func() {
		if _, err := pool.Plan(t.Context(), bigBundle(3, 1), of("plans", 1)); err != nil {
			t.Error(err)
		}
	})
	if !hasChild(pool, child) {
		t.Errorf("child %d was ended", child)
	}
}

// TestSlowPassEndsNoChild does the same with passes and plans that compute for a long time.
func TestSlowPassEndsNoChild(t *testing.T) {
	pool := newPool(t, 1)
	pass(t.Context(), t, pool, "works", 0, facts)
	child := onlyChild(t, pool)
	besides(t, pool,
		func() { pass(t.Context(), t, pool, "slow", 1, burn(1)) },
		func() {
			if _, err := pool.Plan(t.Context(), bundle(burn(2)), of("plans", 1)); writ.CodeOf(err) == writ.CodeEvaluatorCrashed {
				t.Error(err)
			}
		})
	if !hasChild(pool, child) {
		t.Errorf("child %d was ended", child)
	}
}

// TestChildCannotStopPassesForEver starts a child that claims a timeout for each request.
func TestChildCannotStopPassesForEver(t *testing.T) {
	pool := newPoolOf(t, "liar")
	_, err := pool.Pass(t.Context(), bundle("// say it stopped."), everything, nil)
	if writ.CodeOf(err) != writ.CodeEvaluatorCrashed {
		t.Errorf("Pass = %v, want %s", err, writ.CodeEvaluatorCrashed)
	}
}
