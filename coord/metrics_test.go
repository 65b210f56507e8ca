package coord

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"writ"
	"writ/coord/api"
)

// What is in the page of the manual is what there is to watch: rules of alerts are written by it.
func TestTheManualListsEveryMetric(t *testing.T) {
	text, err := os.ReadFile("../docs/manual/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed, there []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(writ_[a-z_]+)`").FindAllStringSubmatch(string(text), -1) {
		listed = append(listed, row[1])
	}
	all := make(chan *prometheus.Desc, 1000)
	newMetrics(&Coordinator{}).registry.Describe(all)
	close(all)
	for d := range all {
		if name := regexp.MustCompile(`fqName: "(writ_[a-z_]+)"`).FindStringSubmatch(d.String()); name != nil {
			there = append(there, name[1])
		}
	}
	slices.Sort(listed)
	slices.Sort(there)
	if !slices.Equal(listed, there) {
		t.Errorf("the page has %q, the coordinator %q", listed, there)
	}
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
