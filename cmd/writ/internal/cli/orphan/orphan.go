// Package orphan lists and describes orphans: objects on nodes that belong to no resource.
package orphan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/terminal"
)

// Orphan is an object on a node that belongs to no resource.
type Orphan struct {
	Datacenter writ.DatacenterID `json:"datacenter"`
	Node       writ.NodeID       `json:"node"`
	NodeName   string            `json:"node_name"`
	writ.Orphan
}

// Page is the JSON and YAML form of a list of orphans.
type Page struct {
	Items []Orphan `json:"items"`
}

// On returns the orphans on nodes, sorted by node. The orphans of a node are in the best order for their removal.
func On(nodes map[writ.NodeID]writ.Node) []Orphan {
	all := []Orphan{}
	for _, n := range nodes {
		for _, o := range n.Orphans {
			all = append(all, Orphan{n.Datacenter, n.ID, n.Name, o})
		}
	}
	slices.SortStableFunc(all, func(a, b Orphan) int {
		return cmp.Or(cmp.Compare(a.Datacenter, b.Datacenter), cmp.Compare(a.NodeName, b.NodeName),
			cmp.Compare(a.Node, b.Node))
	})
	return all
}

// Of returns the orphans that were created for one of the resources.
func Of(all []Orphan, resources ...writ.ResourceID) []Orphan {
	return slices.DeleteFunc(slices.Clone(all), func(o Orphan) bool {
		return o.Of == "" || !slices.ContainsFunc(resources, func(r writ.ResourceID) bool { return r.HostName() == o.Of })
	})
}

// Table lists orphans. datacenters holds the names of their datacenters.
func Table(orphans []Orphan, datacenters map[writ.DatacenterID]string) terminal.View {
	return terminal.List(Page{orphans}, orphans, func(o Orphan) string { return o.Name },
		cli.Column("DATACENTER", func(o Orphan) string { return datacenters[o.Datacenter] }),
		cli.Column("NODE", func(o Orphan) string { return o.NodeName }),
		cli.Column("FOUND BY", func(o Orphan) string { return o.Module }),
		cli.Column("KIND", func(o Orphan) string { return o.Kind }),
		cli.Column("NAME", func(o Orphan) string { return o.Name }),
		cli.Wide("OF", func(o Orphan) string { return o.Of }),
		cli.Whole(cli.Column("TO REMOVE IT",
			func(o Orphan) string { return removal(o.Orphan) })), // last because it may be long
	)
}

// removal describes how to remove an orphan manually on its node.
func removal(o writ.Orphan) string {
	switch {
	case o.Remedy != "":
		return o.Remedy
	case strings.HasPrefix(o.Kind, writ.OrphanSuperseded):
		return "remove the data directory of the node's runner, when its files are no longer needed"
	case o.Kind == writ.OrphanDamaged:
		return "delete its resource and create it again, or restore the file from a backup"
	default:
		return "create its resource again on this node, with the same name, and then delete the resource"
	}
}

// Text describes an orphan in one line.
func Text(o writ.Orphan) string {
	if o.Kind == writ.OrphanDamaged {
		return fmt.Sprintf("damaged record: %s (of %s); %s", terminal.Clean(o.Name), terminal.Clean(o.Module), removal(o))
	}
	return fmt.Sprintf("orphan: the %s %s belongs to no resource (found by %s); to remove it: %s",
		terminal.Clean(o.Kind), terminal.Clean(o.Name), terminal.Clean(o.Module), terminal.Clean(removal(o)))
}

// Footer returns the text below a list of resources if there are orphans, otherwise "".
func Footer(orphans []Orphan) string {
	if len(orphans) == 0 {
		return ""
	}
	var nodes []string
	for _, o := range orphans {
		nodes = append(nodes, terminal.Clean(o.NodeName))
	}
	nodes = slices.Compact(nodes)
	where := strings.Join(nodes[:min(len(nodes), 3)], ", ")
	if more := len(nodes) - 3; more > 0 {
		where += fmt.Sprintf(" and %s more", cli.Count(more, "node"))
	}
	return fmt.Sprintf("\n%s on %s: `writ resource list --orphans` lists objects that belong to no resource, and how to remove them\n", cli.Count(len(orphans), "orphan"), where)
}
