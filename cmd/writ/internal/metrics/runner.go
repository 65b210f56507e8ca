package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"writ/coord/api"
	"writ/runner"
)

// Runner collects the metrics of a runner.
type Runner struct{ Of *runner.Runner }

var (
	runServing = metric("writ_runner_serving", "Whether the node takes jobs: 1, or 0 while it waits to be approved.")
	runRedis   = metric("writ_runner_redis_up", "Whether Redis answers: 1 or 0.")
	runJournal = metric("writ_runner_journal_up", "Whether the node's journal can be written: 1 or 0.")
	runBeat    = metric("writ_runner_beat_sent_seconds",
		"When Redis took a beat of the node last, in unix seconds. There is one each second.")
	runHeard = metric("writ_runner_supervisor_heard_seconds",
		"When a message of the supervisor came by Redis last, in unix seconds.")
	runAnswered = metric("writ_runner_node_api_answered_seconds",
		"When the node API of the supervisor answered last, in unix seconds. It is asked each minute.")
	runJobs = metric("writ_runner_jobs",
		"Jobs in hand: waiting have not begun, running have, and the drivers of stuck ones ignore that their time is over.",
		"state")
	runSlots  = metric("writ_runner_slots", "Jobs that run at a time.")
	runOldest = metric("writ_runner_oldest_job_seconds",
		"For how long the oldest job in hand waits that has not begun, 0 if there is none.")
	runCarried = metric("writ_runner_jobs_total",
		"Jobs that were carried out, by what came of them: succeeded, failed, cancelled.", "operation", "outcome")
	runTook     = metric("writ_runner_job_seconds", "How long jobs took.", "operation")
	runRefusals = metric("writ_runner_refusals_total", "Jobs that were answered without acting, by code.", "code")
	runRepeated = metric("writ_runner_repeated_total", "Deliveries that were answered from the journal.")
	runDrops    = metric("writ_runner_dropped_total",
		"Messages that were ignored: not authentic, not for this node, or too late.", "what", "code")
	runOpen      = metric("writ_runner_results_unconfirmed", "Results that the supervisor has not confirmed.")
	runMended    = metric("writ_runner_mended_total", "How often the node has mended a resource by itself.")
	runResources = metric("writ_runner_resources", "Resources as of the last look at each, by kind and state.", "kind",
		"state")
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
		check("serving", m.Serving, "the node takes no jobs yet: it waits to be approved, or is just beginning"),
	}
	if !m.Serving {
		return checks
	}
	return append(checks, check("redis", m.Serves.Queue, "Redis does not answer"),
		check("node", m.Serves.Fault == "", m.Serves.Fault))
}
