package runs

import (
	"fmt"

	. "writ/coord/dashboard/markup"
	"writ/coord/dashboard/page"
	. "writ/coord/dashboard/widget"
	"writ/ledger"
)

func (f failuresPage) HTML(p *page.Page) Node {
	return Section(ID("list"), Class("panel"), Aria("label", "Failures"), p.Live(),
		FilterForm("/failures",
			H1(Text("Failures")),
			Choice("Time", sinceParam,
				Each(f.Spans, func(span Named) Node { return OptionOf(span.Name, span.Text, span.Name == f.Since) })),
			f.Choose(),
			HiddenFields(f.Kept...),
			Apply(false, "")),
		P(Class("sub"),
			Text("Runs that came in this time and failed, expired, or were refused or cancelled, by code and operation. "+
				fmt.Sprintf("The page counts the newest %d runs.", ledger.MaxExamined))),
		Table(Class("list failures"), Heads("#Runs", "Code", "Operation", "#Newest", "What it means"),
			TBody(p.Part("failures"))),
		P(Class("empty"), Text("No run failed in this time.")))
}

func (r failureRow) HTML() Node {
	operation := Code(Text(r.Operation))
	if r.Operation == "" {
		operation = Span(Class("none"), Text("no call"))
	}
	return Tr(page.Key(r),
		Cell("n", "runs", A(Href(r.List), Opens(), Number(r.Runs))),
		Cell("sc", "", Code(Class("name"), Text(r.Code))),
		Cell("", "in", operation),
		Cell("ag n", "newest", Age(r.Newest)),
		Cell("ex", "", Text(r.Explain()),
			With(r.Command(), func(command string) Node { return Group{Text(" "), Copyable(command)} })))
}
