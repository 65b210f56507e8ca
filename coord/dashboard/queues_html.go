package dashboard

import (
	"cmp"

	. "writ/coord/dashboard/markup"
)

// queueList is the page of all queues.
type queueList struct{ nodeFilter }

func (q queueList) html(p *page) Node {
	return Section(ID("list"), Class("panel"), Aria("label", "Queues"), p.liveUpdates(),
		filterForm("/queues", H1(Text("Queues")), q.choose(), apply(false, "")),
		Ul(Class("legend"),
			Li(Class("b-running"), Text("running")), Li(Class("b-queued"), Text("queued")),
			Li(Class("b-planned"), Text("planned")),
			Li(Class("b-hole"), Text("not known")), Li(Class("none"), Text("the last 15 minutes"))),
		Table(Class("list queues"),
			THead(Tr(headCells("Health", "Node", "#Running", "#Queued", "#Planned"),
				Th(Scope("col"), Class("line"), Text("15 minutes")))),
			TBody(p.part("queues"))),
		noNode(),
		Div(p.part("total")))
}

func (l queuesLeft) html() Node {
	return P(key(l), Class("sub"),
		If(l.N > 0, Text(plural(l.N, "queue with fewer calls is", "queues with fewer calls are")+" left out.")))
}

func (r queueRow) html() Node {
	health := none()
	if r.Health != "" {
		health = stateTag(r.Health)
	}
	return Tr(key(r), Data("state", r.Health),
		cell("st", "", health),
		cell("sc", "", r.name(), waits(r.Help), When(r.Running > 0, r.Unheard.html),
			Each(r.Lines, func(line string) Node { return Span(Class("line-of"), copyable(line)) })),
		r.depths(),
		cell("line", "", When(r.Error == nil, r.Chart.html)))
}

func (r queueRow) name() Node {
	switch {
	case r.Error != nil:
		return B(Text(r.Name))
	case r.Page != "":
		return Group{A(Href(r.Page), opens(), Text(r.NodeName)), sub(r.Name)}
	}
	return Group{B(Text(cmp.Or(r.NodeName, "(no node yet)"))), sub(r.Name)}
}

func (r queueRow) depths() Node {
	if r.Error != nil {
		return Td(Class("n"), ColSpan("3"), Span(Class("none"), Text("unknown")))
	}
	return Group{
		cell("n", "running", r.running(), If(r.Slots > 0, sub("of "+digits(r.Slots)))),
		cell("n", "queued", number(r.Queued)),
		cell("n", "planned", number(r.Planned)),
	}
}
