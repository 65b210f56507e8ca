package metrics

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"writ/coord/api"
	"writ/supervisor"
	"writ/supervisor/decision"
)

// Supervisor collects the metrics of a supervisor.
type Supervisor struct {
	Datacenter string // datacenter name
	// Now returns the serving supervisor, or nil while this process is on standby.
	Now func() *supervisor.Supervisor
	// Certificates holds the certificates of the datacenter.
	Certificates decision.CertificateIssuer
}

var (
	supServing = metric("writ_supervisor_serving",
		"1 if this supervisor serves its datacenter, 0 while it is on standby.", "datacenter")
	supEpoch = metric("writ_supervisor_epoch",
		"Epoch of this supervisor. Nodes refuse jobs of earlier epochs.")
	supLooked = metric("writ_supervisor_last_look_seconds",
		"Unix time of the last scan of all open work. The supervisor scans once a second.")
	supJournal = metric("writ_supervisor_journal_up", "1 if the journal is writable, otherwise 0.")
	supRedis   = metric("writ_supervisor_redis_up", "1 if Redis responds and accepts writes, otherwise 0.")
	supWrites  = metric("writ_supervisor_journal_write_seconds",
		"Duration of journal writes until they are on disk, including the wait for other writes.")
	supFailed  = metric("writ_supervisor_journal_failures_total", "Failed writes to the journal.")
	supRenewed = metric("writ_supervisor_lease_renewed_seconds",
		"Unix time of the last renewal of the lease of a journal on PostgreSQL.")
	supRuns  = metric("writ_supervisor_runs_open", "Open runs.")
	supSteps = metric("writ_supervisor_steps",
		"Runs by state of their step: under_way, waiting for a step, or stalled if the last write failed.", "state")
	supCalls = metric("writ_supervisor_calls",
		"Open calls by state: planned (not sent), queued (sent), running (started).", "state")
	supOldest = metric("writ_supervisor_oldest_call_seconds",
		"Age of the oldest call by state, or 0: waiting (no node), planned (has a node), queued (sent), running (started).",
		"state")
	supPasses = metric("writ_supervisor_pass_seconds",
		"Duration of script evaluations, including the wait for a free evaluator.")
	supCrashes = metric("writ_supervisor_pass_failures_total", "Script evaluations without a result, by code.",
		"code")
	supNodes = metric("writ_supervisor_nodes",
		"Nodes by state: ready, silent, lost, or pending while they wait for approval.", "state")
	supHolds     = metric("writ_supervisor_holds", "Active holds.")
	supConnected = metric("writ_supervisor_coordinator_connected", "1 if the coordinator is connected, otherwise 0.",
		"coordinator")
	supBehind = metric("writ_supervisor_events_unconfirmed", "Events that the coordinator has not confirmed.",
		"coordinator")
	supRefusals = metric("writ_supervisor_refusals_total", "Rejected signed texts by kind and code.",
		"what", "code")
	supComplains = metric("writ_supervisor_complaints_total",
		"Problems, mostly of nodes, by log message and refusal code.", "what", "code")
	rosterNumber = metric("writ_roster_version", "Version of the newest roster of this daemon.")
	rosterEnds   = metric("writ_roster_expires_seconds",
		"Unix time when the newest roster of this daemon expires.")
	certEnds = metric("writ_certificate_expires_seconds",
		"Unix time when a certificate expires. The supervisor and redis certificates are renewed automatically 30 days before.",
		"certificate")
)

// Describe implements prometheus.Collector.
func (s *Supervisor) Describe(ch chan<- *prometheus.Desc) {
	describe(ch, supServing, supEpoch, supLooked, supJournal, supRedis, supWrites, supFailed, supRenewed, supRuns,
		supSteps, supCalls, supOldest, supPasses,
		supCrashes, supNodes, supHolds, supConnected, supBehind, supRefusals, supComplains, rosterNumber, rosterEnds,
		certEnds)
}

// Collect implements prometheus.Collector. A supervisor on standby sends only writ_supervisor_serving.
func (s *Supervisor) Collect(ch chan<- prometheus.Metric) {
	g, serving := gather(ch), s.Now()
	g.yes(supServing, serving != nil, s.Datacenter)
	if serving == nil {
		return
	}
	m := serving.Metrics()
	g.gauge(supEpoch, float64(m.Epoch))
	g.yes(supJournal, m.Journal)
	g.yes(supRedis, m.Queue)
	g.durations(supWrites, m.Writes)
	g.counter(supFailed, m.Failed)
	g.at(supRenewed, m.Renewed)
	g.work(&m)
	for state, n := range m.Nodes {
		g.gauge(supNodes, float64(n), state)
	}
	for url, link := range m.Links {
		g.yes(supConnected, link.Connected, url)
		if !m.Looked.IsZero() {
			g.gauge(supBehind, float64(link.Unconfirmed), url)
		}
	}
	for refusal, n := range m.Refusals {
		g.counter(supRefusals, n, refusal.What, string(refusal.Code))
	}
	for complaint, n := range m.Complaints {
		g.counter(supComplains, n, complaint.What, string(complaint.Code))
	}
	g.gauge(rosterNumber, float64(m.Roster))
	g.at(rosterEnds, m.Expires)
	certificates, err := s.Certificates.List()
	if err != nil {
		return // each use of a certificate logs this error
	}
	for _, c := range certificates {
		g.at(certEnds, c.Until, c.Of)
	}
}

// work sends the metrics of runs, calls and holds.
func (g gather) work(m *supervisor.Metrics) {
	g.gauge(supRuns, float64(m.Runs))
	for state, n := range m.Steps {
		g.gauge(supSteps, float64(n), state)
	}
	g.durations(supPasses, m.Passes)
	for code, n := range m.Crashes {
		g.counter(supCrashes, n, string(code))
	}
	g.gauge(supHolds, float64(m.Holds))
	if m.Looked.IsZero() {
		return // no scan has completed yet
	}
	g.at(supLooked, m.Looked)
	for state, n := range m.Calls {
		g.gauge(supCalls, float64(n), string(state))
	}
	g.gauge(supOldest, m.Waiting.Seconds(), "waiting")
	for _, state := range slices.Sorted(maps.Keys(m.Oldest)) {
		g.gauge(supOldest, m.Oldest[state].Seconds(), string(state))
	}
}

// Checks returns the readiness checks of the supervisor.
func (s *Supervisor) Checks() []api.Check {
	serving := s.Now()
	checks := []api.Check{
		check("serving", serving != nil, "this supervisor does not serve its datacenter: it is on standby or is starting"),
	}
	if serving == nil {
		return checks
	}
	m := serving.Metrics()
	return append(checks, check("journal", m.Journal, m.JournalFault),
		check("redis", m.Queue, "Redis does not answer, or rejects writes"))
}
