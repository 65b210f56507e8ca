// Package pace sets when the garbage collector begins. It knows heaps, and nothing of what is in them.
//
// What a collection costs follows from what lives; how often one is due, in Go, from how much garbage there is beside it. A process whose
// live heap is small is collected many times a second while it is busy, which takes more than its share; one with a big heap must be
// collected early, because on a busy machine the collector is late.
package pace

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Pace says how big a heap grows before the collector begins.
type Pace struct {
	Least uint64 // bytes; a smaller heap is not collected
	Early int    // percent of garbage beside what lives, where that makes more than Least
}

// Keep sets the collector of this process after each of its cycles, from now on.
func (p Pace) Keep() {
	k := &keeper{pace: p, found: []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}}
	k.set()
	k.afterCycle()
}

type keeper struct {
	pace    Pace
	percent int
	found   []metrics.Sample // by the last cycle
}

// afterCycle has set called after the next cycle, and so on: that is when what nobody refers to is finalized.
func (k *keeper) afterCycle() {
	runtime.SetFinalizer(&struct{ *keeper }{k}, func(s *struct{ *keeper }) {
		s.set()
		s.afterCycle()
	})
}

// goLeast is what Go lets a heap have at 100 percent, however little lives; at another percentage it is as much more or less.
const goLeast = 4 << 20

func (k *keeper) set() {
	metrics.Read(k.found)
	percent := k.pace.percent(k.found[0].Value.Uint64(), k.found[1].Value.Uint64()+k.found[2].Value.Uint64())
	if diff := percent - k.percent; diff < k.percent/8 && -diff < k.percent/8 { // setting it stops everything for a moment
		return
	}
	k.percent = percent
	debug.SetGCPercent(percent)
}

// percent is how much garbage may gather beside what lives, of which Go takes so much for each percent, and as much of the roots from which it
// looks for that.
func (p Pace) percent(live, roots uint64) int {
	if p.Least <= live {
		return p.Early
	}
	most := p.Least * 100 / goLeast
	return max(int(min((p.Least-live)*100/max(live+roots, 1), most)), p.Early)
}
