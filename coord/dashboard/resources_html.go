package dashboard

import (
	"strings"

	. "writ/coord/dashboard/markup"
)

// hiddenFilters keeps the filters without a form field.
func (l listPage) hiddenFilters() Node {
	return keeps(value{"kind", string(l.Filter.Kind)}, value{"node", string(l.Filter.Node)})
}

func (l listPage) chooseProject() Node { return chooseProject(l.Projects, l.Project) }
func (l listPage) chooseDatacenter() Node {
	return chooseDatacenter(l.Datacenters, l.Filter.Datacenter)
}

// resourcesPage is the page of resources.
type resourcesPage struct{ listPage }

func (r resourcesPage) html(p *page) Node {
	title := "Resources"
	if r.Filter.Deployment != "" {
		title += " of " + r.Filter.Deployment
	}
	if r.NodeName != "" {
		title += " on " + r.NodeName
	}
	columns := Group{headCells("State", "Resource", "Project", "Deployment", "Datacenter")}
	if p.everything() {
		columns = append(columns, headCells("Node"))
	}
	empty := Text("No script has made anything yet.")
	if r.Filtered() {
		empty = Group{Text("No resource is like that. "), A(Href(r.All), Text("Show all"))}
	}
	return Group{
		Nav(p.part("counts"), Class("counts kinds"), Aria("label", "Resources by kind")),
		Section(ID("list"), Class("panel"), Aria("label", "Resources"), p.liveUpdates(),
			filterForm("/resources", HX("select-oob", "#counts"),
				H1(Text(title)),
				r.hiddenFilters(), r.chooseProject(), r.chooseDatacenter(),
				searchField("Deployment", "deployment", r.Filter.Deployment, "deployment"),
				apply(r.Filtered(), r.All)),
			Table(Class("list resources"), THead(Tr(columns, headCells("Address", "#Changed"))), TBody(p.part("resources"))),
			P(Class("empty"), empty),
			Div(p.part("pager"))),
	}
}

func (r resourceRow) html() Node {
	return Tr(key(r), Data("state", r.shown()),
		cell("st", "", r.state()),
		cell("sc", "", B(Text(r.Name)), sub(r.kind()), simulated(r.Simulated), r.Unheard.html(), Each(r.Wrong, why)),
		cell("pr", "project", Text(r.ProjectName)),
		cell("dp", "deployment", r.deployment()),
		cell("dc", "datacenter", Text(r.DatacenterName)),
		When(r.Everything, func() Node { return cell("no", "node", r.place()) }),
		cell("ad", "address", r.address()),
		cell("ag n", "changed", r.changed()))
}

func (r resourceRow) state() Node {
	if r.State == "" {
		return none()
	}
	return stateTag(r.shown())
}

// shown returns the shown state: a resource on an unheard node may have stopped.
func (r resourceRow) shown() string {
	if r.Unheard != nil {
		return stateUnknown
	}
	return r.State
}

// kind returns the kind of the resource, and its driver.
func (r resourceRow) kind() string {
	if r.Simulated || r.Driver == "" {
		return string(r.ResourceID.Kind)
	}
	return string(r.ResourceID.Kind) + ", " + r.Driver
}

func (r resourceRow) deployment() Node {
	if r.Deployment == "" {
		return none()
	}
	return A(Class("soft"), Href(r.DeploymentList), Text(r.Deployment))
}

func (r resourceRow) place() Node {
	if r.NodePage == "" {
		return none()
	}
	return A(Class("soft"), Href(r.NodePage), Text(r.NodeName))
}

func (r resourceRow) address() Node {
	if r.Address == "" {
		return none()
	}
	return Code(Text(strings.TrimSpace(r.Address + " " + r.IPv4)))
}

func (r resourceRow) changed() Node {
	if r.RunPage() == "" {
		return age(r.Updated)
	}
	return A(Class("soft"), Href(r.RunPage()), opens(), age(r.Updated))
}

// deploymentsPage is the page of deployments.
type deploymentsPage struct{ listPage }

func (d deploymentsPage) html(p *page) Node {
	return Section(ID("list"), Class("panel"), Aria("label", "Deployments"), p.liveUpdates(),
		filterForm("/deployments",
			H1(Text("Deployments")),
			d.hiddenFilters(), d.chooseProject(), d.chooseDatacenter(),
			apply(d.Filtered(), d.All)),
		Table(Class("list deployments"),
			heads("Deployment", "Project", "Datacenter", "#Resources", "#Revision", "Newest run", "#Submitted"),
			TBody(p.part("deployments"))),
		P(Class("empty"), Text("No deployment owns a resource. "),
			If(d.Submits, Group{Code(Text("writ submit FILE --deployment NAME")), Text(" makes one.")})),
		Div(p.part("pager")))
}

func (r deploymentRow) html() Node {
	return Tr(key(r), When(r.Newest != nil, func() Node { return Data("state", string(r.Newest.State)) }),
		cell("sc", "", A(Href(r.Runs), opens(), Text(r.Name))),
		cell("pr", "project", Text(r.ProjectName)),
		cell("dc", "datacenter", Text(r.DatacenterName)),
		cell("n", "resources", A(Href(r.List), number(r.Resources))),
		cell("rv n", "revision", When(r.Revision > 0, func() Node { return number(r.Revision) })),
		r.newest())
}

func (r deploymentRow) newest() Node {
	run := r.Newest
	if run == nil {
		return Group{Td(none()), Td()}
	}
	return Group{
		cell("nr", "newest run", stateTag(run.State), Text(" "), A(Class("soft"), Href(runPageOf(run.ID)), Text(run.Script)),
			sub("by "+run.Signer), waits(r.Why)),
		cell("ag n", "submitted", age(run.Created)),
	}
}
