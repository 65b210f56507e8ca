package coord

import (
	"net/http"
	"strings"
	"testing"

	"writ"
	"writ/coord/api"
	"writ/internal/testenv"
)

// What is in the page of the manual is what there is to watch: rules of alerts are written by it.
func TestTheManualListsEveryMetric(t *testing.T) {
	testenv.CheckMetrics(t, "..", "Metrics of a coordinator", newMetrics(&Coordinator{}).registry.Describe)
}

// A datacenter that lies spoils only what is known of its own nodes.
func TestADatacenterThatLiesHidesNoMetrics(t *testing.T) {
	p := start(t, nil)
	liar, honest := connect(p, vienna, nil), connect(p, graz, nil)
	honest.tell(writ.Event{Node: &writ.Node{ID: "n1", Name: "honest", Admission: writ.AdmissionApproved, Liveness: writ.LivenessReady}})
	twin := func(id writ.NodeID) writ.Event {
		return writ.Event{Node: &writ.Node{ID: id, Name: "twin", Admission: writ.AdmissionApproved}}
	}
	liar.tell(twin("n2"), twin("n3"))
	p.await("all nodes are known", func() bool {
		page, err := api.Answer[api.NodePage](p.client.ListNodes(t.Context(), &api.ListNodesParams{}))
		return err == nil && len(page.Items) == 3
	})
	status, text := p.get("/metrics")
	for _, want := range []string{`writ_node_ready{datacenter="graz",node="honest"} 1`, "writ_roster_expires_seconds ", `writ_datacenter_connected{datacenter="vienna"`} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d, without %s:\n%.500s", status, want, text)
		}
	}
}
