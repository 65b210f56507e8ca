package supervisor

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"writ"
	"writ/internal/metrics"
)

// Metrics returns the metrics of the supervisor of a datacenter. s is nil while this process is on standby; the only
// metric says so. A scrape reads memory only, so it never waits for a journal or queue that hangs.
func Metrics(datacenter string, s *Supervisor) prometheus.Collector {
	serving := metrics.Of(s != nil, metrics.Gauge("writ_supervisor_serving",
		"1 if this supervisor serves its datacenter, 0 while it is on standby.", []string{"datacenter"},
		func(serves bool, send metrics.Send) { send(metrics.Bool(serves), datacenter) }))
	if s == nil {
		return serving
	}
	return metrics.List{
		serving, metrics.Of(s, states...), s.refused, s.Journal.Metrics(), s.programs.Metrics(), s.warnings.Metrics(),
	}
}

// Works returns the fault of the journal, "" if it can be written, and whether the queue answers and accepts writes.
func (s *Supervisor) Works() (journal string, queue bool) { return s.watch.Faults.Works() }

// states lists the metrics that follow from the state of a supervisor.
var states = []metrics.Reading[*Supervisor]{
	metrics.Number("writ_supervisor_epoch", "Epoch of this supervisor. Nodes refuse jobs of earlier epochs.",
		(*Supervisor).Epoch),
	metrics.Time("writ_supervisor_last_look_seconds",
		"Unix time of the last scan of all open work. The supervisor scans once a second.",
		func(s *Supervisor) time.Time { return s.watch.Figures().At }),
	metrics.Flag("writ_supervisor_journal_up", "1 if the journal is writable, otherwise 0.",
		func(s *Supervisor) bool {
			fault, _ := s.Works()
			return fault == ""
		}),
	metrics.Flag("writ_supervisor_redis_up", "1 if Redis responds and accepts writes, otherwise 0.",
		func(s *Supervisor) bool {
			_, works := s.Works()
			return works
		}),
	metrics.Time("writ_supervisor_lease_renewed_seconds",
		"Unix time of the last renewal of the lease of a journal on PostgreSQL.",
		func(s *Supervisor) time.Time { return s.lease.Renewed() }),
	metrics.Number("writ_supervisor_runs_open", "Open runs.", func(s *Supervisor) int { return s.opened.Runs() }),
	metrics.Gauge("writ_supervisor_steps",
		"Runs by state of their step: under_way, waiting for a step, or stalled if the last write failed.",
		[]string{"state"}, sendSteps),
	metrics.Gauge("writ_supervisor_calls",
		"Open calls by state: planned (not sent), queued (sent), running (started).", []string{"state"}, sendCalls),
	metrics.Gauge("writ_supervisor_oldest_call_seconds",
		"Age of the oldest call by state, or 0: waiting (no node), planned (has a node), queued (sent), running (started).",
		[]string{"state"}, sendOldest),
	metrics.Gauge("writ_supervisor_nodes",
		"Nodes by state: ready, silent, lost, or pending while they wait for approval.", []string{"state"}, sendNodes),
	metrics.Number("writ_supervisor_holds", "Active holds.", countHolds),
	metrics.Gauge("writ_supervisor_coordinator_connected", "1 if the coordinator is connected, otherwise 0.",
		[]string{"coordinator"}, sendLinks),
	metrics.Gauge("writ_supervisor_events_unconfirmed", "Events that the coordinator has not confirmed.",
		[]string{"coordinator"}, sendUnconfirmed),
	metrics.Number("writ_roster_version", "Version of the newest roster of this daemon.",
		func(s *Supervisor) int { return s.Roster().Version }),
	metrics.Time("writ_roster_expires_seconds", "Unix time when the newest roster of this daemon expires.",
		func(s *Supervisor) time.Time { return s.Roster().Expires }),
	metrics.Gauge("writ_certificate_expires_seconds",
		"Unix time when a certificate expires. The supervisor and redis certificates are renewed automatically 30 days before.",
		[]string{"certificate"}, sendCertificates),
}

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

func sendSteps(s *Supervisor, send metrics.Send) {
	underWay, waiting, stalled := s.steps.Count()
	send(float64(underWay), "under_way")
	send(float64(waiting), "waiting")
	send(float64(stalled), "stalled")
}

// sendCalls needs a scan of the watch. Before the first one it sends no sample.
func sendCalls(s *Supervisor, send metrics.Send) {
	for state, n := range s.watch.Figures().Calls {
		send(float64(n), string(state))
	}
}

// sendOldest needs a scan of the watch. Before the first one it sends no sample.
func sendOldest(s *Supervisor, send metrics.Send) {
	last, now := s.watch.Figures(), s.Now()
	if last.At.IsZero() {
		return
	}
	send(last.Waiting(now).Seconds(), "waiting")
	for state, age := range last.Oldest(now) {
		send(age.Seconds(), string(state))
	}
}

// sendNodes sends the number of approved nodes by liveness, and of pending nodes.
func sendNodes(s *Supervisor, send metrics.Send) {
	nodes := map[string]int{
		string(writ.LivenessReady): 0, string(writ.LivenessSilent): 0, string(writ.LivenessLost): 0,
		string(writ.AdmissionPending): len(s.pending.List()),
	}
	for _, n := range s.fleet.Members.List() {
		switch n.Admission {
		case writ.AdmissionApproved:
			nodes[string(n.Liveness)]++
		case writ.AdmissionPending:
			nodes[string(writ.AdmissionPending)]++
		}
	}
	for state, n := range nodes {
		send(float64(n), state)
	}
}

func countHolds(s *Supervisor) (n int) {
	for _, h := range s.holds.All() {
		if h.Held {
			n++
		}
	}
	return n
}

func sendLinks(s *Supervisor, send metrics.Send) {
	for url, connected := range s.links.Connected() {
		send(metrics.Bool(connected), url)
	}
}

// sendUnconfirmed needs a scan of the watch. Before the first one it sends no sample.
func sendUnconfirmed(s *Supervisor, send metrics.Send) {
	last := s.watch.Figures()
	if last.At.IsZero() {
		return
	}
	for url := range s.links.Connected() {
		send(float64(last.Unconfirmed(url)), url)
	}
}

func sendCertificates(s *Supervisor, send metrics.Send) {
	if s.Certificates == nil {
		return
	}
	all, err := s.Certificates.List()
	if err != nil {
		return // each use of a certificate logs this error
	}
	for _, c := range all {
		send(metrics.Unix(c.Until), c.Of)
	}
}
