package resources

import (
	. "writ/coord/dashboard/markup"
	"writ/coord/dashboard/page"
	"writ/coord/dashboard/snapshot"
	. "writ/coord/dashboard/widget"
	"writ/internal/endpoint"
)

// hiddenFilters keeps the filters without a form field.
func (l listPage) hiddenFilters() Node {
	troubled := ""
	if l.Filter.Troubled {
		troubled = "1"
	}
	return HiddenFields(Named{Name: "kind", Text: string(l.Filter.Kind)}, Named{Name: "node", Text: string(l.Filter.Node)},
		Named{Name: "troubled", Text: troubled})
}

// resourcesPage is the page of resources.
type resourcesPage struct{ listPage }

func (r resourcesPage) HTML(p *page.Page) Node {
	title := "Resources"
	if r.Filter.Deployment != "" {
		title += " of " + r.Filter.Deployment
	}
	if r.NodeName != "" {
		title += " on " + r.NodeName
	}
	if r.Filter.Troubled {
		title += " with a problem"
	}
	columns := Group{HeadCells("State", "Resource", "Project", "Deployment", "Datacenter")}
	if p.Everything() {
		columns = append(columns, HeadCells("Node"))
	}
	empty := Text("No script has created a resource yet.")
	if r.Filtered() {
		empty = Group{Text("No resource matches. "), A(Href(r.All), Text("Show all"))}
	}
	return Group{
		Nav(p.Part("counts"), Class("counts kinds"), Aria("label", "Resources by kind")),
		Section(ID("list"), Class("panel"), Aria("label", "Resources"), p.Live(),
			FilterForm("/resources", HX("select-oob", "#counts"),
				H1(Text(title)),
				r.hiddenFilters(), r.Choose(),
				SearchField("Deployment", "deployment", r.Filter.Deployment, "deployment"),
				Apply(r.Filtered(), r.All)),
			Table(Class("list resources"), THead(Tr(columns, HeadCells("Address", "#Changed"))), TBody(p.Part("resources"))),
			P(Class("empty"), empty),
			Div(p.Part("pager"))),
	}
}

func (r resourceRow) HTML() Node {
	return Tr(page.Key(r), Data("state", r.shown()), r.identity(),
		Cell("pr", "project", Text(r.ProjectName)),
		Cell("dp", "deployment", r.deployment()),
		Cell("dc", "datacenter", Text(r.DatacenterName)),
		When(r.Everything, func() Node { return Cell("no", "node", r.place()) }),
		Cell("ad", "address", r.address()),
		Cell("ag n", "changed", r.changed()))
}

// identity returns the cells of the state and of the name.
func (r resourceRow) identity() Node {
	return Group{
		Cell("st", "", WithOrNone(r.State, func(string) Node { return StateTag(r.shown()) }), r.health()),
		Cell("sc", "", A(Href(r.Page), Opens(), Text(r.Name)), Sub(r.kind()), Simulated(r.Simulated), r.Unheard.HTML(),
			Each(r.Wrong, Why)),
	}
}

// shown returns the state of the resource, or unknown if its node is unheard: the resource may have stopped.
func (r resourceRow) shown() string {
	if r.Unheard != nil {
		return snapshot.StateUnknown
	}
	return r.State
}

// health returns the health of a container with a health check, unless its node is unheard.
func (r resourceRow) health() Node {
	return When(r.Unheard == nil, func() Node { return Sub(r.Health) })
}

// kind returns the kind of the resource, and its driver.
func (r resourceRow) kind() string {
	if r.Simulated || r.Driver == "" {
		return string(r.ResourceID.Kind)
	}
	return string(r.ResourceID.Kind) + ", " + r.Driver
}

func (r resourceRow) deployment() Node {
	return WithOrNone(r.DeploymentPage, func(page string) Node {
		return A(Class("soft"), Href(page), Text(r.Deployment))
	})
}

func (r resourceRow) place() Node {
	return WithOrNone(r.NodePage, func(page string) Node { return A(Class("soft"), Href(page), Text(r.NodeName)) })
}

func (r resourceRow) address() Node {
	all := endpoint.All(r.Standing)
	if len(all) == 0 {
		return None()
	}
	return Each(all, func(address string) Node { return Group{Code(Text(address)), Text(" ")} })
}

func (r resourceRow) changed() Node {
	if r.RunPage() == "" {
		return Age(r.Updated)
	}
	return A(Class("soft"), Href(r.RunPage()), Age(r.Updated))
}

// deploymentsPage is the page of deployments.
type deploymentsPage struct{ listPage }

func (d deploymentsPage) HTML(p *page.Page) Node {
	return Section(ID("list"), Class("panel"), Aria("label", "Deployments"), p.Live(),
		FilterForm("/deployments",
			H1(Text("Deployments")),
			d.hiddenFilters(), d.Choose(),
			Apply(d.Filtered(), d.All)),
		Table(Class("list deployments"),
			Heads("Deployment", "Project", "Datacenter", "#Resources", "#Revision", "Newest run", "#Submitted"),
			TBody(p.Part("deployments"))),
		P(Class("empty"), Text("No deployment owns a resource. "),
			If(d.Submits, Group{Code(Text("writ submit FILE --deployment NAME")), Text(" makes one.")})),
		Div(p.Part("pager")))
}

func (r deploymentRow) HTML() Node {
	return Tr(page.Key(r), When(r.Newest != nil, func() Node { return Data("state", string(r.Newest.State)) }),
		Cell("sc", "", A(Href(r.Page), Opens(), Text(r.Name))),
		Cell("pr", "project", Text(r.ProjectName)),
		Cell("dc", "datacenter", Text(r.DatacenterName)),
		Cell("n", "resources", A(Href(r.List), Number(r.Resources))),
		Cell("rv n", "revision", When(r.Revision > 0, func() Node { return Number(r.Revision) })),
		r.newest())
}

func (r deploymentRow) newest() Node {
	run := r.Newest
	if run == nil {
		return Group{Td(None()), Td()}
	}
	return Group{
		Cell("nr", "newest run", StateTag(run.State), Text(" "),
			A(Class("soft"), Href(page.RunPage(run.ID)), Text(run.Script)),
			Sub("by "+run.Signer), Waits(r.Why), Subs(A(Class("soft"), Href(r.Runs), Text("all runs")))),
		Cell("ag n", "submitted", Age(run.Created)),
	}
}
