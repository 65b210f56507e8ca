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
	k := &keeper{pace: p, live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	k.set()
	k.afterCycle()
}

type keeper struct {
	pace    Pace
	percent int
	live    []metrics.Sample
}

// afterCycle has set called after the next cycle, and so on: that is when what nobody refers to is finalized.
func (k *keeper) afterCycle() {
	runtime.SetFinalizer(&struct{ *keeper }{k}, func(s *struct{ *keeper }) {
		s.set()
		s.afterCycle()
	})
}

// leastLive is what is taken to live in a process that has not been collected yet.
const leastLive = 1 << 20

func (k *keeper) set() {
	metrics.Read(k.live)
	percent := k.pace.percent(max(k.live[0].Value.Uint64(), leastLive))
	if diff := percent - k.percent; diff < k.percent/8 && -diff < k.percent/8 { // setting it stops everything for a moment
		return
	}
	k.percent = percent
	debug.SetGCPercent(percent)
}

// percent is how much garbage may gather beside what lives.
func (p Pace) percent(live uint64) int {
	if p.Least <= live {
		return p.Early
	}
	return max(int((p.Least-live)*100/live), p.Early)
}
