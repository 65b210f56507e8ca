package coord

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/expiring"
	"writ/ledger"
)

// metrics holds the counters of a coordinator and their registry.
type metrics struct {
	registry *prometheus.Registry
	refusals *prometheus.CounterVec
	events   prometheus.Counter
	webhooks *prometheus.CounterVec
}

func newMetrics(c *Coordinator) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "writ_refusals_total", Help: "Refused signed texts and requests by kind and error code."},
			[]string{"what", "code"}),
		events: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "writ_events_total", Help: "Events that datacenters sent."}),
		webhooks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "writ_webhook_requests_total", Help: "Requests to webhooks by outcome: taken, again, given_up."},
			[]string{"webhook", "outcome"}),
	}
	version := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "writ_build_info", Help: "1, with the version of this program.",
		ConstLabels: prometheus.Labels{"version": c.Version, "role": "coordinator"}})
	version.Set(1)
	m.registry.MustRegister(m.refusals, m.events, m.webhooks, version,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &state{c: c},
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "writ_event_streams", Help: "Open event streams."},
			func() float64 { return float64(c.streams.Streams.Taken()) }))
	m.registry.MustRegister(c.Collectors...)
	return m
}

// state collects the metrics that are read on each scrape.
type state struct{ c *Coordinator }

var (
	runsDesc   = prometheus.NewDesc("writ_runs", "Runs in the ledger by state.", []string{"state"}, nil)
	ledgerDesc = prometheus.NewDesc("writ_ledger_up", "Whether the ledger can be used: 1 or 0.", nil, nil)
	silentDesc = prometheus.NewDesc("writ_runs_stuck",
		"Open runs older than 5 minutes that made no progress since then, or repeat a call.", nil, nil)
	connectedDesc = prometheus.NewDesc("writ_datacenter_connected", "Whether the datacenter's supervisor is connected.",
		[]string{"datacenter", "region"}, nil)
	holdsDesc = prometheus.NewDesc("writ_holds",
		"Parts of the work of a datacenter that are on hold: datacenter, operation, project or deployment.",
		[]string{"datacenter", "scope"}, nil)
	bootDesc = prometheus.NewDesc("writ_boot_machines",
		"Machines that boot over the network, as reported by boot servers, by their last step.",
		[]string{"datacenter", "step"}, nil)
	versionDesc = prometheus.NewDesc("writ_roster_version", "Version of the newest roster.", nil, nil)
	rosterDesc  = prometheus.NewDesc("writ_roster_expires_seconds", "When the newest roster expires, in unix seconds.",
		nil, nil)
	renewDesc = prometheus.NewDesc("writ_roster_renew_seconds",
		"Time from which a root operator should renew the newest roster, in unix seconds.", nil, nil)
	roleDesc = prometheus.NewDesc("writ_role_expires_seconds", "Expiry of a role with an end, in unix seconds.",
		[]string{"principal", "role", "project"}, nil)
	certDesc = prometheus.NewDesc("writ_certificate_expires_seconds",
		"Expiry of a certificate that an operator renews, in unix seconds: public is the one for browsers.",
		[]string{"certificate"}, nil)
	readWithin = 5 * time.Second
	stuckAfter = 5 * time.Minute
)

// Metrics from the last report of each node. A counter restarts at zero with the runner, daemon or port that counts.
var (
	ofNode    = []string{"datacenter", "node"}
	readyNode = prometheus.NewDesc("writ_node_ready", "Whether an approved node is heard and has no fault: 1 or 0.",
		ofNode, nil)
	connectedNode = prometheus.NewDesc("writ_node_overlay_connected",
		"Whether packets of the overlay can leave the node: 1 or 0.", ofNode, nil)
	peersDesc = prometheus.NewDesc("writ_node_overlay_peers",
		"Peers that the node's daemon of the overlay knows, alive or not.", append(ofNode, "alive"), nil)
	routesDesc = prometheus.NewDesc("writ_node_overlay_routes",
		"Routes that the node's daemon of the overlay has chosen.", ofNode, nil)
	bytesDesc = prometheus.NewDesc("writ_node_overlay_bytes_total",
		"Bytes to and from the peers that the node has now: sent or received.", append(ofNode, "direction"), nil)
	startedDesc = prometheus.NewDesc("writ_node_overlay_started_seconds",
		"When the node's daemon of the overlay was started, in unix seconds.", ofNode, nil)
	mendedDesc = prometheus.NewDesc("writ_node_mended_total",
		"Number of resources that the node has repaired since its runner started.", ofNode, nil)
	droppedDesc = prometheus.NewDesc("writ_node_packets_dropped_total",
		"Packets dropped at the ports that the node has now: denied or spoofed.", append(ofNode, "reason"), nil)
)

// Describe implements prometheus.Collector.
func (s *state) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		readyNode, connectedNode, peersDesc, routesDesc, bytesDesc, startedDesc, droppedDesc, mendedDesc,
	} {
		ch <- d
	}
	for _, d := range []*prometheus.Desc{capacityDesc, reservedDesc, diskDesc, freeDesc, queuedDesc, oldestDesc} {
		ch <- d
	}
	ch <- ledgerDesc
	ch <- versionDesc
	ch <- runsDesc
	ch <- silentDesc
	ch <- connectedDesc
	ch <- holdsDesc
	ch <- bootDesc
	ch <- rosterDesc
	ch <- renewDesc
	ch <- roleDesc
	ch <- certDesc
}

// Collect implements prometheus.Collector. It omits unavailable values, so that the others remain available while the
// ledger is down.
func (s *state) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readWithin)
	defer cancel()
	switch s.c.probe.state.Load() {
	case ledgerUp:
		ch <- prometheus.MustNewConstMetric(ledgerDesc, prometheus.GaugeValue, 1)
	case ledgerDown:
		ch <- prometheus.MustNewConstMetric(ledgerDesc, prometheus.GaugeValue, 0)
	}
	if counts, err := s.c.Ledger.CountRuns(ctx, ledger.RunFilter{}); err == nil {
		total := counts.Total()
		for _, state := range ledger.States {
			ch <- prometheus.MustNewConstMetric(runsDesc, prometheus.GaugeValue, float64(total[state]), string(state))
		}
	}
	if counts, err := s.c.Ledger.CountRuns(ctx, ledger.RunFilter{Silent: s.c.Now().Add(-stuckAfter)}); err == nil {
		stuck := 0
		for _, n := range counts.Total() {
			stuck += n
		}
		ch <- prometheus.MustNewConstMetric(silentDesc, prometheus.GaugeValue, float64(stuck))
	}
	if all, err := s.c.Ledger.Datacenters(ctx); err == nil {
		s.collectNodes(ctx, ch, all)
		for _, d := range all {
			connected := 0.0
			if _, ok := s.c.links.Session(d.ID); ok {
				connected = 1
			}
			ch <- prometheus.MustNewConstMetric(connectedDesc, prometheus.GaugeValue, connected, d.Name, d.Region)
		}
	}
	var asking sync.WaitGroup // concurrently, because a datacenter may not answer
	for _, ask := range []func(context.Context, chan<- prometheus.Metric){
		s.collectHolds, s.collectBoots, s.collectQueues,
	} {
		asking.Go(func() { ask(ctx, ch) })
	}
	defer asking.Wait()
	if roster := s.c.rosters.Current(); roster != nil {
		ch <- prometheus.MustNewConstMetric(versionDesc, prometheus.GaugeValue, float64(roster.Version))
		ch <- prometheus.MustNewConstMetric(rosterDesc, prometheus.GaugeValue, float64(roster.Expires.Unix()))
		ch <- prometheus.MustNewConstMetric(renewDesc, prometheus.GaugeValue, float64(roster.RenewFrom().Unix()))
		collectRoles(ch, roster)
	}
	for _, e := range s.c.expiries.ForBrowsers() {
		ch <- prometheus.MustNewConstMetric(certDesc, prometheus.GaugeValue, float64(e.At.Unix()), "public")
	}
}

// holdsWithin limits the wait for the holds of datacenters. Late ones are omitted.
const holdsWithin = 2 * time.Second

// collectHolds asks the datacenters for their holds.
func (s *state) collectHolds(ctx context.Context, ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(ctx, holdsWithin)
	defer cancel()
	all, err := s.c.live.Holds(ctx, "")
	if err != nil {
		return
	}
	for _, d := range all {
		if d.Error != nil {
			continue
		}
		counts := map[string]int{"datacenter": 0, "operation": 0, "project": 0, "deployment": 0}
		for _, h := range d.Holds {
			if h.Held {
				counts[scopeOf(h)]++
			}
		}
		for scope, n := range counts {
			ch <- prometheus.MustNewConstMetric(holdsDesc, prometheus.GaugeValue, float64(n), d.Name, scope)
		}
	}
}

// bootsWithin limits the wait for the booting machines of datacenters.
const bootsWithin = time.Second

// collectBoots asks the datacenters for their booting machines. A datacenter without reports of boot servers has no
// metric.
func (s *state) collectBoots(ctx context.Context, ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(ctx, bootsWithin)
	defer cancel()
	all, err := s.c.live.Boots(ctx, "", 1)
	if err != nil {
		return
	}
	for _, d := range all {
		for step, n := range d.Steps {
			ch <- prometheus.MustNewConstMetric(bootDesc, prometheus.GaugeValue, float64(n), d.Name, step)
		}
	}
}

// scopeOf classifies a hold by its most specific field.
func scopeOf(h api.Hold) string {
	switch {
	case h.Operation != "":
		return "operation"
	case h.Deployment != "":
		return "deployment"
	case h.Project != "":
		return "project"
	}
	return "datacenter"
}

// collectRoles reports the expiry of roles. If two roles differ only in the right to destroy, the earlier expiry is
// reported.
func collectRoles(ch chan<- prometheus.Metric, roster *identity.Roster) {
	seen := make(map[[3]string]bool)
	for _, e := range expiring.InRoster(roster) {
		labels := [3]string{e.Principal, string(e.Role), e.Project}
		if e.Principal == "" || seen[labels] {
			continue
		}
		seen[labels] = true
		ch <- prometheus.MustNewConstMetric(roleDesc, prometheus.GaugeValue, float64(e.At.Unix()), labels[:]...)
	}
}

// collectNodes reports the state of nodes, the number of repaired resources, and the state of their networks if known.
func (s *state) collectNodes(ctx context.Context, ch chan<- prometheus.Metric, datacenters []ledger.Datacenter) {
	names := make(map[writ.DatacenterID]string)
	for _, d := range datacenters {
		names[d.ID] = d.Name
	}
	for n, err := range ledger.All(ctx, s.c.Ledger.Nodes, ledger.NodeFilter{Admission: writ.AdmissionApproved}) {
		if err != nil {
			return
		}
		ready := 0.0
		if n.Liveness == writ.LivenessReady && n.Fault == "" {
			ready = 1
		}
		ch <- prometheus.MustNewConstMetric(readyNode, prometheus.GaugeValue, ready, names[n.Datacenter], n.Name)
		ch <- prometheus.MustNewConstMetric(mendedDesc, prometheus.CounterValue, float64(n.Mended), names[n.Datacenter],
			n.Name)
		collectRoom(ch, n, names[n.Datacenter])
		if n.Network != nil {
			collectNode(ch, n.Network, names[n.Datacenter], n.Name)
		}
	}
}

func collectNode(ch chan<- prometheus.Metric, n *writ.NodeNetwork, node ...string) {
	send := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, value, append(slices.Clone(node), labels...)...)
	}
	send(droppedDesc, prometheus.CounterValue, float64(n.Denied), "denied")
	send(droppedDesc, prometheus.CounterValue, float64(n.Spoofed), "spoofed")
	o := n.Overlay
	if o == nil {
		return
	}
	connected := 0.0
	if o.Connected {
		connected = 1
	}
	send(connectedNode, prometheus.GaugeValue, connected)
	send(peersDesc, prometheus.GaugeValue, float64(o.Alive), "yes")
	send(peersDesc, prometheus.GaugeValue, float64(o.PeerCount-o.Alive), "no")
	send(routesDesc, prometheus.GaugeValue, float64(o.Selected))
	send(bytesDesc, prometheus.CounterValue, float64(o.Sent), "sent")
	send(bytesDesc, prometheus.CounterValue, float64(o.Received), "received")
	if !o.Since.IsZero() {
		send(startedDesc, prometheus.GaugeValue, float64(o.Since.Unix()))
	}
}
