// Package pace sets when the garbage collector starts and when an idle process returns its memory. It depends only on
// the heap and on how much the process allocates.
//
// The live heap determines the cost of a collection. In Go, the amount of garbage relative to the live heap determines
// how often a collection starts. A busy process with a small live heap would be collected many times per second, which
// is expensive. A process with a big heap must be collected early, because on a busy machine the collector is slow. An
// idle process must not hold the memory that it needed while it was busy.
package pace

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// Pace sets the heap size at which the collector starts.
type Pace struct {
	Least uint64 // bytes; a smaller heap of a busy process is not collected
	Early int    // percent of garbage relative to the live heap, if the live heap exceeds Least or the process is idle
	// Quiet is the time after which a process is idle if it allocated less than an eighth of Least meanwhile. It is busy
	// again if it allocates as much in a quarter of this time. At 0, a process is always busy.
	Quiet time.Duration
}

// Keep adjusts the collector of this process now and after each of its cycles. A process is busy at first.
func (p Pace) Keep() {
	k := &keeper{
		pace: p,
		found: []metrics.Sample{
			{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"},
			{Name: "/gc/heap/allocs:bytes"},
		},
	}
	k.Lock()
	defer k.Unlock()
	k.work()
	k.afterCycle()
}

type keeper struct {
	pace Pace

	sync.Mutex
	percent int
	found   []metrics.Sample // values of the last cycle
	idle    bool
	since   time.Time // when the allocations were last compared
	from    uint64    // the allocations until then, in bytes
}

// afterCycle calls cycle after each cycle of the collector. It creates an unreachable object, whose finalizer runs after
// the next cycle, calls cycle and creates the next object.
func (k *keeper) afterCycle() {
	runtime.SetFinalizer(&struct{ *keeper }{k}, func(s *struct{ *keeper }) {
		s.cycle()
		s.afterCycle()
	})
}

// cycle adjusts the collector, and notices that an idle process is busy.
func (k *keeper) cycle() {
	k.Lock()
	defer k.Unlock()
	if !k.idle {
		k.set()
		return
	}
	switch allocated := k.allocated(); {
	case time.Since(k.since) > k.pace.Quiet/4:
		k.mark()
	case allocated > k.pace.Least/8:
		k.work()
	}
}

// rest gives unused memory back if the process allocated little since the last comparison. Else it compares again
// later.
func (k *keeper) rest() {
	k.Lock()
	defer k.Unlock()
	if k.allocated() > k.pace.Least/8 {
		k.mark()
		time.AfterFunc(k.pace.Quiet, k.rest)
		return
	}
	k.idle = true
	k.adopt(k.pace.Early)
	debug.FreeOSMemory()
	k.mark()
}

// work sets the pace of a busy process until it is idle.
func (k *keeper) work() {
	k.idle = false
	k.set()
	k.mark()
	if k.pace.Quiet > 0 {
		time.AfterFunc(k.pace.Quiet, k.rest)
	}
}

// mark begins a comparison of allocations.
func (k *keeper) mark() {
	k.from += k.allocated()
	k.since = time.Now()
}

// allocated returns the bytes that were allocated since the last comparison.
func (k *keeper) allocated() uint64 {
	metrics.Read(k.found)
	return k.found[3].Value.Uint64() - k.from
}

// goLeast is Go's minimum heap size at 100 percent. It scales with the percentage.
const goLeast = 4 << 20

// set sets the pace of a busy process.
func (k *keeper) set() {
	metrics.Read(k.found)
	percent := k.pace.percent(k.found[0].Value.Uint64(), k.found[1].Value.Uint64()+k.found[2].Value.Uint64())
	// SetGCPercent stops all goroutines briefly, so small changes are omitted.
	if diff := percent - k.percent; diff < k.percent/8 && -diff < k.percent/8 {
		return
	}
	k.adopt(percent)
}

func (k *keeper) adopt(percent int) {
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
