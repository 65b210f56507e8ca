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

// Pace says how much garbage may gather before the collector begins, in percent of what lives.
type Pace struct {
	Small uint64 // a heap of which no more bytes live
	Late  int    // percent, for a small heap
	Early int    // percent, for any other
}

// Keep sets the collector of this process after each of its cycles, from now on.
func (p Pace) Keep() {
	k := &keeper{pace: p, live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}, late: true}
	debug.SetGCPercent(p.Late)
	k.afterCycle()
}

type keeper struct {
	pace Pace
	late bool
	live []metrics.Sample
}

// afterCycle has set called after the next cycle, and so on: that is when what nobody refers to is finalized.
func (k *keeper) afterCycle() {
	runtime.SetFinalizer(&struct{ *keeper }{k}, func(s *struct{ *keeper }) {
		s.set()
		s.afterCycle()
	})
}

func (k *keeper) set() {
	metrics.Read(k.live)
	late := k.live[0].Value.Uint64() <= k.pace.Small
	if late == k.late {
		return
	}
	k.late = late
	if late {
		debug.SetGCPercent(k.pace.Late)
	} else {
		debug.SetGCPercent(k.pace.Early)
	}
}
