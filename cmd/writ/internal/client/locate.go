package client

import (
	"context"
	"slices"
	"strings"

	"writ"
	"writ/coord/api"
	"writ/identity"
)

// locate adds the datacenters of a node to the error for a missing --dc. The coordinator only suggests them: a
// statement is signed for the datacenter that the user names.
func (c Nodes) locate(ctx context.Context, roster *identity.Roster, name NodeName, missing error) error {
	e := writ.AsError(missing)
	if e == nil || name.Datacenter != "" || len(roster.Datacenters) < 2 {
		return missing
	}
	nodes, err := c.List(ctx, api.ListNodesParams{})
	if err != nil {
		return missing
	}
	if in := datacentersOf(name.Node, nodes, roster); len(in) > 0 {
		return e.WithHint("the coordinator lists %s in %s: add --dc %s", name.Node, strings.Join(in, " and "), in[0])
	}
	return missing
}

// datacentersOf returns the sorted names of the datacenters with a node of this name or id.
func datacentersOf(node string, nodes []writ.Node, roster *identity.Roster) (names []string) {
	for _, n := range nodes {
		if n.Name != node && string(n.ID) != node {
			continue
		}
		if d := roster.Datacenter(n.Datacenter); d != nil {
			names = append(names, d.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
