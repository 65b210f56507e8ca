package resources

import (
	"cmp"
	"fmt"
	"strings"

	. "writ/coord/dashboard/markup"
	"writ/coord/dashboard/page"
	. "writ/coord/dashboard/widget"
)

// resourcePage is the page of a resource. Live updates do not change the loads.
type resourcePage struct {
	resourceHead
	Loads []load
}

func (r resourcePage) HTML(p *page.Page) Node {
	return Group{
		Crumb("/resources", "Resources"),
		Div(p.Part("head"), p.Live()),
		When(isMeasured(r.ResourceID.Kind), func() Node {
			return Section(Class("panel"), Aria("label", "Load"), H2(Text("Load")), loadTable(r.Loads, false))
		}),
		Section(Class("panel"), Aria("label", "Events"),
			Table(Class("list events"), Caption(Text("Events")), Heads("Event", "#When"), TBody(p.Part("events")))),
	}
}

func (h resourceHead) HTML() Node {
	return Section(Class("panel head"), page.Key(h), Data("state", h.shown()), Aria("label", "Resource"),
		Div(Class("title"), H1(Text(string(h.ResourceID.Kind)+"/"+h.Name)),
			When(h.State != "", func() Node { return StateTag(h.shown()) }),
			When(h.Unheard == nil && h.Health != "", func() Node { return Tag(h.Health) }), Simulated(h.Simulated)),
		Each(h.Troubles, trouble.HTML),
		Dl(Class("facts"),
			Fact("Project", Text(h.ProjectName)),
			Fact("Deployment", WithOrNone(h.Owner, func(page string) Node { return A(Href(page), Text(h.Deployment)) })),
			Fact("Datacenter", Text(h.DatacenterName)),
			When(h.Everything, func() Node { return Fact("Node", h.place()) }),
			When(h.Exit != nil, func() Node { return Fact("Last end", Text(h.Exit.String())) }),
			WideFact("Addresses", h.address())),
		page.CommandList(h.Commands))
}

func (t trouble) HTML() Node {
	text := cmp.Or(t.Of, "it") + " " + t.What
	if t.Count > 1 {
		text = fmt.Sprintf("%d resources are %s", t.Count, strings.TrimPrefix(t.What, "is "))
	}
	return P(Class("why"), Text(text),
		When(!t.Since.IsZero(), func() Node { return Group{Text(", "), SinceTime(t.Since)} }),
		With(t.Line, func(line string) Node { return Group{Text(" "), Copyable(line)} }))
}

func (e event) HTML() Node {
	when := Age(e.At)
	return Tr(page.Key(e), Cell("sc", "", Text(e.What)),
		Cell("ag n", "when", If(e.Run == "", when), With(e.Run, func(run string) Node {
			return A(Class("soft"), Href(run), Opens(), when)
		})))
}
