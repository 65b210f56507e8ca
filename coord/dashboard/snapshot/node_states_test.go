package snapshot

import (
	"testing"

	"writ"
	"writ/coord/api"
)

func TestUnheardNodesBelongToOneDatacenter(t *testing.T) {
	const here, there, away = writ.DatacenterID("here"), writ.DatacenterID("there"), writ.DatacenterID("away")
	m := &Snapshot{Nodes: nodeStates{unheard: map[NodeKey]Unheard{}, unheardIn: map[writ.DatacenterID]bool{}}}
	m.Datacenters = []api.Datacenter{
		{ID: here, Health: api.DatacenterHealthHealthy}, {ID: there, Health: api.DatacenterHealthHealthy},
		{ID: away, Health: api.DatacenterHealthAway},
	}
	m.Nodes.add(writ.Node{
		ID: "n1", Datacenter: here, Admission: writ.AdmissionApproved, Liveness: writ.LivenessSilent,
	})
	for id, want := range map[writ.DatacenterID]bool{here: true, there: false, away: true} {
		if got := m.HasUnheard(id); got != want {
			t.Errorf("%s has unheard nodes: %t, want %t", id, got, want)
		}
	}
}
