package coord

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"writ/coord/api"
	"writ/identity"
	"writ/identity/expiring"
	"writ/internal/metrics"
	"writ/ledger"
)

// monitor holds the counters of a coordinator and the registry of all its metrics.
type monitor struct {
	registry *prometheus.Registry
	refusals *prometheus.CounterVec
	events   prometheus.Counter
	webhooks *prometheus.CounterVec
}

func newMonitor(c *Coordinator) *monitor {
	m := &monitor{
		registry: prometheus.NewRegistry(),
		refusals: metrics.Counts("writ_refusals_total", "Refused signed texts and requests by kind and error code.",
			"what", "code"),
		events: metrics.Events("writ_events_total", "Events that datacenters sent."),
		webhooks: metrics.Counts("writ_webhook_requests_total",
			"Requests to webhooks by outcome: taken, again, given_up.", "webhook", "outcome"),
	}
	m.registry.MustRegister(m.refusals, m.events, m.webhooks)
	for _, part := range parts(c) {
		m.registry.MustRegister(part)
	}
	return m
}

// readWithin limits how long a scrape waits for the ledger and for datacenters. Late metrics are omitted, so that all
// other metrics remain available while the ledger is down.
const readWithin = 5 * time.Second

// parts returns the metrics that each scrape reads again. The registry reads the parts concurrently, because the ledger
// or a datacenter may not answer.
func parts(c *Coordinator) []metrics.Part {
	all := append(slices.Clone(c.Metrics), metrics.Process(c.Version, "coordinator"))
	for _, send := range []func(context.Context, *Coordinator, *metrics.Scrape){
		sendOwn, sendRuns, sendDatacenters, sendHolds, sendBoots, sendQueues,
	} {
		all = append(all, func(to *metrics.Scrape) {
			ctx, cancel := context.WithTimeout(context.Background(), readWithin)
			defer cancel()
			send(ctx, c, to)
		})
	}
	return all
}

// sendOwn sends the metrics of the coordinator itself, of the roster and of certificates.
func sendOwn(_ context.Context, c *Coordinator, to *metrics.Scrape) {
	to.Value("writ_event_streams", "Open event streams.", float64(c.streams.Streams.Taken()))
	up := to.Gauge("writ_ledger_up", "Whether the ledger can be used: 1 or 0.")
	switch c.probe.state.Load() {
	case ledgerUp:
		up(1)
	case ledgerDown:
		up(0)
	}
	certificate := to.Gauge("writ_certificate_expires_seconds",
		"Expiry of a certificate that an operator renews, in unix seconds: public is the one for browsers.", "certificate")
	for _, e := range c.expiries.ForBrowsers() {
		certificate(float64(e.At.Unix()), "public")
	}
	if roster := c.rosters.Current(); roster != nil {
		sendRoster(roster, to)
	}
}

// sendRoster sends the version of a roster and when it and its roles expire. If two roles differ only in the right to
// destroy, the earlier expiry is sent.
func sendRoster(roster *identity.Roster, to *metrics.Scrape) {
	to.Value("writ_roster_version", "Version of the newest roster.", float64(roster.Version))
	to.Value("writ_roster_expires_seconds", "When the newest roster expires, in unix seconds.",
		float64(roster.Expires.Unix()))
	to.Value("writ_roster_renew_seconds",
		"Time from which a root operator should renew the newest roster, in unix seconds.",
		float64(roster.RenewFrom().Unix()))
	role := to.Gauge("writ_role_expires_seconds", "Expiry of a role with an end, in unix seconds.",
		"principal", "role", "project")
	seen := make(map[[3]string]bool)
	for _, e := range expiring.InRoster(roster) {
		labels := [3]string{e.Principal, string(e.Role), e.Project}
		if e.Principal == "" || seen[labels] {
			continue
		}
		seen[labels] = true
		role(float64(e.At.Unix()), labels[:]...)
	}
}

// stuckAfter is the time without progress after which a run counts as stuck.
const stuckAfter = 5 * time.Minute

func sendRuns(ctx context.Context, c *Coordinator, to *metrics.Scrape) {
	runs := to.Gauge("writ_runs", "Runs in the ledger by state.", "state")
	if counts, err := c.Ledger.CountRuns(ctx, ledger.RunFilter{}); err == nil {
		total := counts.Total()
		for _, state := range ledger.States {
			runs(float64(total[state]), string(state))
		}
	}
	stuck := to.Gauge("writ_runs_stuck",
		"Open runs older than 5 minutes that made no progress since then, or repeat a call.")
	if counts, err := c.Ledger.CountRuns(ctx, ledger.RunFilter{Silent: c.Now().Add(-stuckAfter)}); err == nil {
		sum := 0
		for _, n := range counts.Total() {
			sum += n
		}
		stuck(float64(sum))
	}
}

// holdsWithin limits the wait for the holds of datacenters. Datacenters that answer later are omitted.
const holdsWithin = 2 * time.Second

// sendHolds asks the datacenters for their holds.
func sendHolds(ctx context.Context, c *Coordinator, to *metrics.Scrape) {
	holds := to.Gauge("writ_holds",
		"Parts of the work of a datacenter that are on hold: datacenter, operation, project or deployment.",
		"datacenter", "scope")
	ctx, cancel := context.WithTimeout(ctx, holdsWithin)
	defer cancel()
	all, err := c.live.Holds(ctx, "")
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
			holds(float64(n), d.Name, scope)
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

// bootsWithin limits the wait for the booting machines of datacenters.
const bootsWithin = time.Second

// sendBoots asks the datacenters for their booting machines. A datacenter without reports of boot servers has no
// sample.
func sendBoots(ctx context.Context, c *Coordinator, to *metrics.Scrape) {
	machines := to.Gauge("writ_boot_machines",
		"Machines that boot over the network, as reported by boot servers, by their last step.", "datacenter", "step")
	ctx, cancel := context.WithTimeout(ctx, bootsWithin)
	defer cancel()
	all, err := c.live.Boots(ctx, "", 1)
	if err != nil {
		return
	}
	for _, d := range all {
		for step, n := range d.Steps {
			machines(float64(n), d.Name, step)
		}
	}
}
