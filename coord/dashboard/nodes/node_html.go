package nodes

import (
	"cmp"

	"writ"
	. "writ/coord/dashboard/markup"
	"writ/coord/dashboard/page"
	. "writ/coord/dashboard/widget"
	"writ/internal/hidden"
)

// nodePlace is the page of a node, which consists of parts only.
type nodePlace struct{}

func (nodePlace) HTML(p *page.Page) Node {
	return Group{
		Crumb("/nodes", "Nodes"),
		Div(p.Part("head"), p.Live()),
		Section(Class("panel"), Aria("label", "Resources"),
			H2(Text("Resources on this node")),
			Nav(p.Part("counts"), Class("counts kinds"), Aria("label", "Resources by kind"))),
		Section(Class("panel"), Aria("label", "Drivers"),
			Table(Class("list drivers-list"), Caption(Text("Drivers")), Heads("Module", "Driver", "Detail"),
				TBody(p.Part("drivers"))),
			P(Class("empty"), Text("The node reported no drivers."))),
	}
}

func (h nodeHead) HTML() Node {
	return Section(Class("panel head"), page.Key(h), Data("state", h.Health), Aria("label", "Node"),
		Div(Class("title"), H1(Text(h.Name)), StateTag(h.Health), h.scheduling()),
		With(h.Why, func(why string) Node { return P(Class("waits"), Glyph("waiting"), Text("gets no work: "+why)) }),
		Each(h.StuckJobs(), stuckJob.HTML),
		Each(h.OrphanLines, func(orphan string) Node {
			return P(Class("why"), Text("An orphan: "+orphan+". "), Code(Text("writ node show")), Text(" says more."))
		}),
		h.facts(),
		With(h.LogPage, func(page string) Node { return P(A(Href(page), Text("The last lines of its log"))) }),
		page.CommandList(h.Commands))
}

func (s stuckJob) HTML() Node {
	return P(Class("why"), Text(s.Text+" is stuck: its driver ignores its deadline. "),
		If(s.Run.Valid(), A(Href(page.RunPage(s.Run)+page.CallPlace(s.Seq)), Text("The call"))), Text(", "),
		SinceTime(s.Since))
}

func (h nodeHead) facts() Node {
	return Dl(Class("facts"),
		Fact("Datacenter", A(Href(nodesOf(h.Datacenter)), Text(h.DatacenterName))),
		Fact("Last beat", AgeOr(h.LastBeat, Text("never"))),
		Fact("Joined", AgeOr(h.Joined, Text("unknown"))),
		Fact("Queue", Text(h.running()+", "+Digits(h.Depth.Queued)+" queued, "+Digits(h.Depth.Planned)+" planned"),
			h.unheardCalls()),
		WideFact("Reserved", h.reserved(Text("unknown"))),
		h.disks(),
		Fact("Version", Text(cmp.Or(h.Version, "unknown"))),
		With(writ.LabelsText(h.Labels), func(labels string) Node { return Fact("Labels", Text(labels)) }),
		WideFact("Key", Code(Class("key"), Text(cmp.Or(h.Node.Key, "unknown")))),
		WideFact("Id", Code(Class("key"), Text(h.ID))),
		h.decisions())
}

// running describes the running calls of the node, or, for an unheard node, the slots in use at its last report.
func (h nodeHead) running() string {
	if h.Unheard != nil {
		return h.slots()
	}
	return Digits(h.Depth.Running) + " running of " + Plural(h.Slots, "slot", "slots")
}

// disks shows each disk with its free bytes, as last reported by the node.
func (h nodeHead) disks() Node {
	var lines Group
	for i, d := range h.Disks {
		text := Text(hidden.Escape(d.String()))
		if d.AlmostFull() {
			text = Why(hidden.Escape(d.String()) + ": almost full")
		}
		lines = append(lines, If(i > 0, Br()), text)
	}
	return If(len(lines) > 0, WideFact("Disks", lines))
}

func (h nodeHead) decisions() Node {
	var lines Group
	for i, decision := range h.Decisions() {
		lines = append(lines, If(i > 0, Br()), Text(decision))
	}
	return If(len(lines) > 0, WideFact("Decided", lines))
}

func (r driverRow) HTML() Node {
	name := Text(r.Name)
	if r.Lacks != "" {
		name = None()
	}
	return Tr(page.Key(r),
		Cell("sc", "", B(Text(r.Module))),
		Cell("", "driver", name, Simulated(r.Simulated)),
		Cell("", "detail", Text(r.Detail),
			With(r.Lacks, func(lacks string) Node { return Why("creates no new resources: it lacks " + lacks) }),
			If(r.Init, Span(Class("sub"), Text(" has an init program"))),
			Each(r.Devices, func(name string) Node { return Span(Class("sub"), Text(" offers the device "+name)) }),
			Each(r.Opens, func(open string) Node { return Span(Class("sub"), Text(" opens "+open)) }),
			Each(r.Engines, func(e writ.Engine) Node {
				refused := ""
				if e.Refused != "" {
					refused = " (not used: " + e.Refused + ")"
				}
				return Span(Class("sub"), Text(" "+e.Name+" "+e.Version+refused))
			})))
}

func (l nodeLogPage) HTML(*page.Page) Node {
	return Group{
		Crumb(l.Page, l.Name),
		Section(Class("panel"), Aria("label", "Log"), H1(Text("Log of "+l.Name)), l.source(), l.lines()),
	}
}

// source states the origin and age of the lines.
func (l nodeLogPage) source() Node {
	if l.Away == "" {
		return P(Class("sub"), Text("As reported by the node when the page was loaded."),
			With(l.Word, func(word string) Node {
				return Group{Text(" For more: "), Code(Text("writ node logs " + word + " --follow"))}
			}))
	}
	return P(Class("why"), Text("The node "+l.Away+". These are its last reported warnings"),
		If(!l.Told.IsZero(), Group{Text(", "), Age(l.Told)}), Text("."))
}

func (l nodeLogPage) lines() Node {
	if len(l.Shown) == 0 {
		return P(Class("sub"), Text("There are no lines."))
	}
	return LogBox(Each(l.Shown, func(line nodeLine) Node {
		text := line.Text
		if line.Earlier {
			text = "(earlier start) " + text
		}
		if level := line.Why(); level != "" {
			text = level + " " + text
		}
		return Tr(Cell("mk", "", Clock(line.Time)), Cell("mk", "", Text(line.Source)), Td(Code(Text(text))))
	}))
}
