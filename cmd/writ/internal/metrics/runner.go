package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"writ/coord/api"
	"writ/runner"
)

// Runner collects the metrics of a runner.
type Runner struct{ Of *runner.Runner }

var (
	runServing = metric("writ_runner_serving", "1 if the node accepts jobs, 0 while it waits for approval.")
	runRedis   = metric("writ_runner_redis_up", "1 if Redis responds, otherwise 0.")
	runJournal = metric("writ_runner_journal_up", "1 if the node's journal is writable, otherwise 0.")
	runBeat    = metric("writ_runner_beat_sent_seconds",
		"Unix time of the last heartbeat that Redis accepted from the node. The node sends one per second.")
	runHeard = metric("writ_runner_supervisor_heard_seconds",
		"Unix time of the last message from the supervisor through Redis.")
	runAnswered = metric("writ_runner_node_api_answered_seconds",
		"Unix time of the last response of the supervisor's node API. The node calls it once a minute.")
	runJobs = metric("writ_runner_jobs",
		"Jobs on the node by state: waiting, running, or stuck if the driver ignores its deadline.",
		"state")
	runSlots  = metric("writ_runner_slots", "Maximum number of concurrent jobs.")
	runOldest = metric("writ_runner_oldest_job_seconds",
		"Waiting time of the oldest job that has not started, or 0.")
	runCarried = metric("writ_runner_jobs_total",
		"Finished jobs by outcome: succeeded, failed, cancelled.", "operation", "outcome")
	runTook     = metric("writ_runner_job_seconds", "Duration of jobs.", "operation")
	runRefusals = metric("writ_runner_refusals_total", "Jobs that were refused without any action, by code.", "code")
	runRepeated = metric("writ_runner_repeated_total", "Deliveries that were answered from the journal.")
	runDrops    = metric("writ_runner_dropped_total",
		"Messages that were ignored: not authentic, not for this node, or too late.", "what", "code")
	runOpen      = metric("writ_runner_results_unconfirmed", "Results that the supervisor has not confirmed.")
	runMended    = metric("writ_runner_mended_total", "Number of automatic repairs of resources.")
	runResources = metric("writ_runner_resources", "Resources by kind and by the state at their last inspection.", "kind",
		"state")
	rosterNumber = metric("writ_roster_version", "Version of the newest roster of this daemon.")
	rosterEnds   = metric("writ_roster_expires_seconds",
		"Unix time when the newest roster of this daemon expires.")
)

// Describe implements prometheus.Collector.
func (r *Runner) Describe(ch chan<- *prometheus.Desc) {
	describe(ch, runServing, runRedis, runJournal, runBeat, runHeard, runAnswered, runJobs, runSlots, runOldest,
		runCarried, runTook, runRefusals, runRepeated,
		runDrops, runOpen, runMended, runResources, rosterNumber, rosterEnds)
}

// Collect implements prometheus.Collector.
func (r *Runner) Collect(ch chan<- prometheus.Metric) {
	g, m := gather(ch), r.Of.Metrics()
	g.yes(runServing, m.Serving)
	g.at(runBeat, m.Sent)
	g.at(runHeard, m.Heard)
	g.at(runAnswered, m.Answered)
	for job, n := range m.Jobs {
		g.counter(runCarried, n, job.Operation, job.Outcome)
	}
	for operation, took := range m.Took {
		g.durations(runTook, took, operation)
	}
	for code, n := range m.Refusals {
		g.counter(runRefusals, n, string(code))
	}
	g.counter(runRepeated, m.Repeated)
	for drop, n := range m.Drops {
		g.counter(runDrops, n, drop.What, string(drop.Code))
	}
	g.gauge(rosterNumber, float64(m.Roster))
	g.at(rosterEnds, m.Expires)
	if m.Serving {
		g.serving(&m.Serves)
	}
}

// serving sends the metrics of a node that accepts jobs.
func (g gather) serving(m *runner.ServingMetrics) {
	g.yes(runRedis, m.Queue)
	g.yes(runJournal, m.Journal)
	g.gauge(runSlots, float64(m.Slots))
	g.gauge(runJobs, float64(m.Waiting), "waiting")
	g.gauge(runJobs, float64(m.Running), "running")
	g.gauge(runJobs, float64(m.Stuck), "stuck")
	g.gauge(runOldest, m.Oldest.Seconds())
	g.gauge(runOpen, float64(m.Unconfirmed))
	g.counter(runMended, m.Mended)
	for of, n := range m.Resources {
		g.gauge(runResources, float64(n), string(of.Kind), of.State)
	}
}

// Checks returns the readiness checks of the node.
func (r *Runner) Checks() []api.Check {
	m := r.Of.Metrics()
	checks := []api.Check{
		Check("serving", m.Serving, "the node does not accept jobs yet: it waits for approval or is starting"),
	}
	if !m.Serving {
		return checks
	}
	return append(checks, Check("redis", m.Serves.Queue, "Redis does not answer"),
		Check("node", m.Serves.Fault == "", m.Serves.Fault))
}
