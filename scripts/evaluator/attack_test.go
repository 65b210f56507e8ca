package evaluator_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"writ"
	"writ/internal/test/testenv"
	"writ/scripts"
	"writ/scripts/evaluator"
)

// Limits for an attack.
const (
	attackCPU    = 2500 * time.Millisecond // of the child, for a pass or its plan
	attackMemory = 300 << 20               // peak memory of the child in bytes, over its whole life
	afterCPU     = time.Second             // of the child, for the honest script that follows
	attackHeap   = 8 << 20                 // growth of this process in bytes after all attacks
)

// attack is a script that would use all memory or time, or crash the process, with unmodified Tengo.
type attack struct {
	name    string
	bundle  scripts.Bundle
	journal []scripts.Entry
	want    writ.Code
}

// TestAttacks runs the attacks. Each must end as its own failure, with its expected code and a position, within the
// limits of CPU time and memory. The child must survive and give the next script its right answer, and the parent must
// not change. The same applies to its plan, which may also end where values are unknown.
//
// Promise: Evaluation and resumes: A script cannot crash its supervisor: every attack ends with its code within 2.5 s
// of CPU and 300 MB.
// How: Passes run in children with limits; every function accounts for its reads and allocations; a dead child costs
// one pass; the next script is evaluated correctly.
// Also: TestDeadChildCostsOnePass.
func TestAttacks(t *testing.T) {
	all := gateAttacks(append(attackFiles(t), attackBundles()...))
	const workers = 2
	pools := [workers]*evaluator.Pool{newPool(t, 1), newPool(t, 1)}
	for _, pool := range pools {
		pool.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
		finish(t, pool, bundle(facts))
	}
	before := measure(t, pools[:])
	queue := make(chan attack, len(all))
	for _, a := range all {
		queue <- a
	}
	close(queue)
	var group sync.WaitGroup
	for _, pool := range pools {
		group.Go(func() {
			for a := range queue {
				if err := a.run(t, pool); err != nil {
					t.Errorf("%s: %v", a.name, err)
				}
			}
		})
	}
	group.Wait()
	peaks := [workers]int64{peakOf(pools[0]), peakOf(pools[1])}
	after := measure(t, pools[:])
	if after.heap > before.heap+attackHeap || after.goroutines > before.goroutines || after.files > before.files {
		t.Errorf("this process has %+v after the attacks, and had %+v before", after, before)
	}
	t.Logf("%d attacks; children took %d and %d MiB; this process: %+v before, %+v after", len(all), peaks[0]>>20, peaks[1]>>20, before, after)
}

// gateAttacks returns every third attack in the gate, and all in the nightly tier.
func gateAttacks(all []attack) (some []attack) {
	const every = 3
	for i, a := range all {
		if testenv.IsNightly() || i%every == 0 {
			some = append(some, a)
		}
	}
	return some
}

// attackFiles reads the attacks that consist of one file. The first line of each has the expected code.
func attackFiles(t *testing.T) []attack {
	files, err := filepath.Glob("../testdata/attacks/*.tengo")
	if err != nil || len(files) < 170 {
		t.Fatalf("%d attacks, %v", len(files), err)
	}
	var all []attack
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		first, _, _ := strings.Cut(string(text), "\n")
		all = append(all, attack{
			name: name, bundle: scripts.Bundle{Main: scripts.Source{Name: name, Text: text}},
			want: writ.Code(strings.TrimPrefix(first, "// want: ")),
		})
	}
	return all
}

func (a attack) run(t *testing.T, pool *evaluator.Pool) error {
	inputs := everything
	inputs.MaxCalls = scripts.UsualCalls
	inputs.Allow = []string{"node.ping", "node.facts", "volume.create", "container.exec", "machine.create"}
	used := cpuOf(pool)
	plan, err := pool.Plan(t.Context(), a.bundle, inputs)
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	if plan.Horizon == nil && (plan.Failure == nil || plan.Failure.Code != a.want) {
		return fmt.Errorf("its plan is complete, failure %v", plan.Failure)
	}
	if used = cpuOf(pool) - used; used > attackCPU {
		return fmt.Errorf("its plan took %v of CPU time", used)
	}
	used = cpuOf(pool)
	o, err := pool.Pass(t.Context(), a.bundle, inputs, a.journal)
	if err != nil {
		return err
	}
	used, next := cpuOf(pool)-used, cpuOf(pool)
	if o.Status != scripts.Failed || o.Failure.Code != a.want {
		return fmt.Errorf("%s %+v, want %s", o.Status, o.Failure, a.want)
	}
	if used > attackCPU {
		return fmt.Errorf("it took %v of CPU time", used)
	}
	if peak := peakOf(pool); peak > attackMemory {
		return fmt.Errorf("its child has taken %d MiB", peak>>20)
	}
	passes := finish(t, pool, bundle(facts))
	if next = cpuOf(pool) - next; len(passes) != 3 || passes[2].Status != scripts.Completed || next > afterCPU {
		return fmt.Errorf("the next script took %d passes and %v of CPU time and ended %+v", len(passes), next, passes[len(passes)-1])
	}
	if len(o.Failure.Message) > scripts.MaxLogLine+8 {
		return fmt.Errorf("its message has %d bytes", len(o.Failure.Message))
	}
	places := append(o.Failure.Trace, o.Failure.Position)
	if a.want == writ.CodeScriptInvalid {
		places = []string{o.Failure.Message} // the compiler's message, which begins with the position
	}
	for _, place := range places {
		for _, source := range append(a.bundle.Modules, a.bundle.Main) {
			if strings.HasPrefix(place, strings.ReplaceAll(source.Name, "\x00", "\ufffd")+":") {
				return nil
			}
		}
	}
	return fmt.Errorf("it failed at %q (%q), which is not in the script", o.Failure.Position, o.Failure.Trace)
}

// cpuOf returns the CPU time of the idle children of a pool: one for slow scripts, and one for others.
func cpuOf(pool *evaluator.Pool) (used time.Duration) {
	for _, child := range pool.Idle() {
		used += evaluator.CPUOf(child.Pid)
	}
	return used
}

// peakOf returns the maximum resident memory of a pool's children.
func peakOf(pool *evaluator.Pool) (peak int64) {
	for _, child := range pool.Idle() {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", child.Pid))
		_, text, _ := strings.Cut(string(status), "VmHWM:")
		kib, _ := strconv.ParseInt(strings.Fields(text + " 0")[0], 10, 64)
		peak = max(peak, kib<<10)
	}
	return peak
}

// footprint holds the resources of a process.
type footprint struct {
	heap              uint64
	goroutines, files int
}

// measure ends the children first, because their number depends on earlier requests.
func measure(t *testing.T, pools []*evaluator.Pool) footprint {
	for _, pool := range pools {
		if err := pool.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 { // pooled objects are freed in the second round
		runtime.GC()
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return footprint{heap: memory.HeapInuse, goroutines: runtime.NumGoroutine(), files: len(files)}
}
