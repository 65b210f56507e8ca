package runs

import (
	"cmp"
	"fmt"

	"writ"
	. "writ/coord/dashboard/markup"
	"writ/coord/dashboard/page"
	"writ/coord/dashboard/snapshot"
	. "writ/coord/dashboard/widget"
	"writ/ledger"
)

func (o overview) HTML(p *page.Page) Node {
	return Group{
		H1(Class("hidden"), Text("Runs")),
		Section(p.Part("attention"), Aria("label", "Needs attention")),
		Nav(p.Part("counts"), Class("counts"), Aria("label", "Runs by state")),
		snapshot.HoldsSection(p),
		When(p.Everything(), func() Node { return o.depths(p) }),
		Section(ID("list"), Class("panel"), Aria("label", "Runs"), p.Live(),
			FilterForm("/", Role("search"), HX("select-oob", "#counts"),
				H2(Text(o.heading())),
				HiddenFields(o.Kept...), HiddenFields(Named{Name: "state", Text: o.State}),
				o.Choose(),
				SearchField("Search", "signer", cmp.Or(o.Filter.Signer, o.Filter.Text), "signer, script, run id, or a text"),
				Apply(o.Filtered(), o.All)),
			Button(Type("button"), Class("fresh"), ID("fresh"), Hidden(), Text("new runs")),
			Table(Class("list runs"), Heads("State", "Script", "Project", "Signer", "Datacenter", "Calls", "#Took", "#Age"),
				TBody(p.Part("runs"), Mark("hold"))),
			P(Class("empty"), o.empty()),
			Div(p.Part("pager")),
			With(limitsOf(o.Filter), func(text string) Node { return P(Class("sub"), Text(text)) }),
			With(o.WithLogs, func(address string) Node {
				return P(Class("sub"), Text("Runs that only read logs are omitted. "), A(Href(address), Text("Show them")))
			}),
			page.CommandList(o.Commands)),
	}
}

// limitsOf describes the limits of the list and of the numbers of runs, or returns "".
func limitsOf(f ledger.RunFilter) (text string) {
	if isSearch(f) {
		text = fmt.Sprintf("A page searches %d runs. ", ledger.MaxExamined)
	}
	switch {
	case byOutcome(f):
		text += fmt.Sprintf("The numbers are of the newest %d runs.", ledger.MaxExamined)
	case f.Script != "" || f.Deployment != "" || !f.Since.IsZero():
		text += fmt.Sprintf("The numbers are of the newest %d ended runs, and of all open ones.", ledger.MaxExamined)
	}
	return text
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
		none := "No run matches. "
		if isSearch(o.Filter) {
			none = "None of these runs matches. "
		}
		return Group{Text(none), A(Href(o.All), Text("Show all"))}
	}
	return Group{Text("No run yet. "), If(o.Submits, Group{Text("Submit a script: "), Code(Text("writ submit FILE"))})}
}

// depths shows the depths of the queues, in total and by node.
func (o overview) depths(p *page.Page) Node {
	return Section(Class("split"), Aria("label", "Queue depth"),
		Div(Class("panel"),
			Div(p.Part("depth")),
			Div(p.Part("boot")),
			Div(ID("chart"), Class("chart"), Role("img"),
				Aria("label", "Open calls over the last five minutes; the table of queues has the numbers"),
				Data("history", o.History))),
		Div(Class("panel scroll"), TabIndex("0"), Role("region"), Aria("label", "Queue depth per node"),
			Table(Class("plain"),
				Caption(Text("Queue depth per node "), A(Class("sub"), Href("/queues"), Text("and what helps"))),
				Heads("Node", "#Running", "#Queued", "#Planned"),
				TBody(p.Part("queues"))),
			page.NoNode()))
}

func (r runRow) HTML() Node {
	return Tr(page.Key(r), Data("state", string(r.State)),
		Cell("st", "", StateTag(r.State)),
		Cell("sc", "", A(Href(page.RunPage(r.ID)), Opens(), Text(r.Script)), Sub(r.Deployment), r.failure()),
		Cell("pr", "project", A(Class("soft"), Href(r.OfProject), page.ProjectText(r.ProjectName, r.Project))),
		Cell("si", "signer", A(Class("soft"), Href(r.OfSigner), Text(r.Signer))),
		Cell("dc", "datacenter", Text(r.DatacenterName)),
		Cell("ca", "calls", r.Calls.HTML(), r.Unheard.HTML()),
		Cell("tk n", "took", TookOr(r.Took(), r.State == ledger.State(writ.RunRunning), r.Accepted)),
		Cell("ag n", "submitted", Age(r.Created)))
}

func (r runRow) failure() Node {
	if r.Failure == nil {
		return nil
	}
	return Span(Class("why"), Code(Text(r.Failure.Code)), Text(" "+r.Failure.Message))
}
