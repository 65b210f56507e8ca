package resources

import (
	"context"
	"fmt"
	"strings"
	"time"

	"writ"
	"writ/coord/api"
	. "writ/coord/dashboard/markup"
	. "writ/coord/dashboard/widget"
)

const (
	maxLoads = 20 // resources of a page with their load
	// A chart of a day has a slot of width 1 for each sample.
	chartSlots, chartHeight = 24 * 12, 40
	slotTime                = 5 * time.Minute
)

// load is the load of a resource in the last day, at the time when the page was loaded.
type load struct {
	Name string // kind and name
	api.ListedResource
	at time.Time
}

// loadsOf asks the datacenters for the loads of the first maxLoads machines and containers. Resources without a load
// have no entry.
func (d *Pages) loadsOf(ctx context.Context, all []writ.Resource) (loads []load, err error) {
	var measured []writ.Resource
	for _, r := range all {
		if isMeasured(r.Kind) && len(measured) < maxLoads {
			measured = append(measured, r)
		}
	}
	if len(measured) == 0 {
		return nil, nil
	}
	now := time.Now()
	listed, err := d.LiveView.Loads(ctx, measured)
	for _, r := range listed {
		if r.Load != nil {
			loads = append(loads, load{string(r.Kind) + "/" + r.Name, r, now})
		}
	}
	return loads, err
}

// isMeasured reports whether resources of a kind have processes, and therefore a load and a log.
func isMeasured(kind writ.ResourceKind) bool {
	return kind == writ.KindContainer || kind == writ.KindMachine
}

// loadTable shows loads, with the name of each resource if `named` is set.
func loadTable(loads []load, named bool) Node {
	if len(loads) == 0 {
		return P(Class("sub"),
			Text("No node has reported a load since the start of the supervisor."))
	}
	name := Group{}
	if named {
		name = Group{HeadCells("Resource")}
	}
	return Group{
		Table(Class("list loads"), THead(Tr(name, HeadCells("#CPUs", "Last day", "#Memory", "Last day", "#Restarts"))),
			TBody(Each(loads, func(l load) Node { return l.row(named) }))),
		P(Class("sub"), Text("Reload the page for newer values. The samples begin with the start of the supervisor.")),
	}
}

func (l load) row(named bool) Node {
	cpus, memory, _, _ := l.Load.Peak()
	now := l.LoadAt(l.at)
	present := func(text func(api.Load) string) Node {
		if now == nil {
			return None()
		}
		return Text(text(*now))
	}
	return Tr(
		When(named, func() Node { return Cell("sc", "", B(Text(l.Name))) }),
		Cell("n", "cpus", present(func(n api.Load) string { return api.CPUs(n.MilliCPUs) })),
		Cell("", "cpus of a day",
			l.chart("CPUs", api.CPUs(cpus), cpus, func(s api.LoadSample) int64 { return s.MilliCPUs })),
		Cell("n", "memory", present(func(n api.Load) string { return api.Memory(n.MemoryBytes) })),
		Cell("", "memory of a day",
			l.chart("memory", api.Memory(memory), memory, func(s api.LoadSample) int64 { return s.MemoryBytes })),
		Cell("n", "restarts", Number(l.Load.Restarts)))
}

// chart draws the samples of a day. most is the highest value, and highest is its text.
func (l load) chart(what, highest string, most int64, value func(api.LoadSample) int64) Node {
	if len(l.Load.Samples) == 0 {
		return None()
	}
	return Group{
		Picture("spark", fmt.Sprintf("0 0 %d %d", chartSlots, chartHeight), Role("img"),
			Aria("label", what+" of the last day: at most "+highest),
			Path("area", chartPath(l.Load.Samples, l.at, most, value))),
		Sub("at most " + highest),
	}
}

// chartPath draws samples as steps from the bottom. The right end is the time `now`, and most is the highest value.
// Intervals without a sample are empty.
func chartPath(samples []api.LoadSample, now time.Time, most int64, value func(api.LoadSample) int64) string {
	first := now.Truncate(slotTime).Add(-(chartSlots - 1) * slotTime)
	var b strings.Builder
	next := -1 // slot that continues the drawing
	for _, s := range samples {
		slot := int(s.At.Sub(first) / slotTime)
		if slot < 0 || slot >= chartSlots || slot < next {
			continue
		}
		height := chartHeight
		if most > 0 {
			height = chartHeight - int(float64(value(s))/float64(most)*chartHeight)
		}
		if slot != next {
			if next >= 0 {
				fmt.Fprintf(&b, "V%dZ", chartHeight)
			}
			fmt.Fprintf(&b, "M%d %d", slot, chartHeight)
		}
		fmt.Fprintf(&b, "V%dH%d", height, slot+1)
		next = slot + 1
	}
	if next >= 0 {
		fmt.Fprintf(&b, "V%dZ", chartHeight)
	}
	return b.String()
}
