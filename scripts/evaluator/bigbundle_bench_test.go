package evaluator_test

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"writ"
	"writ/scripts"
	"writ/scripts/evaluator"
)

// bigBundle returns a script that waits for each of its calls and imports 370 KB of modules, which take some hundred
// milliseconds to compile. Bundles with different numbers are different programs.
func bigBundle(number, calls int) scripts.Bundle {
	const modules, size = 7, 53_000
	b := scripts.Bundle{}
	var imports strings.Builder
	for m := range modules {
		var text strings.Builder
		fmt.Fprintf(&text, "// %d\n", number)
		fmt.Fprintf(&text, "export {\n")
		for f := 0; text.Len() < size; f++ {
			fmt.Fprintf(&text, "\tf%d: func(a, b) {\n", f)
			for line := range 8 {
				fmt.Fprintf(&text, "\t\tif a > %d { a += b * %d - len(\"number %d\") }\n", f, line, f)
			}
			fmt.Fprintf(&text, "\t\treturn {sum: a + b}\n\t},\n")
		}
		fmt.Fprintf(&text, "\tlast: 0\n}\n")
		b.Modules = append(b.Modules, scripts.Source{Name: fmt.Sprintf("m%d", m), Text: []byte(text.String())})
		fmt.Fprintf(&imports, "m%d := import(\"m%d\")\nm%d.f1(1, 2)\n", m, m, m)
	}
	text := imports.String() + fmt.Sprintf("node := import(\"node\"); for i := 0; i < %d; i++ { node.ping().err }", calls)
	b.Main = scripts.Source{Name: "test.tengo", Text: []byte(text)}
	return b
}

// finishRun evaluates a run whose calls succeed at once, until it completes.
func finishRun(t testing.TB, e scripts.Evaluator, b scripts.Bundle, inputs scripts.Inputs) {
	var journal []scripts.Entry
	for {
		o, err := e.Pass(t.Context(), b, inputs, journal)
		if err != nil || o.Status == scripts.Failed {
			t.Errorf("after %d calls: %+v %v", len(journal), o.Failure, err)
			return
		}
		if o.Status == scripts.Completed {
			return
		}
		for _, c := range o.Calls {
			journal = append(journal, succeeded(c))
		}
	}
}

// BenchmarkBigBundle evaluates 250 runs of one big program, 50 at a time, each with ten sequential calls. The CPU time
// covers all children, including ended ones.
func BenchmarkBigBundle(b *testing.B) {
	const runs, calls, together = 250, 10, 50
	program := bigBundle(1, calls)
	binary := childBinary(b)
	before := endedChildrenCPU(b)
	for b.Loop() {
		pool := &evaluator.Pool{Executable: binary, Size: 2}
		next := make(chan int)
		var group sync.WaitGroup
		for range together {
			group.Go(func() {
				for i := range next {
					inputs := everything
					inputs.Run = writ.RunID(fmt.Sprint("run", i))
					finishRun(b, pool, program, inputs)
				}
			})
		}
		for i := range runs {
			next <- i
		}
		close(next)
		group.Wait()
		if err := pool.Close(); err != nil {
			b.Error(err)
		}
	}
	used := endedChildrenCPU(b) - before
	b.ReportMetric(float64(used.Microseconds())/float64(b.N*runs*calls), "child-cpu-µs/call")
}

// endedChildrenCPU returns the CPU time of all child processes that have ended.
func endedChildrenCPU(t testing.TB) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
