package pace_test

import (
	"runtime"
	"runtime/metrics"
	"testing"

	"writ/internal/pace"
)

// percent is how much garbage may gather now.
func percent() uint64 {
	all := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(all)
	return all[0].Value.Uint64()
}

// TestABigHeapIsCollectedEarlier lets a heap grow and shrink, and waits each time until the collector goes at the pace for it.
func TestABigHeapIsCollectedEarlier(t *testing.T) {
	pace.Pace{Least: 64 << 20, Early: 77}.Keep()
	reaches := func(least, most uint64) {
		t.Helper()
		for range 1000 {
			if p := percent(); least <= p && p <= most {
				return
			}
			runtime.GC()
			runtime.Gosched()
		}
		t.Errorf("the collector goes at %d percent, want %d to %d", percent(), least, most)
	}
	reaches(1000, 6300) // some MiB live
	big := make([]byte, 32<<20)
	reaches(77, 120)
	bigger := make([]byte, 64<<20)
	reaches(77, 77)
	runtime.KeepAlive(bigger)
	reaches(77, 120)
	runtime.KeepAlive(big)
	reaches(1000, 6300)
}
