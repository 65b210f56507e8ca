package runner_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/internal/metrics"
	"writ/internal/test/metricspage"
	"writ/runner"
	"writ/sal"
)

// The metrics of a runner match its work.
func TestTheNumbersOfARunnerFollowFromItsWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(func(r *runner.Runner) { r.Slots = 1 })
		release := make(chan struct{})
		n.host.setPause(func(_ context.Context, step string, r sal.Request) error {
			if step == begun && r.Resource.Name == "slow" {
				<-release
			}
			return nil
		})
		slow, behind := n.job(1, "volume.create", "slow", nil), n.job(2, "volume.create", "data", nil)
		n.push(slow)
		quiet(time.Second)
		n.push(behind)
		quiet(15 * time.Second)
		var page metricspage.Page
		value := func(name string, labels ...string) float64 { return page.Value("writ_runner_"+name, labels...) }
		want := func(want float64, name string, labels ...string) {
			t.Helper()
			if got := value(name, labels...); got != want {
				t.Errorf("%s %q is %g, want %g", name, labels, got, want)
			}
		}
		page = metricspage.Read(t, n.runner.Metrics)
		want(1, "serving")
		want(1, "slots")
		want(1, "jobs", "state", "running")
		want(1, "jobs", "state", "waiting")
		want(0, "jobs", "state", "stuck")
		if oldest := value("oldest_job_seconds"); oldest < 15 || oldest > 20 {
			t.Errorf("the waiting job is %g seconds old", oldest)
		}
		close(release)
		n.await(slow.JobKey)
		n.await(behind.JobKey)
		unknown := n.job(3, "volume.explode", "data", nil)
		n.push(unknown)
		if got := n.await(unknown.JobKey); codeOf(got) != writ.CodeDriverMissing {
			t.Fatalf("an unknown operation is answered with %+v", got)
		}
		n.pushBytes("nonsense", []byte("nonsense"))
		quiet(time.Second)

		page = metricspage.Read(t, n.runner.Metrics)
		want(2, "jobs_total", "operation", "volume.create", "outcome", "succeeded")
		want(2, "job_seconds", "operation", "volume.create")
		took := page["writ_runner_job_seconds"].GetMetric()[0].GetHistogram()
		for _, b := range took.GetBucket() {
			if b.GetUpperBound() == 1 && b.GetCumulativeCount() != 1 || took.GetSampleSum() < 15 {
				t.Errorf("the jobs took %v", took)
			}
		}
		want(1, "refusals_total", "code", string(writ.CodeDriverMissing))
		for name, want := range map[string]float64{"jobs": 2, "refusals": 1, "dropped": 1} {
			if got := n.counted(name); got != want {
				t.Errorf("%g %s, want %g", got, name, want)
			}
		}
		want(0, "jobs", "state", "running")
		want(0, "jobs", "state", "waiting")
		want(0, "oldest_job_seconds")
		want(3, "results_unconfirmed")
		want(1, "journal_up")
		want(1, "redis_up")
		if _, _, fault := n.runner.Ready(); fault != "" {
			t.Errorf("its fault is %s", fault)
		}
		now := float64(time.Now().Unix())
		if sent, answered := value("beat_sent_seconds"), value("node_api_answered_seconds"); now-sent > 2 || now-answered > 120 {
			t.Errorf("at %g, the last beat was sent at %g, and the node API answered at %g", now, sent, answered)
		}
		if page.Value("writ_roster_version") <= 0 || page.Value("writ_roster_expires_seconds") <= 0 {
			t.Errorf("roster %g expires at %g", page.Value("writ_roster_version"), page.Value("writ_roster_expires_seconds"))
		}
	})
}

// Operators write alerts from the manual's list of metrics.
func TestManualListsMetricsOfRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(nil)
		quiet(time.Second)
		metricspage.Check(t, "..", "Metrics of a runner", metrics.Process("", ""), n.runner.Metrics)
	})
}

func TestResourcesAndRepairsOfNodeAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watchful{stands: map[string]any{"state": "present"}}
		w.look = func(_ context.Context, r writ.ResourceID) ([]sal.Drift, error) {
			if r.Name == "ill" {
				return []sal.Drift{{What: "it was unmounted", Mended: true}}, nil
			}
			return nil, nil
		}
		n := watched(t, w)
		for seq, name := range []string{"good", "ill"} {
			job := n.job(seq+1, "volume.create", name, nil)
			n.push(job)
			n.await(job.JobKey)
		}
		quiet(31 * time.Second)
		page := metricspage.Read(t, n.runner.Metrics)
		volumes := page.Value("writ_runner_resources", "kind", string(writ.KindVolume), "state", "present")
		if all, mended := page.Sum("writ_runner_resources"), n.counted("mended"); volumes != 2 || all != 2 || mended != 1 {
			t.Errorf("%g volumes of %g resources, and %g repairs; want 2, 2 and 1", volumes, all, mended)
		}
	})
}
