package runner

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"writ"
	"writ/identity"
	"writ/internal/metrics"
	"writ/internal/tracing"
)

// Metrics sends the metrics of the runner. It reads memory only, so it never waits for a journal, a queue or a driver
// that hangs.
func (r *Runner) Metrics(to *metrics.Scrape) {
	n, c := r.current.Load(), r.counters()
	to.Flag("writ_runner_serving", "1 if the node accepts jobs, 0 while it waits for approval.", n != nil)
	to.Time("writ_runner_beat_sent_seconds",
		"Unix time of the last heartbeat that Redis accepted from the node. A node without jobs sends one every 5 s or less.", c.sent.Last())
	to.Time("writ_runner_supervisor_heard_seconds",
		"Unix time of the last message from the supervisor through Redis.", c.heard.Last())
	to.Time("writ_runner_node_api_answered_seconds",
		"Unix time of the last response of the supervisor's node API. The node calls it once a minute.", c.answered.Last())
	roster := r.Member.Roster()
	if roster == nil {
		roster = new(identity.Roster)
	}
	to.Value("writ_roster_version", "Version of the newest roster of this daemon.", float64(roster.Version))
	to.Time("writ_roster_expires_seconds", "Unix time when the newest roster of this daemon expires.", roster.Expires)
	to.Include(c.jobs, c.took, c.refusals, c.repeated, c.drops)
	if n != nil {
		n.sendMetrics(to)
	}
}

// sendMetrics sends the metrics of a node that accepts jobs.
func (n *incarnation) sendMetrics(to *metrics.Scrape) {
	to.Flag("writ_runner_redis_up", "1 if Redis responds, otherwise 0.", n.link.transit.get() == nil)
	to.Flag("writ_runner_journal_up", "1 if the node's journal is writable, otherwise 0.", n.store.get() == nil)
	to.Value("writ_runner_slots", "Maximum number of concurrent jobs.", float64(n.slots))
	jobs := to.Gauge("writ_runner_jobs",
		"Jobs on the node by state: waiting, running, or stuck if the driver ignores its deadline.", "state")
	waiting, since, running, stuck := n.desk.count()
	jobs(float64(waiting), "waiting")
	jobs(float64(running), "running")
	jobs(float64(stuck), "stuck")
	age := time.Duration(0)
	if waiting > 0 {
		age = max(n.now().Sub(since), 0)
	}
	to.Value("writ_runner_oldest_job_seconds", "Waiting time of the oldest job that has not started, or 0.", age.Seconds())
	to.Value("writ_runner_results_unconfirmed", "Results that the supervisor has not confirmed.", float64(n.outbox.size()))
	to.Counter("writ_runner_mended_total", "Number of automatic repairs of resources.")(float64(n.keeper.repairs.count()))
	resources := to.Gauge("writ_runner_resources", "Resources by kind and by the state at their last inspection.",
		"kind", "state")
	counts := make(map[[2]string]int)
	for _, s := range n.keeper.states.List() {
		counts[[2]string{string(s.Kind), s.State}]++
	}
	for labels, count := range counts {
		resources(float64(count), labels[:]...)
	}
	n.loads.sendMetrics(to)
}

// maxMeasured limits the resources with metrics of their own.
const maxMeasured = 200

// sendMetrics sends the load of the first maxMeasured resources by project, kind and name. A scrape has only resources
// that exist, so the names do not accumulate.
func (l *loads) sendMetrics(to *metrics.Scrape) {
	names := []string{"project", "kind", "name"}
	cpus := to.Gauge("writ_runner_resource_cpus", "CPUs that a resource used in the last half minute.", names...)
	memory := to.Gauge("writ_runner_resource_memory_bytes",
		"Memory of a resource, without caches of files that the kernel can drop.", names...)
	restarts := to.Gauge("writ_runner_resource_restarts",
		"Restarts of a resource by the node because its processes had ended.", names...)
	current := l.current()
	measured := slices.SortedFunc(maps.Keys(current), writ.ResourceID.Compare)
	for _, r := range measured[:min(len(measured), maxMeasured)] {
		of := []string{string(r.Project), string(r.Kind), r.Name}
		cpus(float64(current[r].MilliCPUs)/1000, of...)
		memory(float64(current[r].Memory), of...)
		restarts(float64(current[r].Restarts), of...)
	}
	to.Value("writ_runner_resources_unmeasured", "Resources without metrics of their own, because there are too many.",
		float64(max(len(measured)-maxMeasured, 0)))
}

// Ready reports whether the node accepts jobs and whether its queue responds. fault is the reason why the node refuses
// new work, or "".
func (r *Runner) Ready() (serving, queue bool, fault string) {
	n := r.current.Load()
	if n == nil {
		return false, false, ""
	}
	return true, n.link.transit.get() == nil, n.faultText(n.now())
}

// counts holds the counters of a runner. Labels are constants of this program, so their number is bounded.
type counts struct {
	jobs     *prometheus.CounterVec
	took     *prometheus.HistogramVec
	refusals *prometheus.CounterVec
	repeated prometheus.Counter
	drops    *prometheus.CounterVec

	sent     metrics.Moment // last beat
	heard    metrics.Moment // last message from the supervisor through the queue
	answered metrics.Moment // last answer of the supervisor's node API
}

func newCounts() *counts {
	return &counts{
		jobs: metrics.Counts("writ_runner_jobs_total", "Finished jobs by outcome: succeeded, failed, cancelled.",
			"operation", "outcome"),
		took: metrics.DurationsOf("writ_runner_job_seconds", "Duration of jobs.", "operation"),
		refusals: metrics.Counts("writ_runner_refusals_total", "Jobs that were refused without any action, by code.",
			"code"),
		repeated: metrics.Events("writ_runner_repeated_total", "Deliveries that were answered from the journal."),
		drops: metrics.Counts("writ_runner_dropped_total",
			"Messages that were ignored: not authentic, not for this node, or too late.", "what", "code"),
	}
}

// recordJob counts a job that was carried out.
func (c *counts) recordJob(operation string, took time.Duration, result *writ.Result) {
	outcome := "succeeded"
	switch {
	case result.Error == nil:
	case result.Error.Code == writ.CodeRunCancelled:
		outcome = "cancelled"
	default:
		outcome = "failed"
	}
	c.jobs.WithLabelValues(operation, outcome).Inc()
	c.took.WithLabelValues(operation).Observe(took.Seconds())
}

// recordRefusal counts a job that was answered with an error and without acting. It does not count an answer that
// repeats the successful result of an earlier attempt.
func (c *counts) recordRefusal(result *writ.Result) {
	if result.Error != nil {
		c.refusals.WithLabelValues(string(result.Error.Code.Info().Code)).Inc()
	}
}

// spanOf returns the span of a job: the work of its driver, by the node's clock.
func spanOf(job *writ.Job, node string, started, ended time.Time, result *writ.Result) tracing.Span {
	s := tracing.Span{
		At: tracing.OfAttempt(job.Run, job.Seq, job.Attempt).Part("job"), Name: "driver " + result.Driver,
		From: started, Until: ended,
		Labels: map[string]string{
			"run": string(job.Run), "seq": strconv.Itoa(job.Seq), "operation": job.Operation, "name": job.Name,
			"node": node, "driver": result.Driver,
			"attempt": strconv.Itoa(job.Attempt), "delivery": strconv.Itoa(job.Delivery),
			"change": string(result.Change),
		},
	}
	if result.Simulated {
		s.Labels["simulated"] = "true"
	}
	s.Fail(result.Error)
	return s
}
