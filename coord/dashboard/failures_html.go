package dashboard

import . "writ/coord/dashboard/markup"

func (f failuresPage) html(p *page) Node {
	return Section(ID("list"), Class("panel"), Aria("label", "Failures"), p.liveUpdates(),
		filterForm("/failures",
			H1(Text("Failures")),
			choice("Time", sinceParam,
				Each(f.Spans, func(span value) Node { return option(span.Name, span.Text, span.Name == f.Since) })),
			chooseProject(f.Projects, f.Project), chooseDatacenter(f.Datacenters, f.Filter.Datacenter), keeps(f.Kept...),
			apply(false, "")),
		P(Class("sub"),
			Text("Runs that came in this time and failed, expired, or were refused or cancelled, by code and operation.")),
		Table(Class("list failures"), heads("#Runs", "Code", "Operation", "#Newest", "What it means"),
			TBody(p.part("failures"))),
		P(Class("empty"), Text("No run failed in this time.")))
}

func (r failureRow) html() Node {
	operation := Code(Text(r.Operation))
	if r.Operation == "" {
		operation = Span(Class("none"), Text("no call"))
	}
	return Tr(key(r),
		cell("n", "runs", A(Href(r.List), opens(), number(r.Runs))),
		cell("sc", "", Code(Class("name"), Text(r.Code))),
		cell("", "in", operation),
		cell("ag n", "newest", age(r.Newest)),
		cell("ex", "", Text(r.Explain()),
			With(r.Command(), func(command string) Node { return Group{Text(" "), copyable(command)} })))
}
