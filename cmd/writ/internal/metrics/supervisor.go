package metrics

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"writ/coord/api"
	"writ/supervisor"
)

// Supervisor collects the metrics of a supervisor.
type Supervisor struct {
	Datacenter string // datacenter name
	// Now returns the serving supervisor, or nil while this process is on standby.
	Now func() *supervisor.Supervisor
	// Certificates holds the certificates of the datacenter.
	Certificates supervisor.Certificates
}

var (
	supServing = metric("writ_supervisor_serving",
		"Whether this supervisor serves its datacenter: 1, or 0 while it stands by.", "datacenter")
	supEpoch = metric("writ_supervisor_epoch",
		"Number of the term of this supervisor. Nodes refuse jobs of an earlier one.")
	supLooked = metric("writ_supervisor_last_look_seconds",
		"When the supervisor has looked last at all that is open, in unix seconds. It does so each second.")
	supJournal = metric("writ_supervisor_journal_up", "Whether the journal can be written: 1 or 0.")
	supRedis   = metric("writ_supervisor_redis_up", "Whether Redis answers and takes what is written: 1 or 0.")
	supWrites  = metric("writ_supervisor_journal_write_seconds",
		"How long writes of the journal took until they were on disk, with the wait for others.")
	supFailed  = metric("writ_supervisor_journal_failures_total", "Writes that the journal did not take.")
	supRenewed = metric("writ_supervisor_lease_renewed_seconds",
		"When the lease of a journal on PostgreSQL was renewed last, in unix seconds.")
	supRuns  = metric("writ_supervisor_runs_open", "Runs that are open.")
	supSteps = metric("writ_supervisor_steps",
		"Runs that take a step, wait for one, or could not write their last one: under_way, waiting, stalled.", "state")
	supCalls = metric("writ_supervisor_calls",
		"Open calls: planned are not sent yet, queued are sent, running have begun.", "state")
	supOldest = metric("writ_supervisor_oldest_call_seconds",
		"For how long the oldest call is so, 0 if there is none: waiting has no node yet, planned has one, queued is sent, running has begun.", "state")
	supPasses = metric("writ_supervisor_pass_seconds",
		"How long evaluations of scripts took, with the wait for a turn.")
	supCrashes = metric("writ_supervisor_pass_failures_total", "Evaluations of scripts that gave no answer, by code.",
		"code")
	supNodes = metric("writ_supervisor_nodes",
		"Nodes by how they are heard: ready, silent, lost. Those that wait to be approved are pending.", "state")
	supHolds     = metric("writ_supervisor_holds", "Parts of the work that are on hold.")
	supConnected = metric("writ_supervisor_coordinator_connected", "Whether there is a link to the coordinator: 1 or 0.",
		"coordinator")
	supBehind = metric("writ_supervisor_events_unconfirmed", "Events that the coordinator has not confirmed.",
		"coordinator")
	supRefusals = metric("writ_supervisor_refusals_total", "Signed texts that were not taken, by what they were and why.",
		"what", "code")
	supComplains = metric("writ_supervisor_complaints_total",
		"What went wrong, mostly with a node, by the line of the log and the code of a refusal.", "what", "code")
	rosterNumber = metric("writ_roster_version", "Version of the newest roster that this part has.")
	rosterEnds   = metric("writ_roster_expires_seconds",
		"When the newest roster that this part has expires, in unix seconds.")
	certEnds = metric("writ_certificate_expires_seconds",
		"When a certificate expires, in unix seconds: supervisor and redis are renewed by themselves, 30 days before.",
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
		check("serving", serving != nil, "this supervisor does not serve its datacenter; it stands by, or is just beginning"),
	}
	if serving == nil {
		return checks
	}
	m := serving.Metrics()
	return append(checks, check("journal", m.Journal, m.JournalFault),
		check("redis", m.Queue, "Redis does not answer, or rejects writes"))
}
