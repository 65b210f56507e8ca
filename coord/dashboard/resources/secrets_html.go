package resources

import (
	. "writ/coord/dashboard/markup"
	"writ/coord/dashboard/page"
	. "writ/coord/dashboard/widget"
)

func (s secretsPage) HTML(*page.Page) Node {
	return Section(ID("list"), Class("panel"), Aria("label", "Secrets"),
		FilterForm("/secrets",
			H1(Text("Secrets")),
			s.Choose(),
			Apply(s.Filtered(), s.All)),
		P(Class("sub"),
			Text(Plural(s.N, "version", "versions")+
				", as the datacenters answered when the page was loaded. Values are shown nowhere: only the node that needs one can read it.")),
		Each(s.Silent, func(dc silentDatacenter) Node {
			return P(Class("why"), Text(dc.Name+" did not list its secrets: "+dc.Why))
		}),
		s.table(),
		P(Class("links"), Copyable("writ secret list"),
			With(s.Command, func(command string) Node { return Group{Text(" "), Copyable(command)} })),
		PageLinks(s.First, s.Next, "More secrets"))
}

func (s secretsPage) table() Node {
	if len(s.Rows) == 0 {
		return P(Class("sub"), Text("No secrets."))
	}
	return Table(Class("list secrets"), Heads("Secret", "#Version", "Project", "Datacenter", "Set by", "#Set"),
		TBody(Each(s.Rows, secretRow.HTML)))
}

func (r secretRow) HTML() Node {
	return Tr(
		Cell("sc", "", B(Text(r.Name))),
		Cell("n", "version", Number(r.Version), If(!r.Removed.IsZero(), Subs(Text("removed "), Age(r.Removed)))),
		Cell("", "project", Text(r.ProjectName)),
		Cell("", "datacenter", Text(r.DatacenterName)),
		Cell("", "set by", Text(r.SetBy)),
		Cell("ag n", "set", Age(r.Set)))
}
