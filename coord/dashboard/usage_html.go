package dashboard

import (
	"writ"
	. "writ/coord/dashboard/markup"
)

func (u usagePage) html(*page) Node {
	return Section(ID("list"), Class("panel"), Aria("label", "Usage"),
		filterForm("/usage",
			H1(Text("Usage")),
			choice("Month", monthParam, Each(u.Months, u.month)),
			u.chooseProject(), u.chooseDatacenter(),
			apply(false, "")),
		P(Class("sub"),
			Text("Reserved resources and traffic, by the hour in UTC. Nodes report every five minutes. Simulated resources have no usage.")),
		u.table(),
		With(u.Command, func(command string) Node { return P(Class("links"), copyable(command)) }),
		u.Pager.html())
}

func (u usagePage) month(month string) Node {
	text := month
	if month == allMonths {
		text = "all months"
	}
	return option(month, text, month == u.Month)
}

// table lists the usage of projects, or of the resources of one.
func (u usagePage) table() Node {
	switch {
	case len(u.Sums) > 0:
		return Table(Class("list usage"), heads(append([]string{"Project", "#Resources"}, usedColumns...)...),
			TBody(Each(u.Sums, usageOfProject.html)))
	case len(u.Resources) > 0:
		return Group{
			When(u.Sum != nil, func() Node {
				return P(Class("sub"), B(Text(u.Sum.Name)),
					Text(": "+plural(u.Sum.ProjectUsage.Resources, "resource", "resources")))
			}),
			Table(Class("list usage"), heads(append([]string{"Resource", "Datacenter"}, usedColumns...)...), TBody(
				When(u.Sum != nil, func() Node {
					return Tr(Class("sum"), cell("sc", "", B(Text("All of them"))), Td(), usedCells(u.Sum.Used))
				}),
				Each(u.Resources, usageOfResource.html))),
		}
	}
	return P(Class("sub"), Text("No usage in this time."))
}

func (u usageOfProject) html() Node {
	return Tr(Data("project", string(u.Project)),
		cell("sc", "", A(Href(u.List), opens(), Text(u.Name))),
		cell("n", "resources", A(Class("soft"), Href(u.List), number(u.ProjectUsage.Resources))),
		usedCells(u.Used))
}

func (u usageOfResource) html() Node {
	return Tr(Mark("resource"),
		cell("sc", "", B(Text(u.Name)), sub(string(u.ResourceID.Kind))),
		cell("", "datacenter", Text(u.DatacenterName)),
		usedCells(u.Used))
}

var usedColumns = []string{"#CPU hours", "#Memory GiB hours", "#Disk GiB hours", "#Received GiB", "#Sent GiB"}

func usedCells(u writ.Used) Node {
	numbers := used(u)
	cells := make(Group, len(numbers))
	for i, label := range []string{"CPU hours", "memory GiB hours", "disk GiB hours", "received GiB", "sent GiB"} {
		cells[i] = cell("n", label, Text(numbers[i]))
	}
	return cells
}
