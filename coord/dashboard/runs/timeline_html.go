package runs

import (
	"cmp"

	"writ"
	. "writ/coord/dashboard/markup"
	"writ/coord/dashboard/page"
	. "writ/coord/dashboard/widget"
)

func (t timelinePage) HTML(*page.Page) Node {
	return Group{
		Crumb(page.RunPage(t.Run.ID), t.Run.Script),
		Section(Class("panel"), Aria("label", "Timeline"),
			H1(Text("Timeline of "+t.Run.Script)),
			t.Line.HTML(),
			If(t.Forgotten,
				P(Class("sub"),
					Text("Some attempts are missing: the coordinator reads a bounded number of events, and forgets old ones."))),
			t.calls(),
			P(Class("sub"), Text("Times count from when the datacenter accepted the run.")),
			t.Pager.HTML()),
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
			Heads("##", "Call", "Attempt", "State", "Node", "#Waits from", "#Sent at", "#Began at", "#Took"),
			TBody(Each(t.Calls, timelineRow.attempts))),
	}
}

func (r timelineRow) line() Node {
	return Li(Span(Aria("hidden", "true"), Text(Digits(r.Seq)+" "+r.Operation), Bold(r.Name)),
		Picture("line", r.box(), Role("img"), Aria("label", "call "+Digits(r.Seq)), bars(r.Bars())))
}

// attempts returns the table rows of the attempts of a call.
func (r timelineRow) attempts() Node {
	lines := make(Group, len(r.Attempts))
	for i, a := range r.Attempts {
		lines[i] = Tr(
			Cell("n", "", Number(r.Seq)),
			Td(Text(r.Operation), Bold(r.Name)),
			Cell("", "attempt", Number(a.Number)),
			Td(Text(a.State), With(a.Code, func(code writ.Code) Node { return Group{Text(" "), Code(Text(code))} })),
			Cell("", "node", Text(cmp.Or(a.Node, "–"))),
			Cell("n", "waits from", Text(r.Since(a.Waits))),
			Cell("n", "sent at", Text(r.Since(a.Queued))),
			Cell("n", "began at", Text(r.Since(a.Started))),
			Cell("n", "took", Text(a.Worked())))
	}
	return lines
}
