package watch

import "time"

// clockStep is the minimum backward step of the wall clock after which the watch looks for times that are now far in
// the future.
const clockStep = 5 * time.Second

// clock notices that the wall clock was set back.
type clock struct {
	last    time.Time // last scan, by the monotonic clock
	wall    time.Time // last scan, by the wall clock
	setBack bool      // the wall clock was set back and the affected times are not handled yet
}

// pass begins a scan. `at` is the current time by the monotonic clock, `wall` by the wall clock.
func (c *clock) pass(at, wall time.Time) {
	passed := at.Sub(c.last)
	c.setBack = c.setBack || wall.Round(0).Sub(c.wall.Round(0)) < passed-clockStep
	c.last, c.wall = at, wall
}
