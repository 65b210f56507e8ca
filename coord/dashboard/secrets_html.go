package dashboard

import . "writ/coord/dashboard/markup"

func (s secretsPage) html(*page) Node {
	return Section(ID("list"), Class("panel"), Aria("label", "Secrets"),
		filterForm("/secrets",
			H1(Text("Secrets")),
			s.chooseProject(), s.chooseDatacenter(),
			apply(s.Filtered(), s.All)),
		P(Class("sub"),
			Text(plural(s.N, "version", "versions")+
				", as the datacenters answered when the page was loaded. Values are shown nowhere: only the node that needs one can read it.")),
		Each(s.Silent, func(dc silentDatacenter) Node {
			return P(Class("why"), Text(dc.Name+" did not list its secrets: "+dc.Why))
		}),
		s.table(),
		P(Class("links"), copyable("writ secret list"),
			With(s.Command, func(command string) Node { return Group{Text(" "), copyable(command)} })),
		between(s.First, s.Next, "More secrets"))
}

func (s secretsPage) table() Node {
	if len(s.Rows) == 0 {
		return P(Class("sub"), Text("No secrets."))
	}
	return Table(Class("list secrets"), heads("Secret", "#Version", "Project", "Datacenter", "Set by", "#Set"),
		TBody(Each(s.Rows, secretRow.html)))
}

func (r secretRow) html() Node {
	return Tr(
		cell("sc", "", B(Text(r.Name))),
		cell("n", "version", number(r.Version), If(!r.Removed.IsZero(), subs(Text("removed "), age(r.Removed)))),
		cell("", "project", Text(r.ProjectName)),
		cell("", "datacenter", Text(r.DatacenterName)),
		cell("", "set by", Text(r.SetBy)),
		cell("ag n", "set", age(r.Set)))
}
