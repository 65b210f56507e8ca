package dashboard

import (
	"cmp"

	"writ"
	. "writ/coord/dashboard/markup"
)

func (t timelinePage) html(*page) Node {
	return Group{
		crumb(runPageOf(t.Run.ID), t.Run.Script),
		Section(Class("panel"), Aria("label", "Timeline"),
			H1(Text("Timeline of "+t.Run.Script)),
			t.Line.html(),
			If(t.Forgotten,
				P(Class("sub"),
					Text("Some attempts are missing: the coordinator reads a bounded number of events, and forgets old ones."))),
			t.calls(),
			P(Class("sub"), Text("Times count from when the datacenter accepted the run.")),
			t.Pager.html()),
	}
}

// calls renders the calls as bars, and as a table.
func (t timelinePage) calls() Node {
	if len(t.Calls) == 0 {
		return P(Class("sub"), Text("The script has made no calls yet."))
	}
	return Group{
		Ol(Class("gantt"), Aria("label", "The calls as bars. The table below has the same data"),
			Each(t.Calls, timelineRow.line)),
		H2(Text("As a table")),
		Table(Class("list attempts"),
			heads("##", "Call", "Attempt", "State", "Node", "#Waits from", "#Sent at", "#Began at", "#Took"),
			TBody(Each(t.Calls, timelineRow.attempts))),
	}
}

func (r timelineRow) line() Node {
	return Li(Span(Aria("hidden", "true"), Text(digits(r.Seq)+" "+r.Operation), bold(r.Name)),
		picture("line", r.box(), Role("img"), Aria("label", "call "+digits(r.Seq)), bars(r.Bars())))
}

// attempts returns the table rows of the attempts of a call.
func (r timelineRow) attempts() Node {
	lines := make(Group, len(r.Attempts))
	for i, a := range r.Attempts {
		lines[i] = Tr(
			cell("n", "", number(r.Seq)),
			Td(Text(r.Operation), bold(r.Name)),
			cell("", "attempt", number(a.Number)),
			Td(Text(a.State), With(a.Code, func(code writ.Code) Node { return Group{Text(" "), Code(Text(code))} })),
			cell("", "node", Text(cmp.Or(a.Node, "–"))),
			cell("n", "waits from", Text(r.Since(a.Waits))),
			cell("n", "sent at", Text(r.Since(a.Queued))),
			cell("n", "began at", Text(r.Since(a.Started))),
			cell("n", "took", Text(a.Worked())))
	}
	return lines
}
