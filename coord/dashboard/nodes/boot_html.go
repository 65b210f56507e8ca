package nodes

import (
	"cmp"

	. "writ/coord/dashboard/markup"
	"writ/coord/dashboard/page"
	. "writ/coord/dashboard/widget"
)

// bootPage is the page of machines that boot over the network.
type bootPage struct{ nodeFilter }

func (b bootPage) HTML(p *page.Page) Node {
	return Section(ID("list"), Class("panel"), Aria("label", "Machines that start"), p.Live(),
		FilterForm("/boot", H1(Text("Boot")), b.choose(), Apply(false, "")),
		P(Class("sub"),
			Text("Boot servers report these machines, which boot over the network. The reports are unverified: treat them as a hint.")),
		Ul(p.Part("servers"), Class("boot-servers"), Aria("label", "Boot servers")),
		Table(Class("list boots"), Heads("State", "Machine", "Node", "Datacenter", "Step", "Settings", "#Since"),
			TBody(p.Part("boots"))),
		P(Class("empty"), Text("No machine has contacted a boot server that reports here. "),
			Code(Text("writ boot serve --report")), Text(" starts one.")),
		Div(p.Part("total")))
}

func (l bootsLeft) HTML() Node {
	return P(page.Key(l), Class("sub"), If(l.N > 0, Group{
		Text(Plural(l.N, "more machine is", "more machines are") + " not shown. "), Code(Text("writ boot list --dc NAME")),
		Text(" has a longer list."),
	}))
}

func (s bootServer) HTML() Node {
	if s.Why != "" {
		return Li(page.Key(s), StateTag("away"), Text(" "+s.DatacenterName+": "+s.Why))
	}
	health, image := "ready", ""
	if s.Away {
		health = "silent"
	}
	if s.Digest() != "" {
		image = ", image " + s.Digest() + "…"
	}
	return Li(page.Key(s), StateTag(health), Text(" "), B(Text(cmp.Or(s.Name, s.Token))), Text(" in "+s.DatacenterName),
		Sub(Plural(s.Machines, "machine", "machines")+", token "+s.Token+image),
		When(s.Away, func() Node {
			return Group{
				Text(" "), Span(Class("why"), Text("Its last report was "), Age(s.Heard), Text("; its machines are shown as of that time.")),
			}
		}),
		With(s.Trouble,
			func(trouble string) Node {
				return Group{Text(" "), Why(trouble + "; the boot server keeps the previous settings")}
			}))
}

func (r bootRow) HTML() Node {
	return Tr(page.Key(r), Data("state", r.State),
		Cell("st", "", StateTag(r.State)),
		Cell("sc", "", B(Text(r.Mac)), Sub(r.Facts()), Span(Class(r.Tone()), Text(r.Advice))),
		Cell("no", "node", r.node()),
		Cell("dc", "datacenter", Text(r.DatacenterName)),
		Cell("tr", "step", OrNone(r.Step)),
		Cell("se", "settings", OrNone(r.Assignment), With(r.Assigned, func(settings string) Node {
			return Group{Text(" "), Code(Class("sub"), Text(settings))}
		})),
		Cell("ag n", "since", AgeOr(r.Since, None())))
}

// node renders the node that the machine claims to be.
func (r bootRow) node() Node {
	if r.Page == "" {
		return OrNone(r.Node)
	}
	return Group{A(Href(r.Page), Opens(), Text(r.Node)), Sub(r.Mismatch)}
}
