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
	pace.Pace{Small: 16 << 20, Late: 321, Early: 77}.Keep()
	reaches := func(want uint64) {
		t.Helper()
		for range 1000 {
			if percent() == want {
				return
			}
			runtime.GC()
			runtime.Gosched()
		}
		t.Errorf("the collector goes at %d percent, want %d", percent(), want)
	}
	reaches(321)
	big := make([]byte, 32<<20)
	reaches(77)
	runtime.KeepAlive(big)
	reaches(321)
}
