package supervisor

import (
	"github.com/prometheus/client_golang/prometheus"

	"writ"
	"writ/internal/metrics"
)

// Metrics returns the metrics of a datacenter's supervisor. current returns the serving supervisor, nil while this
// process is on standby. A scrape reads memory only, so it never waits for a journal or queue that hangs.
func Metrics(datacenter string, current func() *Supervisor) metrics.Part {
	return func(to *metrics.Scrape) {
		s := current()
		to.Gauge("writ_supervisor_serving", "1 if this supervisor serves its datacenter, 0 while it is on standby.",
			"datacenter")(metrics.Bool(s != nil), datacenter)
		if s == nil {
			return
		}
		to.Include(s.refused)
		s.warnings.Metrics(to)
		s.Journal.Metrics(to)
		s.programs.Metrics(to)
		sendState(s, to)
		sendWork(s, to)
	}
}

// Works returns the fault of the journal, "" if it can be written, and whether the queue answers and accepts writes.
func (s *Supervisor) Works() (journal string, queue bool) { return s.watch.Faults.Works() }

// refusals counts refused signed texts: submissions and statements.
type refusals struct{ *prometheus.CounterVec }

func newRefusals() refusals {
	return refusals{
		metrics.Counts("writ_supervisor_refusals_total", "Rejected signed texts by kind and code.", "what", "code"),
	}
}

// record counts a signed text if err refuses it.
func (r refusals) record(what string, err error) {
	if err != nil {
		r.WithLabelValues(what, string(writ.CodeOf(err).Info().Code)).Inc()
	}
}

// sendState sends the metrics of a supervisor, its links and its nodes.
func sendState(s *Supervisor, to *metrics.Scrape) {
	to.Value("writ_supervisor_epoch", "Epoch of this supervisor. Nodes refuse jobs of earlier epochs.", float64(s.epoch))
	fault, queue := s.Works()
	to.Flag("writ_supervisor_journal_up", "1 if the journal is writable, otherwise 0.", fault == "")
	to.Flag("writ_supervisor_redis_up", "1 if Redis responds and accepts writes, otherwise 0.", queue)
	to.Time("writ_supervisor_lease_renewed_seconds",
		"Unix time of the last renewal of the lease of a journal on PostgreSQL.", s.lease.Renewed())
	roster := s.Roster()
	to.Value("writ_roster_version", "Version of the newest roster of this daemon.", float64(roster.Version))
	to.Time("writ_roster_expires_seconds", "Unix time when the newest roster of this daemon expires.", roster.Expires)

	connected := to.Gauge("writ_supervisor_coordinator_connected", "1 if the coordinator is connected, otherwise 0.",
		"coordinator")
	unconfirmed := to.Gauge("writ_supervisor_events_unconfirmed", "Events that the coordinator has not confirmed.",
		"coordinator")
	last := s.watch.Figures()
	for url, is := range s.links.Connected() {
		connected(metrics.Bool(is), url)
		if !last.At.IsZero() {
			unconfirmed(float64(last.Unconfirmed(url)), url)
		}
	}
	nodes := to.Gauge("writ_supervisor_nodes",
		"Nodes by state: ready, silent, lost, or pending while they wait for approval.", "state")
	for state, n := range countNodes(s.fleet.Members.List(), s.pending.List()) {
		nodes(float64(n), state)
	}
	expires := to.Gauge("writ_certificate_expires_seconds",
		"Unix time when a certificate expires. The supervisor and redis certificates are renewed automatically 30 days before.",
		"certificate")
	if s.Certificates == nil {
		return
	}
	certificates, err := s.Certificates.List()
	if err != nil {
		return // each use of a certificate logs this error
	}
	for _, c := range certificates {
		expires(metrics.Unix(c.Until), c.Of)
	}
}

// sendWork sends the metrics of runs, calls and holds. Some of them need a scan of the watch.
func sendWork(s *Supervisor, to *metrics.Scrape) {
	to.Value("writ_supervisor_runs_open", "Open runs.", float64(s.opened.Runs()))
	steps := to.Gauge("writ_supervisor_steps",
		"Runs by state of their step: under_way, waiting for a step, or stalled if the last write failed.", "state")
	underWay, waiting, stalled := s.steps.Count()
	steps(float64(underWay), "under_way")
	steps(float64(waiting), "waiting")
	steps(float64(stalled), "stalled")
	held := 0
	for _, h := range s.holds.All() {
		if h.Held {
			held++
		}
	}
	to.Value("writ_supervisor_holds", "Active holds.", float64(held))

	last, now := s.watch.Figures(), s.Now()
	to.Time("writ_supervisor_last_look_seconds",
		"Unix time of the last scan of all open work. The supervisor scans once a second.", last.At)
	calls := to.Gauge("writ_supervisor_calls",
		"Open calls by state: planned (not sent), queued (sent), running (started).", "state")
	oldest := to.Gauge("writ_supervisor_oldest_call_seconds",
		"Age of the oldest call by state, or 0: waiting (no node), planned (has a node), queued (sent), running (started).",
		"state")
	if last.At.IsZero() {
		return
	}
	for state, n := range last.Calls {
		calls(float64(n), string(state))
	}
	oldest(last.Waiting(now).Seconds(), "waiting")
	for state, age := range last.Oldest(now) {
		oldest(age.Seconds(), string(state))
	}
}

// countNodes counts approved nodes by liveness, and pending nodes.
func countNodes(members, pending []writ.Node) map[string]int {
	nodes := map[string]int{
		string(writ.LivenessReady): 0, string(writ.LivenessSilent): 0, string(writ.LivenessLost): 0,
		string(writ.AdmissionPending): len(pending),
	}
	for _, n := range members {
		switch n.Admission {
		case writ.AdmissionApproved:
			nodes[string(n.Liveness)]++
		case writ.AdmissionPending:
			nodes[string(writ.AdmissionPending)]++
		}
	}
	return nodes
}
