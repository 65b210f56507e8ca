package dashboard

import (
	"cmp"
	"net/url"

	"writ"
	. "writ/coord/dashboard/markup"
	"writ/internal/hidden"
)

// choose renders the field of the filter.
func (f nodeFilter) choose() Node { return chooseDatacenter(f.Datacenters, f.Datacenter) }

func (n nodesPage) html(p *page) Node {
	return Section(ID("list"), Class("panel"), Aria("label", "Nodes"), p.liveUpdates(),
		filterForm("/nodes",
			H1(Text("Nodes")),
			n.choose(),
			apply(false, "")),
		Table(Class("list nodes"), heads("Health", "Node", "Datacenter", "Calls", "Reserved", "Drivers", "#Last beat"),
			TBody(p.part("nodes"))),
		noNode(),
		Div(p.part("pager")))
}

// nodesOf returns the address of the list of the nodes of a datacenter.
func nodesOf(datacenter writ.DatacenterID) string {
	return "/nodes?datacenter=" + url.QueryEscape(string(datacenter))
}

func (n nodeRow) html() Node {
	return Tr(key(n), Data("state", n.Health),
		cell("st", "", stateTag(n.Health), n.scheduling()),
		cell("sc", "", A(Href(n.Page()), opens(), Text(n.Name)), sub(writ.LabelsText(n.Labels)), n.remarks()),
		cell("dc", "datacenter", Text(n.DatacenterName)),
		cell("ca", "calls", Text(n.slots()), n.unheardCalls(),
			If(n.Depth.Queued > 0, subs(Text("+ "+digits(n.Depth.Queued)+" queued")))),
		cell("cp", "reserved", n.reserved(none())),
		cell("dr", "drivers", n.drivers()),
		cell("ag n", "last beat", n.lastBeat()))
}

// slots counts the slots of a node in use at its last report.
func (n nodeRow) slots() string {
	return digits(n.Depth.Running) + " of " + plural(n.Slots, "slot", "slots")
}

// unheardCalls marks the running calls of an unheard node as unknown.
func (n nodeRow) unheardCalls() Node {
	if n.Depth.Running == 0 {
		return nil
	}
	return n.Unheard.html()
}

// scheduling marks a node that a decision excludes from new work.
func (n nodeRow) scheduling() Node {
	if n.Scheduling == writ.SchedulingOpen {
		return nil
	}
	return tag(n.Scheduling)
}

// remarks lists the problems of a node and the last decision about it.
func (n nodeRow) remarks() Node {
	return Group{
		With(n.Why, func(reason string) Node { return why("gets no work: " + reason) }),
		When(n.AlmostFullDisk() != nil,
			func() Node { return why("a disk is almost full: " + hidden.Escape(n.AlmostFullDisk().String())) }),
		With(decided(n.Decided), func(decision string) Node { return Span(Class("sub"), Text(decision)) }),
		When(len(n.Orphans) > 0, func() Node {
			return Span(Class("why"), Text(plural(len(n.Orphans), "orphan", "orphans")), With(n.Word(), func(word string) Node {
				return Group{Text(": "), Code(Text("writ node show " + word))}
			}))
		}),
	}
}

// reserved shows the reserved part of the node's resources.
func (n nodeRow) reserved(unknown Node) Node {
	if n.Capacity.CPUs == 0 {
		return unknown
	}
	used, all := n.Used, n.Capacity
	line := func(used, all int64, words string) Node {
		full := isFull(used, all)
		if full {
			words += ", full"
		}
		return Span(If(full, Class("full")), meter(share(used, all), full), Text(words))
	}
	return Span(Class("meters"),
		line(used.CPUs, all.CPUs, digits(used.CPUs)+" of "+digits(all.CPUs)+" CPUs"),
		line(used.MemoryMiB, all.MemoryMiB, gibi(used.MemoryMiB)+" of "+gibi(all.MemoryMiB)),
		line(used.DiskGiB, all.DiskGiB, digits(used.DiskGiB)+" of "+digits(all.DiskGiB)+" GiB disk"))
}

// meter draws a share as a bar: red if it is full, in the warning colour from 90 percent on.
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
	return picture("meter", "0 0 100 1", Aria("hidden", "true"), Rect(class, "", "", digits(percent), "1"))
}

func (n nodeRow) drivers() Node {
	if len(n.Drivers) == 0 {
		return Span(Class("drivers"), none())
	}
	return Span(Class("drivers"), Each(n.Drivers, func(d writ.NodeDriver) Node {
		name := B(Text(d.Name))
		switch {
		case d.Lacks != "":
			name = Text("–")
		case d.Simulated:
			name = simulatedTag()
		}
		return Span(Class("driver"), Title(cmp.Or(d.Lacks, d.Detail)), Text(d.Module+" "), name)
	}))
}

func (n nodeRow) lastBeat() Node {
	beat := Span(Class("none"), Text("never"))
	if !n.LastBeat.IsZero() {
		beat = age(n.LastBeat)
	}
	return Group{beat, With(n.Version, func(version string) Node { return Span(Class("sub"), Text(" "+version)) })}
}

// datacentersPage is the page of the datacenters, which consists of parts only.
type datacentersPage struct{}

func (datacentersPage) html(p *page) Node {
	columns := Group{headCells("Health", "Datacenter")}
	if p.everything() {
		columns = append(columns, headCells("Region", "Open calls", "Supervisor", "#Connected"))
	}
	return Group{
		holdsSection(p),
		Section(ID("list"), Class("panel"), Aria("label", "Datacenters"), p.liveUpdates(),
			Div(Class("filter"), H1(Text("Datacenters"))),
			Table(Class("list datacenters"), THead(Tr(columns)), TBody(p.part("datacenters"))),
			P(Class("empty"), Text("The roster names no datacenter yet: "), Code(Text("writ dc add")))),
	}
}

func (d datacenterName) html() Node {
	return Tr(key(d), Data("state", string(d.Health)), cell("st", "", stateTag(d.Health)), cell("sc", "", B(Text(d.Name))))
}

func (d datacenterRow) html() Node {
	calls := Span(Class("none"), Text("unknown"))
	if d.Known {
		calls = Group{Text(d.Depth.running() + ", " + digits(d.Depth.Queued) + " queued, " + digits(d.Depth.Planned) +
			" planned"),
			sub("on " + plural(d.Nodes, "node", "nodes"))}
	}
	connected := none()
	if !d.Connected.IsZero() {
		connected = sinceTime(d.Connected)
	}
	return Tr(key(d), Data("state", string(d.Health)),
		cell("st", "", stateTag(d.Health), If(!d.Enabled, tag("disabled"))),
		cell("sc", "", A(Href(nodesOf(d.ID)), opens(), Text(d.Name)), sub(writ.LabelsText(d.Labels)),
			With(d.Reason, func(reason string) Node { return why("gets no runs: " + reason) })),
		cell("dc", "region", Text(d.Region)),
		cell("ca", "calls", calls),
		cell("dr", "supervisor", Text(d.Version), If(d.Roster > 0, sub("roster "+digits(d.Roster))), Text(" "),
			Code(Class("sub key"), Text(d.SupervisorKey()))),
		cell("ag n", "connected", connected))
}
