package evaluator_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"writ"
	"writ/scripts"
	"writ/scripts/evaluator"
)

// BenchmarkStart measures the start of a child until it is confined and waits for a pass.
func BenchmarkStart(b *testing.B) {
	binary := childBinary(b)
	for b.Loop() {
		pool := &evaluator.Pool{Executable: binary, Size: 1}
		if _, err := pool.Confinement(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := pool.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// sides returns the evaluators to compare.
func sides(b *testing.B) map[string]scripts.Evaluator {
	return map[string]scripts.Evaluator{"child": newPool(b, 1), "in-process": new(evaluator.InProcess)}
}

// BenchmarkPass compares a pass in a child with the same pass in this process, for small and medium runs: the first
// pass of a run, the pass after one more result, and a pass whose journal is new to every child.
func BenchmarkPass(b *testing.B) {
	for _, calls := range []int{10, 100} {
		script := bundle(fmt.Sprintf(`node := import("node")
for i := 1; i < %d; i++ { node.ping({}, {labels: {zone: "a" + i}}) }
node.facts().hostname
`, calls))
		for side, e := range sides(b) {
			pass := func(run string, journal []scripts.Entry) []scripts.NewCall {
				inputs := everything
				inputs.Run = writ.RunID(run)
				o, err := e.Pass(b.Context(), script, inputs, journal)
				if err != nil || o.Status == scripts.Failed {
					b.Fatal(o, err)
				}
				return o.Calls
			}
			var all []scripts.Entry
			for _, c := range pass("r", nil) {
				all = append(all, succeeded(c))
			}
			all[calls-1] = scripts.Entry{Seq: calls, Hash: all[calls-1].Hash, State: scripts.EntryOpen}
			fewer := slices.Clone(all)
			fewer[0] = scripts.Entry{Seq: 1, Hash: all[0].Hash, State: scripts.EntryOpen}

			name := func(kind string) string { return fmt.Sprintf("%s/%d-calls/%s", kind, calls, side) }
			b.Run(name("first"), func(b *testing.B) {
				for b.Loop() {
					pass("r", nil)
				}
			})
			b.Run(name("next"), func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					pass("r", [][]scripts.Entry{fewer, all}[i%2])
				}
			})
			b.Run(name("unseen"), func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					pass(fmt.Sprint(i), all)
				}
			})
		}
	}
}

// BenchmarkSequentialWaits runs a script that waits for each of its calls, in a child and in this process. Each pass
// replays all earlier calls. For a child, the CPU time covers only the evaluation.
func BenchmarkSequentialWaits(b *testing.B) {
	for _, calls := range []int{10, 100, 1000} {
		for side, e := range sides(b) {
			b.Run(fmt.Sprintf("%d/%s", calls, side), func(b *testing.B) {
				waits(b, e, 1) // starts the child
				pool, _ := e.(*evaluator.Pool)
				before := childCPU(pool)
				for b.Loop() {
					waits(b, e, calls)
				}
				if pool != nil {
					b.ReportMetric((childCPU(pool)-before).Seconds()/float64(b.N), "child-cpu-s/run")
				}
			})
		}
	}
}

// childCPU returns the total CPU time of the idle children of a pool.
func childCPU(pool *evaluator.Pool) (all time.Duration) {
	if pool == nil {
		return 0
	}
	for _, process := range pool.Idle() {
		all += evaluator.CPUOf(process.Pid)
	}
	return all
}

// waits plays a run that waits for each of its calls, to its end.
func waits(t testing.TB, e scripts.Evaluator, calls int) {
	t.Helper()
	script := bundle(fmt.Sprintf(`node := import("node"); for i := 0; i < %d; i++ { node.ping().err }`, calls))
	inputs := everything
	inputs.MaxCalls = calls
	var journal []scripts.Entry
	for {
		o, err := e.Pass(t.Context(), script, inputs, journal)
		switch {
		case err != nil || o.Status == scripts.Failed:
			t.Fatalf("after %d calls: %+v %v", len(journal), o.Failure, err)
		case o.Status == scripts.Completed && len(journal) == calls:
			return
		}
		for _, c := range o.Calls {
			journal = append(journal, succeeded(c))
		}
	}
}
