package resources

import (
	. "writ/coord/dashboard/markup"
	"writ/coord/dashboard/page"
	. "writ/coord/dashboard/widget"
)

// deploymentPage is the page of a deployment. Live updates do not change the loads.
type deploymentPage struct {
	deploymentHead
	Loads []load
}

func (d deploymentPage) HTML(p *page.Page) Node {
	columns := Group{HeadCells("State", "Resource")}
	if p.Everything() {
		columns = append(columns, HeadCells("Node"))
	}
	return Group{
		Crumb("/deployments", "Deployments"),
		Div(p.Part("head"), p.Live()),
		Section(Class("panel"), Aria("label", "Load"), H2(Text("Load")), loadTable(d.Loads, true)),
		Section(Class("panel"), Aria("label", "Runs"),
			Table(Class("list revisions"), Caption(Text("Runs")), Heads("#Revision", "Run", "Signer", "#Submitted"),
				TBody(p.Part("revisions"))),
			P(Class("empty"), Text("The coordinator has deleted its runs.")),
			P(A(Href(d.Runs), Text("All its runs")))),
		Section(Class("panel"), Aria("label", "Resources"),
			Table(Class("list resources"), Caption(Text("Resources")), THead(Tr(columns, HeadCells("Address", "#Changed"))),
				TBody(p.Part("resources"))),
			P(Class("empty"), Text("It owns no resource.")),
			P(A(Href(d.List), Text("All its resources")))),
	}
}

func (h deploymentHead) HTML() Node {
	state := "unknown"
	if h.Newest != nil {
		state = string(h.Newest.State)
	}
	return Section(Class("panel head"), page.Key(h), Data("state", state), Aria("label", "Deployment"),
		Div(Class("title"), H1(Text(h.Name)), When(h.Newest != nil, func() Node { return StateTag(h.Newest.State) })),
		h.failure(),
		When(h.Why != "", func() Node {
			return P(Waits(h.Why), When(!h.Remedy.IsZero(), func() Node { return Group{Text(" "), Copyable(h.Remedy.Line)} }))
		}),
		Each(h.Troubles, trouble.HTML),
		When(h.Unlisted, func() Node {
			return P(Class("why"), Text("There are more problems. "),
				A(Href(h.List+"&troubled=1"), Text("All its resources with a problem")))
		}),
		Dl(Class("facts"),
			Fact("Project", Text(h.ProjectName)),
			Fact("Datacenter", Text(h.DatacenterName)),
			Fact("Revision", When(h.Revision > 0, func() Node { return Number(h.Revision) }), If(h.Revision == 0, None()))),
		page.CommandList(h.Commands))
}

// failure shows the error of the newest run.
func (h deploymentHead) failure() Node {
	if h.Newest == nil || h.Newest.Failure == nil {
		return nil
	}
	f := h.Newest.Failure
	return P(Class("why"), Text("the newest run failed: "+string(f.Code)+": "+f.Message+" "),
		A(Href(page.RunPage(h.Newest.ID)), Text("The run")))
}

func (r ownedRow) HTML() Node {
	return Tr(page.Key(r), Data("state", r.shown()), r.identity(),
		When(r.Everything, func() Node { return Cell("no", "node", r.place()) }),
		Cell("ad", "address", r.address()),
		Cell("ag n", "changed", r.changed()))
}

func (r revisionRow) HTML() Node {
	return Tr(page.Key(r), Data("state", string(r.State)),
		Cell("rv n", "revision", When(r.Revision > 0, func() Node { return Number(r.Revision) })),
		Cell("sc", "", StateTag(r.State), Text(" "), A(Href(page.RunPage(r.ID)), Opens(), Text(r.Script))),
		Cell("", "signer", Text(r.Signer)),
		Cell("ag n", "submitted", Age(r.Created)))
}
