package evaluator

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// In virtual time: two children, forty passes of one project that take a quantum each, and three later small ones of
// another project.
//
// Promise: Limits and shares: Scripts that need much CPU time do not delay runs of other projects.
// How: A free evaluator child serves the project with the least weighted CPU time; a pass or plan restarts in a slow
// class after 50 ms; large programs compile in a class of their own.
// Also: TestLongPassYieldsItsChild, TestCPUTimeIsSharedByProject, TestLongCompilationEndsNoChild,
// TestSlowPassEndsNoChild, TestSlotsLimitEachClass, TestTenantsGetEqualTimeForItemsOfAnyCost, TestWeightsShareTheTime.
func TestSlowScriptsOfAProjectDoNotDelayAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		children := newAdmission(2, nil)
		pass := func(project string, cost time.Duration) {
			s, err := children.enter(t.Context(), project, nil)
			if err != nil {
				t.Error(err)
				return
			}
			time.Sleep(cost)
			s.cost = cost
			children.leave(s)
		}
		const slow, small = 40, 3
		done := 0
		var mu sync.Mutex
		var group sync.WaitGroup
		for range slow {
			group.Go(func() {
				pass("hostile", quantum)
				mu.Lock()
				defer mu.Unlock()
				done++
			})
		}
		synctest.Wait() // all but the first two wait
		for range small {
			began := time.Now()
			pass("works", time.Millisecond)
			if took := time.Since(began); took > quantum+time.Millisecond {
				t.Errorf("a small pass took %s", took)
			}
		}
		mu.Lock()
		if done > 2*small {
			t.Errorf("%d of %d slow passes ended before %d small ones of another project", done, slow, small)
		}
		mu.Unlock()
		group.Wait()
	})
}
