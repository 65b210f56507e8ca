package resources

import (
	"writ"
	. "writ/coord/dashboard/markup"
	"writ/coord/dashboard/page"
	. "writ/coord/dashboard/widget"
)

func (u usagePage) HTML(*page.Page) Node {
	return Section(ID("list"), Class("panel"), Aria("label", "Usage"),
		FilterForm("/usage",
			H1(Text("Usage")),
			Choice("Month", monthParam, Each(u.Months, u.month)),
			u.Choose(),
			Apply(false, "")),
		P(Class("sub"),
			Text("Reserved resources and traffic, by the hour in UTC. Nodes report every five minutes. Simulated resources have no usage.")),
		u.table(),
		With(u.Command, func(command string) Node { return P(Class("links"), Copyable(command)) }),
		u.Pager.HTML())
}

func (u usagePage) month(month string) Node {
	text := month
	if month == allMonths {
		text = "all months"
	}
	return OptionOf(month, text, month == u.Month)
}

// table lists the usage of all projects, or of the resources of the chosen project.
func (u usagePage) table() Node {
	switch {
	case len(u.Sums) > 0:
		return Table(Class("list usage"), Heads(append([]string{"Project", "#Resources"}, usedColumns...)...),
			TBody(Each(u.Sums, usageOfProject.HTML)))
	case len(u.Resources) > 0:
		return Group{
			When(u.Sum != nil, func() Node {
				return P(Class("sub"), B(Text(u.Sum.Name)),
					Text(": "+Plural(u.Sum.ProjectUsage.Resources, "resource", "resources")))
			}),
			Table(Class("list usage"), Heads(append([]string{"Resource", "Datacenter"}, usedColumns...)...), TBody(
				When(u.Sum != nil, func() Node {
					return Tr(Class("sum"), Cell("sc", "", B(Text("All of them"))), Td(), usedCells(u.Sum.Used))
				}),
				Each(u.Resources, usageOfResource.HTML))),
		}
	}
	return P(Class("sub"), Text("No usage in this time."))
}

func (u usageOfProject) HTML() Node {
	return Tr(Data("project", string(u.Project)),
		Cell("sc", "", A(Href(u.List), Opens(), Text(u.Name))),
		Cell("n", "resources", A(Class("soft"), Href(u.List), Number(u.ProjectUsage.Resources))),
		usedCells(u.Used))
}

func (u usageOfResource) HTML() Node {
	return Tr(Mark("resource"),
		Cell("sc", "", B(Text(u.Name)), Sub(string(u.ResourceID.Kind))),
		Cell("", "datacenter", Text(u.DatacenterName)),
		usedCells(u.Used))
}

var usedColumns = []string{"#CPU hours", "#Memory GiB hours", "#Disk GiB hours", "#Received GiB", "#Sent GiB"}

func usedCells(u writ.Used) Node {
	numbers := used(u)
	cells := make(Group, len(numbers))
	for i, label := range []string{"CPU hours", "memory GiB hours", "disk GiB hours", "received GiB", "sent GiB"} {
		cells[i] = Cell("n", label, Text(numbers[i]))
	}
	return cells
}
