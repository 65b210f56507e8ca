package supervisor_test

import (
	"testing"
	"time"

	"writ"
	"writ/internal/metrics"
	"writ/internal/test/metricspage"
	"writ/supervisor"
	"writ/supervisor/link"
)

// threeVolumes makes three independent calls.
const threeVolumes = `
volume := import("volume")
for name in ["a", "b", "c"] { volume.create(name, {size_gib: 1}) }
`

func (s *sim) metrics() metrics.Part {
	return supervisor.Metrics("dc1", func() *supervisor.Supervisor { return s.Supervisor })
}

// Metrics of a supervisor match its work.
//
// Promise: Events, traces and the API: Supervisors and runners expose work and backlog metrics, and a hanging
// journal, disk or driver blocks no scrape.
// How: Numbers are in memory; the supervisor's watch reads the ages of waiting items every five seconds; an answer
// has eight seconds, a disk one.
// Also: TestTheNumbersOfARunnerFollowFromItsWork, TestResourcesAndRepairsOfNodeAreCounted,
// TestUnconfirmedEventsAreCounted, TestNoQuestionReadsMoreThanItsAnswer,
// TestEveryPartReportsItsWork, TestAPartThatHangsKeepsNoScrapeWaiting, TestADiskThatHangsIsLeftOut.
func TestSupervisorMetricsMatchItsWork(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		var page metricspage.Page
		scrape := func() { page = metricspage.Read(t, s.metrics()) }
		value := func(name string, labels ...string) float64 { return page.Value("writ_supervisor_"+name, labels...) }
		want := func(want float64, name string, labels ...string) {
			t.Helper()
			if got := value(name, labels...); got != want {
				t.Errorf("%s %q = %g, want %g", name, labels, got, want)
			}
		}
		between := func(age, least, most time.Duration, what string) {
			t.Helper()
			if age < least || age > most {
				t.Errorf("age of %s = %s, want %s to %s", what, age, least, most)
			}
		}
		oldest := func(state string, least, most time.Duration) {
			t.Helper()
			seconds := value("oldest_call_seconds", "state", state)
			between(time.Duration(seconds*float64(time.Second)), least, most, state)
		}
		time.Sleep(30 * time.Second)
		scrape()
		for _, state := range []string{"planned", "queued", "running"} {
			want(0, "calls", "state", state)
		}
		id := s.submit(threeVolumes)
		time.Sleep(30 * time.Second)
		scrape()
		oldest("waiting", 25*time.Second, 35*time.Second)
		want(1, "runs_open")
		want(3, "calls", "state", "planned")
		want(0, "oldest_call_seconds", "state", "planned")

		s.join("n1", slowly(10*time.Minute), func(n *testNode) { n.slots = 1 }) // gets two jobs
		s.awaitCall(id, 1, writ.CallRunning)
		time.Sleep(time.Minute)
		scrape()
		for state, least := range map[string]time.Duration{"running": 55 * time.Second, "queued": 55 * time.Second, "planned": 85 * time.Second} {
			want(1, "calls", "state", state)
			oldest(state, least, 2*time.Minute)
		}
		answer, err := s.Ask(t.Context(), link.VerbQueues, link.Queues{})
		if err != nil {
			t.Fatal(err)
		}
		queues := answer.([]link.QueueDepth)
		if len(queues) != 1 || queues[0].NodeName != "n1" || queues[0].Planned != 1 || queues[0].Queued != 1 {
			t.Errorf("queues = %+v", queues)
		}
		between(queues[0].OldestPlanned, 85*time.Second, 2*time.Minute, "the planned call in the answer to coordinators")
		between(queues[0].OldestQueued, 55*time.Second, 2*time.Minute, "the queued call in the answer to coordinators")
		want(0, "oldest_call_seconds", "state", "waiting")
		want(1, "nodes", "state", "ready")
		want(0, "nodes", "state", "pending")

		p := s.payload(webScript)
		p.Datacenter = "01920000-0000-7000-8000-00000000000f"
		if _, err := s.Submit(t.Context(), s.signPayload(p)); writ.CodeOf(err) != writ.CodeWrongDatacenter {
			t.Fatal(err)
		}
		s.nodes[0].send("nonsense", writ.Result{})
		s.wantState(id, writ.RunSucceeded)
		time.Sleep(2 * time.Second)
		scrape()
		want(0, "runs_open")
		for _, state := range []string{"planned", "queued", "running"} {
			want(0, "calls", "state", state)
		}
		want(0, "oldest_call_seconds", "state", "running")
		want(1, "refusals_total", "what", "submission", "code", string(writ.CodeWrongDatacenter))
		if n := page.Sum("writ_supervisor_refusals_total"); n != 1 {
			t.Errorf("refused %g texts, want 1", n)
		}
		want(1, "complaints_total", "what", "open message of a node; it is discarded",
			"code", string(writ.CodeSignatureMalformed))
		want(1, "journal_up")
		want(1, "redis_up")
		want(0, "journal_failures_total")
		want(-1, "pass_failures_total")
		if value("journal_write_seconds") < 1 || value("pass_seconds") < 1 {
			t.Errorf("counted %g writes and %g passes, want some", value("journal_write_seconds"), value("pass_seconds"))
		}
		want(float64(s.Epoch()), "epoch")
		if got := page.Value("writ_roster_version"); got != float64(s.Roster().Version) {
			t.Errorf("roster version = %g, want %d", got, s.Roster().Version)
		}
		if got := page.Value("writ_roster_expires_seconds"); got != float64(s.Roster().Expires.Unix()) {
			t.Errorf("roster expiry = %g, want %s", got, s.Roster().Expires)
		}
		s.queue.Cut(true)
		time.Sleep(3 * time.Second)
		scrape()
		want(0, "redis_up")
		want(1, "journal_up")
		looked := time.UnixMilli(int64(1000 * value("last_look_seconds")))
		between(time.Since(looked), 0, 2*time.Second, "the last scan while the queue is unavailable")
		s.queue.Cut(false)
	})
}

// Operators write alerts from the manual's list of metrics.
func TestManualListsMetricsOfSupervisor(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		metricspage.Check(t, "..", "Metrics of a supervisor", metrics.Process("", ""), s.metrics())
	})
}
