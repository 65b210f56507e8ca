package dashboard

import (
	"cmp"

	"writ"
	. "writ/coord/dashboard/markup"
	"writ/ledger"
)

func (o overview) html(p *page) Node {
	return Group{
		H1(Class("hidden"), Text("Runs")),
		Section(p.part("attention"), Aria("label", "Needs attention")),
		Nav(p.part("counts"), Class("counts"), Aria("label", "Runs by state")),
		holdsSection(p),
		When(p.everything(), func() Node { return o.depths(p) }),
		Section(ID("list"), Class("panel"), Aria("label", "Runs"), p.liveUpdates(),
			filterForm("/", Role("search"), HX("select-oob", "#counts"),
				H2(Text(o.heading())),
				keeps(o.Kept...), keeps(value{"state", o.State}),
				chooseProject(o.Projects, o.Project), chooseDatacenter(o.Datacenters, o.Filter.Datacenter),
				searchField("Search", "signer", cmp.Or(o.Filter.Signer, o.Filter.Text), "signer, script, run id, or a text"),
				apply(o.Filtered(), o.All)),
			Button(Type("button"), Class("fresh"), ID("fresh"), Hidden(), Text("new runs")),
			Table(Class("list runs"), heads("State", "Script", "Project", "Signer", "Datacenter", "Calls", "#Took", "#Age"),
				TBody(p.part("runs"), Mark("hold"))),
			P(Class("empty"), o.empty()),
			Div(p.part("pager")),
			commandList(o.Commands)),
	}
}

// heading describes the runs of the list.
func (o overview) heading() string {
	text := "Newest runs"
	if o.State != "" {
		text = "Runs that are " + o.State
	}
	operation := o.Filter.Operation
	if operation == ledger.NoOperation {
		operation = ""
	}
	for _, part := range []struct{ before, is, after string }{
		{" with “", o.Filter.Text, "”"}, {" of ", o.Filter.Script, ""}, {" of the deployment ", o.Filter.Deployment, ""},
		{" that ended with ", string(o.Filter.Failure), ""}, {" in ", operation, ""}, {", ", o.Since, ""},
	} {
		if part.is != "" {
			text += part.before + part.is + part.after
		}
	}
	return text
}

func (o overview) empty() Node {
	if o.Filtered() {
		return Group{Text("No run matches. "), A(Href(o.All), Text("Show all"))}
	}
	return Group{Text("No run yet. "), If(o.Submits, Group{Text("Submit a script: "), Code(Text("writ submit FILE"))})}
}

// depths shows the depths of the queues, in total and by node.
func (o overview) depths(p *page) Node {
	return Section(Class("split"), Aria("label", "Queue depth"),
		Div(Class("panel"),
			Div(p.part("depth")),
			Div(p.part("boot")),
			Div(ID("chart"), Class("chart"), Role("img"),
				Aria("label", "Open calls over the last five minutes; the table of queues has the numbers"),
				Data("history", o.History))),
		Div(Class("panel scroll"), TabIndex("0"), Role("region"), Aria("label", "Queue depth per node"),
			Table(Class("plain"),
				Caption(Text("Queue depth per node "), A(Class("sub"), Href("/queues"), Text("and what helps"))),
				heads("Node", "#Running", "#Queued", "#Planned"),
				TBody(p.part("queues"))),
			noNode()))
}

func (r runRow) html() Node {
	return Tr(key(r), Data("state", string(r.State)),
		cell("st", "", stateTag(r.State)),
		cell("sc", "", A(Href(runPageOf(r.ID)), opens(), Text(r.Script)), sub(r.Deployment), r.failure()),
		cell("pr", "project", A(Class("soft"), Href(r.OfProject), projectText(r.ProjectName, r.Project))),
		cell("si", "signer", A(Class("soft"), Href(r.OfSigner), Text(r.Signer))),
		cell("dc", "datacenter", Text(r.DatacenterName)),
		cell("ca", "calls", r.Calls.html(), r.Unheard.html()),
		cell("tk n", "took", tookOr(r.Took(), r.State == ledger.State(writ.RunRunning), r.Accepted)),
		cell("ag n", "submitted", age(r.Created)))
}

func (r runRow) failure() Node {
	if r.Failure == nil {
		return nil
	}
	return Span(Class("why"), Code(Text(r.Failure.Code)), Text(" "+r.Failure.Message))
}
