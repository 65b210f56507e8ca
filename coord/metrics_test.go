package coord

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"writ"
	"writ/coord/api"
	"writ/internal/metrics"
	"writ/internal/test/metricspage"
	"writ/supervisor/link"
)

// The page of the manual lists every metric: alert rules depend on it.
//
// Promise: Events, traces and the API: Alert rules and the Grafana dashboard use existing metrics only.
// How: The manual's page lists all metrics.
// Also: TestHealthReadinessMetricsAndSpec, TestTheManualListsEveryMetricOfEveryPart, TestManualListsMetricsOfSupervisor,
// TestManualListsMetricsOfRunner.
func TestTheManualListsEveryMetric(t *testing.T) {
	c := start(t, nil).Coordinator
	counters := func(to *metrics.Scrape) { to.Include(c.monitor.registry) }
	metricspage.Check(t, "..", "Metrics of a coordinator", append(parts(c), counters)...)
}

// False reports of a datacenter spoil only the metrics of its own nodes.
//
// Promise: Commands and hosts: A datacenter with false metrics hides no metrics of other datacenters.
// How: A duplicate metric is omitted.
func TestLyingDatacenterHidesNoMetrics(t *testing.T) {
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

// A datacenter that does not answer delays no scrape, and hides no metric of the others.
//
// Promise: Events, traces and the API: The metrics of a coordinator show waiting times per node and reserved disk; an
// unresponsive datacenter hides no other.
// How: Supervisors answer with the ages that their watch read; all datacenters are asked in parallel, within two
// seconds.
// Also: TestSupervisorMetricsMatchItsWork.
func TestMetricsReportQueuesAndReservations(t *testing.T) {
	p := start(t, nil)
	handled := func(answer link.Handler) func(s *supervisor) {
		return func(s *supervisor) { s.dialer.Handle = answer }
	}
	honest := connect(p, vienna, handled(func(_ context.Context, verb link.Verb, _ json.RawMessage) (any, error) {
		if verb != link.VerbQueues {
			return nil, writ.Errorf(writ.CodeVerbUnsupported, "no")
		}
		depth := writ.QueueDepth{Node: "n1", NodeName: "node-1", Planned: 3, Queued: 2, Running: 1}
		return []link.QueueDepth{{QueueDepth: depth, OldestPlanned: time.Hour, OldestQueued: 90 * time.Second},
			{QueueDepth: writ.QueueDepth{Node: "n0", NodeName: "node-1", Running: 4}, OldestQueued: time.Second}, {QueueDepth: writ.QueueDepth{NodeName: "(no node yet)", Planned: 7}}}, nil
	}))
	connect(p, graz, handled(func(ctx context.Context, _ link.Verb, _ json.RawMessage) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	honest.tell(writ.Event{Node: &writ.Node{ID: "n1", Name: "node-1", Admission: writ.AdmissionApproved, Health: writ.Health{Capacity: writ.Capacity{DiskGiB: 10, MemoryMiB: 4}}, Used: writ.Capacity{DiskGiB: 9, MemoryMiB: 1}, Findings: writ.Findings{Disks: []writ.Disk{{Path: "/srv", Bytes: 4096, Free: 1024}, {Path: "/srv", Bytes: 1, Free: 1}}}}})
	p.await("the node is known", func() bool {
		page, err := api.Answer[api.NodePage](p.client.ListNodes(t.Context(), &api.ListNodesParams{}))
		return err == nil && len(page.Items) == 1
	})
	status, text := p.get("/metrics")
	for _, want := range []string{
		`writ_queue_calls{datacenter="vienna",node="node-1",state="planned"} 3`, `writ_queue_calls{datacenter="vienna",node="",state="planned"} 7`,
		`writ_queue_calls{datacenter="vienna",node="node-1",state="running"} 5`,
		`writ_queue_oldest_seconds{datacenter="vienna",node="node-1",state="planned"} 3600`, `writ_queue_oldest_seconds{datacenter="vienna",node="node-1",state="queued"} 90`,
		`writ_node_capacity_bytes{datacenter="vienna",node="node-1",of="disk"} 1.073741824e+10`, `writ_node_reserved_bytes{datacenter="vienna",node="node-1",of="disk"} 9.663676416e+09`,
		`writ_node_disk_bytes{datacenter="vienna",node="node-1",path="/srv"} 4096`, `writ_node_disk_free_bytes{datacenter="vienna",node="node-1",path="/srv"} 1024`,
		`writ_node_reserved_bytes{datacenter="vienna",node="node-1",of="memory"} 1.048576e+06`, "writ_roster_version 1", "writ_roster_expires_seconds ",
	} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d, without %s:\n%.4000s", status, want, text)
		}
	}
}

// TestMetricsPassTheLintOfPrometheus reads the page like `promtool check metrics`, with names that need escapes.
func TestMetricsPassTheLintOfPrometheus(t *testing.T) {
	p := start(t, nil)
	datacenter := connect(p, vienna, nil)
	const name = "n\\ \"quoted\" {a=\"b\"} 1\n# TYPE x counter"
	datacenter.tell(writ.Event{Node: &writ.Node{ID: "n1", Name: name, Admission: writ.AdmissionApproved, Liveness: writ.LivenessReady}})
	p.await("the node is known", func() bool {
		page, err := api.Answer[api.NodePage](p.client.ListNodes(t.Context(), &api.ListNodesParams{}))
		return err == nil && len(page.Items) == 1
	})
	_, text := p.get("/metrics")
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v %v\n%s", problems, err, text)
	}
}
