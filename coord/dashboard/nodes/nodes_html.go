package nodes

import (
	"cmp"
	"net/url"

	"writ"
	. "writ/coord/dashboard/markup"
	"writ/coord/dashboard/page"
	"writ/coord/dashboard/snapshot"
	. "writ/coord/dashboard/widget"
	"writ/internal/hidden"
)

// choose renders the field of the filter.
func (f nodeFilter) choose() Node { return page.ChooseDatacenter(f.Datacenters, f.Datacenter) }

func (n nodesPage) HTML(p *page.Page) Node {
	return Section(ID("list"), Class("panel"), Aria("label", "Nodes"), p.Live(),
		FilterForm("/nodes",
			H1(Text("Nodes")),
			n.choose(),
			Apply(false, "")),
		Table(Class("list nodes"), Heads("Health", "Node", "Datacenter", "Calls", "Reserved", "Drivers", "#Last beat"),
			TBody(p.Part("nodes"))),
		page.NoNode(),
		Div(p.Part("pager")))
}

// nodesOf returns the address of the list of the nodes of a datacenter.
func nodesOf(datacenter writ.DatacenterID) string {
	return "/nodes?datacenter=" + url.QueryEscape(string(datacenter))
}

func (n nodeRow) HTML() Node {
	return Tr(page.Key(n), Data("state", n.Health),
		Cell("st", "", StateTag(n.Health), n.scheduling()),
		Cell("sc", "", A(Href(n.Page()), Opens(), Text(n.Name)), Sub(writ.LabelsText(n.Labels)), n.remarks()),
		Cell("dc", "datacenter", Text(n.DatacenterName)),
		Cell("ca", "calls", Text(n.slots()), n.unheardCalls(),
			If(n.Depth.Queued > 0, Subs(Text("+ "+Digits(n.Depth.Queued)+" queued")))),
		Cell("cp", "reserved", n.reserved(None())),
		Cell("dr", "drivers", n.drivers()),
		Cell("ag n", "last beat", n.lastBeat()))
}

// slots counts the slots of a node in use at its last report.
func (n nodeRow) slots() string {
	return Digits(n.Depth.Running) + " of " + Plural(n.Slots, "slot", "slots")
}

// unheardCalls marks the running calls of an unheard node as unknown.
func (n nodeRow) unheardCalls() Node {
	if n.Depth.Running == 0 {
		return nil
	}
	return n.Unheard.HTML()
}

// scheduling marks a node that a decision excludes from new work.
func (n nodeRow) scheduling() Node {
	if n.Scheduling == writ.SchedulingOpen {
		return nil
	}
	return Tag(n.Scheduling)
}

// remarks lists the problems of a node and the last decision about it.
func (n nodeRow) remarks() Node {
	return Group{
		With(n.Why, func(reason string) Node { return Why("gets no work: " + reason) }),
		When(n.AlmostFullDisk() != nil,
			func() Node { return Why("a disk is almost full: " + hidden.Escape(n.AlmostFullDisk().String())) }),
		With(page.Decided(n.Decided), func(decision string) Node { return Span(Class("sub"), Text(decision)) }),
		When(len(n.Orphans) > 0, func() Node {
			return Span(Class("why"), Text(Plural(len(n.Orphans), "orphan", "orphans")), With(n.Word(), func(word string) Node {
				return Group{Text(": "), Code(Text("writ node show " + word))}
			}))
		}),
	}
}

// reserved shows the reserved part of the node's resources.
func (n nodeRow) reserved(unknown Node) Node {
	if n.Capacity.CPU() == 0 {
		return unknown
	}
	used, all := n.Used, n.Capacity
	line := func(used, all int64, words string) Node {
		full := snapshot.IsFull(used, all)
		if full {
			words += ", full"
		}
		return Span(If(full, Class("full")), meter(Percent(used, all), full), Text(words))
	}
	return Span(Class("meters"),
		line(int64(used.CPU()), int64(all.CPU()), used.CPU().String()+" of "+all.CPU().String()+" CPUs"),
		line(used.MemoryMiB, all.MemoryMiB, Gibi(used.MemoryMiB)+" of "+Gibi(all.MemoryMiB)),
		line(used.DiskGiB, all.DiskGiB, Digits(used.DiskGiB)+" of "+Digits(all.DiskGiB)+" GiB disk"))
}

// meter draws a share as a bar: red if it is full, and in the warning colour at 90 percent or more.
func meter(percent int64, full bool) Node {
	class := "b-running"
	if !full {
		percent = min(percent, 99) // the free rest stays visible
	}
	switch {
	case full:
		class = "b-failed"
	case percent >= 90:
		class = "b-queued"
	}
	return Picture("meter", "0 0 100 1", Aria("hidden", "true"), Rect(class, "", "", Digits(percent), "1"))
}

func (n nodeRow) drivers() Node {
	if len(n.Drivers) == 0 {
		return Span(Class("drivers"), None())
	}
	return Span(Class("drivers"), Each(n.Drivers, func(d writ.NodeDriver) Node {
		name := B(Text(d.Name))
		switch {
		case d.Lacks != "":
			name = Text("–")
		case d.Simulated:
			name = SimulatedTag()
		}
		return Span(Class("driver"), Title(cmp.Or(d.Lacks, d.Detail)), Text(d.Module+" "), name)
	}))
}

func (n nodeRow) lastBeat() Node {
	return Group{AgeOr(n.LastBeat, Span(Class("none"), Text("never"))), With(n.Version, func(version string) Node { return Span(Class("sub"), Text(" "+version)) })}
}

// datacentersPage is the page of the datacenters, which consists of parts only.
type datacentersPage struct{}

func (datacentersPage) HTML(p *page.Page) Node {
	columns := Group{HeadCells("Health", "Datacenter")}
	if p.Everything() {
		columns = append(columns, HeadCells("Region", "Open calls", "Supervisor", "#Connected"))
	}
	return Group{
		snapshot.HoldsSection(p),
		Section(ID("list"), Class("panel"), Aria("label", "Datacenters"), p.Live(),
			Div(Class("filter"), H1(Text("Datacenters"))),
			Table(Class("list datacenters"), THead(Tr(columns)), TBody(p.Part("datacenters"))),
			P(Class("empty"), Text("The roster names no datacenter yet: "), Code(Text("writ dc add")))),
	}
}

func (d datacenterName) HTML() Node {
	return Tr(page.Key(d), Data("state", string(d.Health)), Cell("st", "", StateTag(d.Health)),
		Cell("sc", "", B(Text(d.Name))))
}

func (d datacenterRow) HTML() Node {
	calls := Span(Class("none"), Text("unknown"))
	if d.Known {
		calls = Group{Text(d.Depth.RunningText() + ", " + Digits(d.Depth.Queued) + " queued, " + Digits(d.Depth.Planned) +
			" planned"),
			Sub("on " + Plural(d.Nodes, "node", "nodes"))}
	}
	connected := None()
	if !d.Connected.IsZero() {
		connected = SinceTime(d.Connected)
	}
	return Tr(page.Key(d), Data("state", string(d.Health)),
		Cell("st", "", StateTag(d.Health), If(!d.Enabled, Tag("disabled"))),
		Cell("sc", "", A(Href(nodesOf(d.ID)), Opens(), Text(d.Name)), Sub(writ.LabelsText(d.Labels)),
			With(d.Reason, func(reason string) Node { return Why("gets no runs: " + reason) })),
		Cell("dc", "region", Text(d.Region)),
		Cell("ca", "calls", calls),
		Cell("dr", "supervisor", Text(d.Version), If(d.Roster > 0, Sub("roster "+Digits(d.Roster))), Text(" "),
			Code(Class("sub key"), Text(d.SupervisorKey()))),
		Cell("ag n", "connected", connected))
}
