package supervisor_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"writ"
	"writ/identity"
	"writ/internal/test/testenv"
	"writ/runner/queue"
	"writ/runner/queue/redisqueue"
	"writ/scripts/evaluator"
	"writ/supervisor/journal"
	"writ/supervisor/workflow"
)

// stepsScript makes ten sequential calls.
const stepsScript = `
node := import("node")
for i := 0; i < 10; i++ {
	node.ping().err
}
`

// fanScript makes a thousand calls at once.
const fanScript = `
node := import("node")
for i := 0; i < 1000; i++ {
	node.ping()
}
`

const oneScript = `
node := import("node")
node.ping()
`

// benchmarkSim is a datacenter in one process. Benchmarks measure from the submission to the end of the run, with each
// call and result signed and stored on disk.
type benchmarkSim struct {
	*sim
	ends func(writ.RunID) <-chan struct{}
}

// benchWays lists the setups for newBenchmarkSim.
var benchWays = []string{"memory", "redis", "children"}

// newBenchmarkSim starts a datacenter with one node of 64 slots. The setup "memory" has its queue in memory and
// evaluates passes in this process. "redis" uses a redis-server instead. "children" also evaluates passes in child
// processes, as in production.
func newBenchmarkSim(b *testing.B, way string) *benchmarkSim {
	s := newCluster(b)
	s.evaluator = new(evaluator.InProcess)
	var there queue.Queue
	if way != "memory" {
		server := testenv.Redis(b)
		open := func() queue.Queue {
			q, err := redisqueue.Open(server.URL)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = q.Close() })
			return q
		}
		s.way, there = open(), open()
	}
	if way == "children" {
		pool := new(evaluator.Pool)
		b.Cleanup(func() { _ = pool.Close() })
		s.evaluator = pool
	}
	s.start()
	s.realNode("n1", func(n *realNode) { n.way = there })
	bs := &benchmarkSim{sim: s, ends: s.watchEnds()}
	for range 20 { // warm up: compile programs, open connections, prepare queries
		bs.runScript(stepsScript)
	}
	return bs
}

// runScript submits a script and waits until its run has ended.
func (s *benchmarkSim) runScript(script string) {
	p := s.payload(script)
	p.MaxCalls = identity.MaxCalls
	run, err := s.Submit(s.t.Context(), s.signPayload(p))
	if err != nil {
		s.t.Error(err)
		return
	}
	<-s.ends(run.ID)
}

// BenchmarkRuns measures whole runs of ten sequential calls that do nothing.
func BenchmarkRuns(b *testing.B) {
	for _, way := range benchWays {
		for _, inFlight := range []int{1, 50} {
			b.Run(fmt.Sprintf("%s/inFlight=%d", way, inFlight), func(b *testing.B) {
				s := newBenchmarkSim(b, way)
				next := make(chan struct{})
				var mu sync.Mutex
				var took []time.Duration
				var group sync.WaitGroup
				before := usedCPU(b)
				b.ResetTimer()
				for range inFlight {
					group.Go(func() {
						for range next {
							began := time.Now()
							s.runScript(stepsScript)
							mu.Lock()
							took = append(took, time.Since(began))
							mu.Unlock()
						}
					})
				}
				for range b.N {
					next <- struct{}{}
				}
				close(next)
				group.Wait()
				b.StopTimer()
				reportCPU(b, before, 10*b.N)
				reportTimes(b, took)
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
			})
		}
	}
}

// BenchmarkSubmission measures one call alone, from the submission to the end of its run.
func BenchmarkSubmission(b *testing.B) {
	s := newBenchmarkSim(b, "children")
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		s.runScript(oneScript)
		took = append(took, time.Since(began))
	}
	reportTimes(b, took)
}

// BenchmarkFanOut measures runs that make a thousand calls at once, one run at a time.
func BenchmarkFanOut(b *testing.B) {
	for _, way := range benchWays {
		b.Run(way, func(b *testing.B) {
			s := newBenchmarkSim(b, way)
			before := usedCPU(b)
			for b.Loop() {
				s.runScript(fanScript)
			}
			reportCPU(b, before, 1000*b.N)
			b.ReportMetric(1000*float64(b.N)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}

// BenchmarkLongRun measures one run of WRIT_BENCH_CALLS sequential calls, 10,000 if unset. It reports the CPU time of a
// call in the first and in the last tenth of the run.
func BenchmarkLongRun(b *testing.B) {
	s := newBenchmarkSim(b, "children")
	calls, _ := strconv.Atoi(os.Getenv("WRIT_BENCH_CALLS"))
	calls = cmp.Or(calls, 10_000)
	p := s.payload(fmt.Sprintf("node := import(\"node\")\nfor i := 0; i < %d; i++ { node.ping().err }\n", calls))
	p.MaxCalls, p.Deadline = calls, 24*time.Hour
	for b.Loop() {
		p.Nonce = identity.NewNonce()
		run, err := s.Submit(b.Context(), s.signPayload(p))
		if err != nil {
			b.Fatal(err)
		}
		marks := []int{0, calls / 10, calls * 9 / 10, calls}
		var at []map[string]time.Duration
		var took []time.Time
		for _, n := range marks {
			for s.countCalls(run.ID) < n {
				time.Sleep(20 * time.Millisecond)
			}
			at, took = append(at, usedCPU(b)), append(took, time.Now())
		}
		<-s.ends(run.ID)
		for name := range at[3] {
			first, last := at[1][name]-at[0][name], at[3][name]-at[2][name]
			b.ReportMetric(float64(first.Microseconds())*10/float64(calls), name+"-first-µs/call")
			b.ReportMetric(float64(last.Microseconds())*10/float64(calls), name+"-last-µs/call")
		}
		b.ReportMetric(float64(took[1].Sub(took[0]).Microseconds())*10/float64(calls), "wall-first-µs/call")
		b.ReportMetric(float64(took[3].Sub(took[2]).Microseconds())*10/float64(calls), "wall-last-µs/call")
	}
}

// countCalls returns the number of calls of a run.
func (s *benchmarkSim) countCalls(id writ.RunID) (n int) {
	err := s.journal.Read(s.t.Context(), func(tx *journal.Tx) error {
		return tx.QueryRowContext(s.t.Context(), `SELECT COALESCE(MAX(place) % 4096 + (MAX(place) / 4096 - (SELECT number FROM runs WHERE id = $1)) * 4096, 0)
			FROM calls WHERE place > (SELECT number * 4096 FROM runs WHERE id = $1)`, string(id)).Scan(&n)
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// reportTimes reports the median and the 99th percentile.
func reportTimes(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-p99")
}

// reportCPU reports the CPU time per call since before: of all processes together, and of each other program.
func reportCPU(b *testing.B, before map[string]time.Duration, n int) {
	var all time.Duration
	for name, used := range usedCPU(b) {
		used -= before[name]
		all += used
		if name != "" && used > 0 {
			b.ReportMetric(float64(used.Microseconds())/float64(n), name+"-µs/call")
		}
	}
	b.ReportMetric(float64(all.Microseconds())/float64(n), "cpu-µs/call")
}

// usedCPU returns the CPU time of this process under "", and the CPU time of its children under their program names.
func usedCPU(b *testing.B) map[string]time.Duration {
	b.Helper()
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		b.Fatal(err)
	}
	used := map[string]time.Duration{"": time.Duration(own.Utime.Nano() + own.Stime.Nano())}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the process has ended
		}
		name, rest, _ := strings.Cut(string(text), ") ")
		_, name, _ = strings.Cut(name, "(")
		f := strings.Fields(rest)
		if len(f) < 13 || f[1] != fmt.Sprint(os.Getpid()) {
			continue
		}
		var user, system int64
		fmt.Sscan(f[11]+" "+f[12], &user, &system)
		const tick = 10 * time.Millisecond // USER_HZ of each Linux architecture that Go supports
		used[cmp.Or(strings.TrimSuffix(name, ".test"), "child")] += time.Duration(user+system) * tick
	}
	return used
}

// watchEnds reads all new events. It returns a function that returns a channel per run, closed when the run has ended.
func (s *sim) watchEnds() func(writ.RunID) <-chan struct{} {
	var mu sync.Mutex
	ended := make(map[writ.RunID]chan struct{})
	end := func(id writ.RunID) chan struct{} {
		mu.Lock()
		defer mu.Unlock()
		if ended[id] == nil {
			ended[id] = make(chan struct{})
		}
		return ended[id]
	}
	ctx, stop := context.WithCancel(s.t.Context())
	var reading sync.WaitGroup
	reading.Go(func() {
		var after int64
		for {
			events, err := s.journal.Events(ctx, after, 1000)
			if err != nil {
				return
			}
			for _, e := range events {
				after = e.Seq
				if e.Run != nil && e.Run.State.Ended() {
					close(end(e.Run.ID))
				}
			}
		}
	})
	s.t.Cleanup(func() { stop(); reading.Wait() })
	return func(id writ.RunID) <-chan struct{} { return end(id) }
}

// BenchmarkPreview measures the preview of a plan with the maximum number of calls, each of which creates a resource.
func BenchmarkPreview(b *testing.B) {
	s := newBenchmarkSim(b, "memory")
	p := writ.Proposal{Project: theProject}
	for i := range workflow.MaxPreviewed {
		p.Calls = append(p.Calls, writ.ProposedCall{Operation: "herodb.create", Name: fmt.Sprintf("db-%d", i), Args: map[string]any{"memory_mib": int64(16)}})
	}
	before := usedCPU(b)
	for b.Loop() {
		if _, err := s.Preview(b.Context(), p); err != nil {
			b.Fatal(err)
		}
	}
	reportCPU(b, before, workflow.MaxPreviewed*b.N)
}
