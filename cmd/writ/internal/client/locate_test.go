package client

import (
	"slices"
	"testing"

	"writ"
	"writ/identity"
)

func TestNodeIsLocatedByNameOrID(t *testing.T) {
	roster := &identity.Roster{}
	for _, name := range []string{"west", "east"} {
		roster.Datacenters = append(roster.Datacenters, identity.Datacenter{Datacenter: writ.Datacenter{ID: writ.DatacenterID(name), Name: name}})
	}
	nodes := []writ.Node{
		{ID: "1", Name: "n1", Datacenter: "west"}, {ID: "2", Name: "n1", Datacenter: "east"}, {ID: "3", Name: "n1", Datacenter: "east"},
		{ID: "4", Name: "n2", Datacenter: "west"}, {ID: "5", Name: "n3", Datacenter: "unknown"},
	}
	for node, want := range map[string][]string{"n1": {"east", "west"}, "n2": {"west"}, "4": {"west"}, "n3": nil, "n4": nil} {
		if got := DatacentersOf(node, nodes, roster); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", node, got, want)
		}
	}
}
