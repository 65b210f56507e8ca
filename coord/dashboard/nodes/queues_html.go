package nodes

import (
	"cmp"

	. "writ/coord/dashboard/markup"
	"writ/coord/dashboard/page"
	. "writ/coord/dashboard/widget"
)

// queueList is the page of all queues.
type queueList struct{ nodeFilter }

func (q queueList) HTML(p *page.Page) Node {
	return Section(ID("list"), Class("panel"), Aria("label", "Queues"), p.Live(),
		FilterForm("/queues", H1(Text("Queues")), q.choose(), Apply(false, "")),
		Ul(Class("legend"),
			Li(Class("b-running"), Text("running")), Li(Class("b-queued"), Text("queued")),
			Li(Class("b-planned"), Text("planned")),
			Li(Class("b-hole"), Text("not known")), Li(Class("none"), Text("the last 15 minutes"))),
		Table(Class("list queues"),
			THead(Tr(HeadCells("Health", "Node", "#Running", "#Queued", "#Planned"),
				Th(Scope("col"), Class("line"), Text("15 minutes")))),
			TBody(p.Part("queues"))),
		page.NoNode(),
		Div(p.Part("total")))
}

func (l queuesLeft) HTML() Node {
	return P(page.Key(l), Class("sub"),
		If(l.N > 0, Text(Plural(l.N, "queue with fewer calls is", "queues with fewer calls are")+" left out.")))
}

func (r queueRow) HTML() Node {
	return Tr(page.Key(r), Data("state", r.Health),
		Cell("st", "", WithOrNone(r.Health, StateTag)),
		Cell("sc", "", r.name(), Waits(r.Help), When(r.Running > 0, r.Unheard.HTML),
			Each(r.Lines, func(line string) Node { return Span(Class("line-of"), Copyable(line)) })),
		r.depths(),
		Cell("line", "", When(r.Error == nil, r.Chart.HTML)))
}

func (r queueRow) name() Node {
	switch {
	case r.Error != nil:
		return B(Text(r.Name))
	case r.Page != "":
		return Group{A(Href(r.Page), Opens(), Text(r.NodeName)), Sub(r.Name)}
	}
	return Group{B(Text(cmp.Or(r.NodeName, "(no node yet)"))), Sub(r.Name)}
}

func (r queueRow) depths() Node {
	if r.Error != nil {
		return Td(Class("n"), ColSpan("3"), Span(Class("none"), Text("unknown")))
	}
	return Group{
		Cell("n", "running", r.RunningCell(), If(r.Slots > 0, Sub("of "+Digits(r.Slots)))),
		Cell("n", "queued", Number(r.Queued)),
		Cell("n", "planned", Number(r.Planned)),
	}
}
