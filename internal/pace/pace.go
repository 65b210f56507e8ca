package evaluator

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// How much garbage may gather before the collector begins, in percent of what lives. A big heap must be collected early: on a busy machine
// the collector is late. A small one would be collected every few passes then, which took more than half of a child's time.
const (
	earlyPercent = 50
	latePercent  = 400
	smallHeap    = 4 << 20 // the collector's own minimum: with less alive it begins at latePercent of this
)

// pace sets the collector after each of its cycles, as the heap demands it.
type pace struct {
	late bool
	live []metrics.Sample
}

// startPace lets the collector be set from now on.
func startPace() {
	p := &pace{live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}, late: true}
	debug.SetGCPercent(latePercent)
	p.afterCycle()
}

// afterCycle has set called after the next cycle, and so on: that is when what nobody refers to is finalized.
func (p *pace) afterCycle() {
	runtime.SetFinalizer(&struct{ *pace }{p}, func(s *struct{ *pace }) {
		s.set()
		s.afterCycle()
	})
}

func (p *pace) set() {
	metrics.Read(p.live)
	late := p.live[0].Value.Uint64() <= smallHeap
	if late == p.late {
		return
	}
	p.late = late
	if late {
		debug.SetGCPercent(latePercent)
	} else {
		debug.SetGCPercent(earlyPercent)
	}
}
