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

// longRun is a run that waits for its fourth call. Its passes lack their first three entries.
type longRun struct {
	inputs scripts.Inputs
	rest   []scripts.Entry
}

const waits5 = `node := import("node"); for i := 0; i < 5; i++ { node.ping().err }`

// newLongRun plays the first passes of a run with another pool, and returns the run. read is called while its first
// entries are read.
func newLongRun(t *testing.T, other *evaluator.Pool, project string, run int, read func()) *longRun {
	t.Helper()
	in := of(project, run)
	var journal []scripts.Entry
	for range 3 {
		o, err := other.Pass(t.Context(), bundle(waits5), in, journal)
		if err != nil || len(o.Calls) != 1 {
			t.Fatalf("%+v %v", o, err)
		}
		journal = append(journal, succeeded(o.Calls[0]))
	}
	in.Ended, in.First = 3, 3
	in.Earlier = func(context.Context) ([]scripts.Entry, error) { read(); return journal, nil }
	return &longRun{inputs: in}
}

// pass runs a pass whose next call succeeds.
func (r *longRun) pass(ctx context.Context, t *testing.T, pool *evaluator.Pool) {
	o, err := pool.Pass(ctx, bundle(waits5), r.inputs, r.rest)
	if ctx.Err() != nil {
		return
	}
	if err != nil || len(o.Calls) != 1 || o.Calls[0].Seq != 4+len(r.rest) {
		t.Errorf("pass of %s: %+v %v", r.inputs.Run, o, err)
		return
	}
	r.rest = append(r.rest, succeeded(o.Calls[0]))
}

// A pass whose journal is read holds no child meanwhile. One journal is read at a time, of the project that has used
// the least time.
func TestJournalsAreReadOneAtATime(t *testing.T) {
	pool, other := newPool(t, 2), newPool(t, 1)
	pool.Size = 1
	var reading atomic.Int32
	var order []string
	start, proceed := make(chan bool), make(chan bool)
	begin := func(project string, first bool) func() {
		return func() {
			if reading.Add(1) > 1 {
				t.Error("two journals are read at once")
			}
			if order = append(order, project); first {
				start <- true
				<-proceed
			}
			reading.Add(-1)
		}
	}
	runs := []*longRun{newLongRun(t, other, "many", 0, begin("many", true))}
	for i := range 3 {
		runs = append(runs, newLongRun(t, other, "many", i+1, begin("many", false)))
	}
	runs = append(runs, newLongRun(t, other, "few", 0, begin("few", false)))
	var group sync.WaitGroup
	group.Go(func() { runs[0].pass(t.Context(), t, pool) })
	<-start
	for i, r := range runs[1:] {
		group.Go(func() { r.pass(t.Context(), t, pool) })
		for pool.Waiting() <= i {
			runtime.Gosched()
		}
	}
	gone, stop := context.WithCancel(t.Context())
	stop()
	newLongRun(t, other, "many", 9, begin("gone", false)).pass(gone, t, pool)
	pass(t.Context(), t, pool, "works", 1, facts)
	if n := reading.Load(); n != 1 {
		t.Errorf("%d journals are being read, want 1", n)
	}
	close(proceed)
	group.Wait()
	if got := fmt.Sprint(order); got != "[many few many many many]" {
		t.Errorf("the journals were read in the order %s: the project with one run waited for the project with many", got)
	}
	if n := pool.Waiting(); n != 0 {
		t.Errorf("%d passes wait", n)
	}
	for _, r := range runs { // the child has their journals now
		r.pass(t.Context(), t, pool)
	}
	if len(order) != len(runs) {
		t.Errorf("%d journals were read for %d runs with two passes each", len(order), len(runs))
	}
}

// The next pass of a long run goes to the child that has its journal, even if that child is for slow passes.
func TestLongRunStaysInASlowChild(t *testing.T) {
	pool, other := newPool(t, 2), newPool(t, 1)
	pass(t.Context(), t, pool, "quick", 0, facts)
	read := 0
	r := newLongRun(t, other, "long", 0, func() { read++ })
	pool.RecordSlow(bundle(waits5).Digest())
	r.pass(t.Context(), t, pool)
	pool.ForgetCosts()
	r.pass(t.Context(), t, pool)
	if read != 1 || pool.IdleSlow() != 1 {
		t.Errorf("the journal was read %d times, and %d children are slow, want one each", read, pool.IdleSlow())
	}
}
