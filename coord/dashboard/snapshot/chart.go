package snapshot

import (
	"fmt"
	"strings"

	. "writ/coord/dashboard/markup"
	. "writ/coord/dashboard/widget"
)

// chartHeight is the height of a chart in its own units; a slot has width 1.
const chartHeight = 100

// Chart is the drawing of a history: stacked areas as paths, and the gaps without samples.
type Chart struct {
	Running, Queued, Planned string
	Holes                    []hole
	Most                     int // the most open calls at one time
	Now                      int // number of sampled slots
}

type hole struct{ From, Width int }

func chartOf(slots [slotsKept]slot) (c Chart) {
	most := int32(4) // otherwise a single call would fill the chart
	for _, s := range slots {
		if s.number >= 0 {
			c.Most = max(c.Most, s.open())
			c.Now++
		}
	}
	most = max(most, int32(c.Most))
	area := func(of func(s slot) int32) string {
		return areaPath(slots, func(s slot) int { return chartHeight - int(int64(of(s))*chartHeight/int64(most)) })
	}
	c.Running = area(func(s slot) int32 { return s.running })
	c.Queued = area(func(s slot) int32 { return s.running + s.queued })
	c.Planned = area(func(s slot) int32 { return s.running + s.queued + s.planned })
	for i, s := range slots {
		switch n := len(c.Holes); {
		case s.number >= 0:
		case n > 0 && c.Holes[n-1].From+c.Holes[n-1].Width == i:
			c.Holes[n-1].Width++
		default:
			c.Holes = append(c.Holes, hole{i, 1})
		}
	}
	return c
}

// areaPath draws a step function. It writes a height only where it changes.
func areaPath(slots [slotsKept]slot, height func(s slot) int) string {
	var b strings.Builder
	at := chartHeight
	fmt.Fprintf(&b, "M0 %d", chartHeight)
	for i, s := range slots {
		y := chartHeight
		if s.number >= 0 {
			y = height(s)
		}
		if y != at {
			fmt.Fprintf(&b, "H%dV%d", i, y)
			at = y
		}
	}
	fmt.Fprintf(&b, "H%dV%dZ", slotsKept, chartHeight)
	return b.String()
}

// HTML returns the chart with a description for screen readers.
func (c Chart) HTML() Node {
	label, most := "no samples of the last 15 minutes", ""
	if c.Now > 0 {
		label, most = "at most "+Digits(c.Most)+" open calls in the last 15 minutes", "at most "+Digits(c.Most)
	}
	return Group{
		Picture("past", "0 0 60 100", Role("img"), Aria("label", label),
			Each(c.Holes, func(h hole) Node { return Rect("b-hole", Digits(h.From), "", Digits(h.Width), "100") }),
			Path("b-planned", c.Planned), Path("b-queued", c.Queued), Path("b-running", c.Running)),
		Text("\n"), Span(Class("sub most"), Text(most)),
	}
}
