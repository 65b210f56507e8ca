package pace_test

import (
	"runtime"
	"runtime/metrics"
	"testing"

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
}
