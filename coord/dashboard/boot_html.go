package dashboard

import (
	"cmp"

	. "writ/coord/dashboard/markup"
)

// bootPage is the page of machines that boot over the network.
type bootPage struct{ nodeFilter }

func (b bootPage) html(p *page) Node {
	return Section(ID("list"), Class("panel"), Aria("label", "Machines that start"), p.liveUpdates(),
		filterForm("/boot", H1(Text("Boot")), b.choose(), apply(false, "")),
		P(Class("sub"),
			Text("Boot servers report these machines, which boot over the network. The reports are unverified: treat them as a hint.")),
		Ul(p.part("servers"), Class("boot-servers"), Aria("label", "Boot servers")),
		Table(Class("list boots"), heads("State", "Machine", "Node", "Datacenter", "Step", "Settings", "#Since"),
			TBody(p.part("boots"))),
		P(Class("empty"), Text("No machine has asked a boot server that reports here. "),
			Code(Text("writ boot serve --report")), Text(" starts one.")),
		Div(p.part("total")))
}

func (l bootsLeft) html() Node {
	return P(key(l), Class("sub"), If(l.N > 0, Group{
		Text(plural(l.N, "more machine is", "more machines are") + " left out: "), Code(Text("writ boot list --dc")),
		Text(" has more."),
	}))
}

func (s bootServer) html() Node {
	if s.Why != "" {
		return Li(key(s), stateTag("away"), Text(" "+s.DatacenterName+": "+s.Why))
	}
	health, image := "ready", ""
	if s.Away {
		health = "silent"
	}
	if s.Digest() != "" {
		image = ", image " + s.Digest() + "…"
	}
	return Li(key(s), stateTag(health), Text(" "), B(Text(cmp.Or(s.Name, s.Token))), Text(" in "+s.DatacenterName),
		sub(plural(s.Machines, "machine", "machines")+", token "+s.Token+image),
		When(s.Away, func() Node {
			return Group{
				Text(" "), Span(Class("why"), Text("It reported last "), age(s.Heard), Text(": its rows are from then.")),
			}
		}),
		With(s.Trouble,
			func(trouble string) Node { return Group{Text(" "), why(trouble + "; its previous report is in force")} }))
}

func (r bootRow) html() Node {
	since := none()
	if !r.Since.IsZero() {
		since = age(r.Since)
	}
	return Tr(key(r), Data("state", r.State),
		cell("st", "", stateTag(r.State)),
		cell("sc", "", B(Text(r.Mac)), sub(r.Facts()), Span(Class(r.Tone()), Text(r.Advice))),
		cell("no", "node", r.node()),
		cell("dc", "datacenter", Text(r.DatacenterName)),
		cell("tr", "step", orNone(r.Step)),
		cell("se", "settings", orNone(r.Assignment), With(r.Assigned, func(settings string) Node {
			return Group{Text(" "), Code(Class("sub"), Text(settings))}
		})),
		cell("ag n", "since", since))
}

// node renders the node that the machine claims to be.
func (r bootRow) node() Node {
	if r.Page == "" {
		return orNone(r.Node)
	}
	return Group{A(Href(r.Page), opens(), Text(r.Node)), sub(r.Mismatch)}
}
