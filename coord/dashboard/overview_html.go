package dashboard

import (
	"cmp"
	"net/url"

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
		When(p.Everything, func() Node { return o.depths(p) }),
		Section(ID("list"), Class("panel"), Aria("label", "Runs"), p.live(),
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

// noNode is shown below an empty list of nodes.
func noNode() Node {
	return P(Class("empty"), Text("No node has joined yet. "), Code(Text("writ token create")),
		Text(" creates a token to join with."))
}

func (c count) html() Node {
	class := "count s-" + string(c.State)
	if c.N == 0 {
		class += " zero"
	}
	return A(Class(class), Href(c.Address), key(c), If(c.Chosen, Aria("current", "true")), B(number(c.N)),
		Span(glyph(string(c.State)), Text(c.State)))
}

func (d depth) html() Node {
	line := func(state string, n int) Node {
		return Div(Class("b-"+state), Dt(Text(state)), Dd(number(n)))
	}
	return Div(Class("depth"), key(d), Data("running", digits(d.Running)), Data("queued", digits(d.Queued)),
		Data("planned", digits(d.Planned)),
		H2(Text("Open calls")),
		Dl(line("running", d.Running), line("queued", d.Queued), line("planned", d.Planned)),
		If(d.Unheard > 0,
			P(Class("note"), Text("without "+plural(d.Unheard, "call", "calls")+" on nodes that are not heard"))),
		If(d.Unknown > 0,
			P(Class("note"), Text("without "+plural(d.Unknown, "datacenter that does", "datacenters that do")+" not answer"))))
}

func (q queue) html() Node {
	return Tr(key(q), If(q.Open() == 0, Class("idle")), Th(Scope("row"), q.title()), q.cells())
}

func (q queue) title() Node {
	if q.Error != nil || q.Idle+q.Busy > 0 {
		return Text(q.Name)
	}
	return Group{Text(q.NodeName), sub(q.Name)}
}

func (q queue) cells() Node {
	switch {
	case q.Error != nil:
		return Td(ColSpan("3"), Class("n"), Title(q.Error.Message), stateTag("away"), Text(" "),
			Span(Class("hidden"), Text(q.Error.Code)))
	case q.Idle+q.Busy > 0:
		return Td(ColSpan("3"), Class("n"),
			If(q.Busy > 0,
				A(Href(queuesOf(q.Datacenter)), Text(plural(q.Busy, "more node has", "more nodes have")+" fewer calls"))),
			If(q.Idle > 0 && q.Busy > 0, Text(", ")),
			If(q.Idle > 0, Text(plural(q.Idle, "more node has", "more nodes have")+" nothing to do")))
	}
	return Group{cell("n", "", q.running()), cell("n", "", number(q.Queued)), cell("n", "", number(q.Planned))}
}

// running shows the number of running calls. It is unknown while the node is unheard.
func (q queue) running() Node {
	if q.Unheard != nil && q.Running > 0 {
		return Span(Class("none"), Title(digits(q.Running)+" ran when the node was heard last"), Text("unknown"))
	}
	return number(q.Running)
}

// running formats the running calls, and those of unheard nodes as unknown.
func (d depth) running() string {
	text := digits(d.Running) + " running"
	if d.Unheard > 0 {
		text += ", " + digits(d.Unheard) + " unknown"
	}
	return text
}

func queuesOf(datacenter writ.DatacenterID) string {
	return "/queues?datacenter=" + url.QueryEscape(string(datacenter))
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

func (p progress) html() Node {
	if p.Total() == 0 {
		return none()
	}
	return Span(Class("progress"),
		SVG("", "0 0 "+digits(p.Total())+" 1", Stretched(), Aria("hidden", "true"),
			Rect("b-succeeded", "", "", digits(p.Succeeded), "1"),
			Rect("b-failed", digits(p.FailedFrom()), "", digits(p.Failed), "1"),
			Rect("b-running", digits(p.RunningFrom()), "", digits(p.Running), "1")),
		Span(Text(digits(p.Succeeded)+"/"+digits(p.Total())),
			If(p.Failed > 0, Group{Text(" "), Span(Class("bad"), Title("failed, cancelled or expired"),
				glyph("failed"), number(p.Failed), Span(Class("hidden"), Text(" failed, cancelled or expired")))})))
}

// holdsSection shows the holds.
func holdsSection(p *page) Node {
	return Section(p.part("holds"), Class("holds"), Aria("label", "On hold"))
}

func (h held) html() Node {
	word, reason := "released", ""
	if h.Held {
		word = "on hold"
	}
	if h.Reason() != "" {
		reason = ": " + h.Reason()
	}
	return P(Class("hold"), key(h),
		Span(Span(Class("tag"), Text(word)), Text(" "), B(Text(h.What())), Text(" in "+h.DatacenterName+", "),
			sinceTime(h.Time()), Text(" by "+h.By()+reason)),
		With(h.Command, func(command string) Node { return Group{Text(" "), copyable(command)} }))
}
