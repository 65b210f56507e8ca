package pace_test

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"writ/internal/pace"
)

// goal returns the current heap goal, in MiB.
func goal() uint64 {
	all := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(all)
	return all[0].Value.Uint64() >> 20
}

// TestBigHeapIsCollectedEarlier grows and shrinks a heap, and waits each time until the collector has adjusted.
func TestBigHeapIsCollectedEarlier(t *testing.T) {
	runtime.GC()
	pace.Pace{Least: 64 << 20, Early: 77}.Keep()
	if g := goal(); g < 60 || 64 < g {
		t.Errorf("before the first cycle the heap may grow to %d MiB, want 64", g)
	}
	reaches := func(least, most uint64) {
		t.Helper()
		for range 1000 {
			if g := goal(); least <= g && g <= most {
				return
			}
			runtime.GC()
			runtime.Gosched()
		}
		t.Errorf("the heap may grow to %d MiB, want %d to %d", goal(), least, most)
	}
	reaches(57, 71) // within the tolerance for changes
	big := make([]byte, 32<<20)
	reaches(57, 71)
	bigger := make([]byte, 64<<20)
	reaches(170, 180) // at least 96 MiB are live
	runtime.KeepAlive(bigger)
	reaches(57, 71)
	runtime.KeepAlive(big)
	reaches(57, 71)
	for range 5 { // without Quiet, a process without allocations is not idle
		time.Sleep(10 * time.Millisecond)
		runtime.GC()
	}
	reaches(57, 71)
}

// TestIdleProcessReturnsMemory lets a process allocate, rest and allocate again. It runs in a process of its own, because
// a process keeps its first pace.
func TestIdleProcessReturnsMemory(t *testing.T) {
	if os.Getenv("WRIT_TEST_PACE") == "" {
		test := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		test.Env = append(os.Environ(), "WRIT_TEST_PACE=1", "GOGC=", "GODEBUG=")
		if said, err := test.CombinedOutput(); err != nil {
			t.Errorf("%v:\n%s", err, said)
		}
		return
	}
	const quiet = 2 * time.Second
	pace.Pace{Least: 64 << 20, Early: 100, Quiet: quiet}.Keep()
	for range 48 { // less than Least, so that no cycle of the collector frees it
		garbage = make([]byte, 1<<20)
		for i := range garbage {
			garbage[i] = 1
		}
	}
	garbage = nil
	if held := held(); held < 40 {
		t.Errorf("a busy process holds %d MiB, want at least 40", held)
	}
	deadline := time.Now().Add(time.Minute)
	for held() > 8 {
		if time.Now().After(deadline) {
			t.Fatalf("an idle process holds %d MiB, want at most 8", held())
		}
		time.Sleep(quiet / 20)
	}
	if p := percent(); p != 100 {
		t.Errorf("an idle process is collected at %d percent of garbage, want 100", p)
	}
	for percent() == 100 {
		if time.Now().After(deadline) {
			t.Fatal("a busy process is collected like an idle one")
		}
		garbage = make([]byte, 1<<20)
	}
}

// garbage is what the test allocated last.
var garbage []byte

// held returns the memory of the heap that the process holds, in MiB.
func held() uint64 {
	all := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(all)
	return (all[0].Value.Uint64() + all[1].Value.Uint64()) >> 20
}

// percent returns the percentage of garbage at which the collector starts.
func percent() uint64 {
	all := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(all)
	return all[0].Value.Uint64()
}
