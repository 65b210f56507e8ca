// Package pace sets when the garbage collector starts. It depends only on the size of the heap.
//
// The live heap determines the cost of a collection. In Go, the amount of garbage relative to the live heap determines
// how often a collection starts. A busy process with a small live heap would be collected many times per second, which
// is expensive. A process with a big heap must be collected early, because on a busy machine the collector is slow.
package pace

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Pace sets the heap size at which the collector starts.
type Pace struct {
	Least uint64 // bytes; a smaller heap is not collected
	Early int    // percent of garbage relative to the live heap, if the live heap exceeds Least
}

// Keep adjusts the collector of this process now and after each of its cycles.
func (p Pace) Keep() {
	k := &keeper{
		pace: p,
		found: []metrics.Sample{
			{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"},
		},
	}
	k.set()
	k.afterCycle()
}

type keeper struct {
	pace    Pace
	percent int
	found   []metrics.Sample // values of the last cycle
}

// afterCycle calls set after each cycle of the collector. It creates an unreachable object, whose finalizer runs after
// the next cycle, calls set and creates the next object.
func (k *keeper) afterCycle() {
	runtime.SetFinalizer(&struct{ *keeper }{k}, func(s *struct{ *keeper }) {
		s.set()
		s.afterCycle()
	})
}

// goLeast is Go's minimum heap size at 100 percent. It scales with the percentage.
const goLeast = 4 << 20

func (k *keeper) set() {
	metrics.Read(k.found)
	percent := k.pace.percent(k.found[0].Value.Uint64(), k.found[1].Value.Uint64()+k.found[2].Value.Uint64())
	// SetGCPercent stops all goroutines briefly, so small changes are omitted.
	if diff := percent - k.percent; diff < k.percent/8 && -diff < k.percent/8 {
		return
	}
	k.percent = percent
	debug.SetGCPercent(percent)
}

// percent returns the GC percentage that permits Least bytes. Go applies the percentage to the live heap and to the
// roots.
func (p Pace) percent(live, roots uint64) int {
	if p.Least <= live {
		return p.Early
	}
	most := p.Least * 100 / goLeast
	return max(int(min((p.Least-live)*100/max(live+roots, 1), most)), p.Early)
}
