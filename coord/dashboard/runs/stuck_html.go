package runs

import (
	. "writ/coord/dashboard/markup"
	"writ/coord/dashboard/page"
	"writ/coord/dashboard/snapshot"
	. "writ/coord/dashboard/widget"
	"writ/coord/remedy"
)

func (s stuckPage) HTML(p *page.Page) Node {
	return Group{
		snapshot.HoldsSection(p),
		Section(ID("list"), Class("panel"), Aria("label", "Stuck runs"), p.Live(),
			FilterForm("/stuck",
				H1(Text("Stuck runs")),
				Choice("Silent for", "for",
					Each(s.Silences, func(silence string) Node { return OptionOf(silence, "silent for "+silence, silence == s.For) })),
				s.Choose(),
				HiddenFields(s.Kept...),
				Apply(false, "")),
			Div(p.Part("total")),
			Table(Class("list stuck"), Heads("State", "Run", "Project", "Datacenter", "#Last heard", "#Submitted", "What helps"),
				TBody(p.Part("stuck"))),
			P(Class("empty"), Text("No open run has been silent that long.")),
			Div(p.Part("pager"))),
	}
}

func (s stuckTotal) HTML() Node {
	return P(page.Key(s), Class("sub"),
		Text(Plural(s.N, "open run", "open runs")+" without an event for "+s.For+
			" or longer, or with a repeated call. The oldest is first."))
}

func (r stuckRow) HTML() Node {
	return Tr(page.Key(r), Data("state", string(r.State)),
		Cell("st", "", StateTag(r.State)),
		Cell("sc", "", A(Href(page.RunPage(r.ID)), Opens(), Text(r.Script)), Sub("by "+r.Signer), Waits(r.Why)),
		Cell("pr", "project", page.ProjectText(r.ProjectName, r.Project)),
		Cell("dc", "datacenter", Text(r.DatacenterName)),
		Cell("ag n", "last heard", Age(r.Heard)),
		Cell("ag n", "submitted", Age(r.Created)),
		Cell("cmd", "", r.commands()))
}

// commands lists the command that ends the wait, and the commands that explain and cancel the run.
func (r stuckRow) commands() Node {
	about := func(verb string) Node { return Copyable("writ run " + verb + " " + string(r.ID)) }
	return Group{
		If(!r.Helps.IsZero(), Group{helping(r.Helps), Text(" ")}),
		If(r.ID.Valid(), about("explain")),
		If(r.Cancels(), Group{Text(" "), about("cancel")}),
		If(!r.Cancels() && r.Waits(), Sub("it expires by itself")),
	}
}

// helping renders a command with its effect.
func helping(c remedy.Command) Node {
	return Group{With(c.First(), Sub), Copyable(c.Line), Sub(c.Effect())}
}
