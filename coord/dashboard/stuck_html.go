package dashboard

import (
	. "writ/coord/dashboard/markup"
	"writ/coord/remedy"
)

func (s stuckPage) html(p *page) Node {
	return Group{
		holdsSection(p),
		Section(ID("list"), Class("panel"), Aria("label", "Stuck runs"), p.liveUpdates(),
			filterForm("/stuck",
				H1(Text("Stuck runs")),
				choice("Silent for", "for",
					Each(s.Silences, func(silence string) Node { return option(silence, "silent for "+silence, silence == s.For) })),
				chooseProject(s.Projects, s.Project), chooseDatacenter(s.Datacenters, s.Filter.Datacenter), keeps(s.Kept...),
				apply(false, "")),
			Div(p.part("total")),
			Table(Class("list stuck"), heads("State", "Run", "Project", "Datacenter", "#Last heard", "#Submitted", "What helps"),
				TBody(p.part("stuck"))),
			P(Class("empty"), Text("No open run was silent for so long.")),
			Div(p.part("pager"))),
	}
}

func (s stuckTotal) html() Node {
	return P(key(s), Class("sub"),
		Text(plural(s.N, "open run", "open runs")+" without an event for "+s.For+
			" or longer, or that repeat a call. The oldest is first."))
}

func (r stuckRow) html() Node {
	return Tr(key(r), Data("state", string(r.State)),
		cell("st", "", stateTag(r.State)),
		cell("sc", "", A(Href(runPageOf(r.ID)), opens(), Text(r.Script)), sub("by "+r.Signer), waits(r.Why)),
		cell("pr", "project", projectText(r.ProjectName, r.Project)),
		cell("dc", "datacenter", Text(r.DatacenterName)),
		cell("ag n", "last heard", age(r.Heard)),
		cell("ag n", "submitted", age(r.Created)),
		cell("cmd", "", r.commands()))
}

// commands lists the command that ends the wait, and those that explain and cancel the run.
func (r stuckRow) commands() Node {
	about := func(verb string) Node { return copyable("writ run " + verb + " " + string(r.ID)) }
	return Group{
		If(!r.Helps.IsZero(), Group{helping(r.Helps), Text(" ")}),
		If(r.ID.Valid(), about("explain")),
		If(r.Cancels(), Group{Text(" "), about("cancel")}),
		If(!r.Cancels() && r.Waits(), sub("it expires by itself")),
	}
}

// helping renders a command with its effect.
func helping(c remedy.Command) Node { return Group{copyable(c.Line), sub(c.Effect())} }
