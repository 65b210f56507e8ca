package main

import (
	"context"
	"net/http"
	"regexp"
	"testing"

	"writ/cmd/writ/internal/test/testcluster"
	"writ/internal/test/metricspage"
	"writ/internal/test/testenv"
)

// scrape reads the metrics of a process that has logged their address.
func scrape(t *testing.T, p *testcluster.Proc) metricspage.Page {
	t.Helper()
	at := regexp.MustCompile(`msg="metrics are served".* address=(\S+)`).FindStringSubmatch(p.Said())
	if at == nil {
		t.Fatalf("it serves no metrics:\n%s", p.Said())
	}
	answer, err := http.Get("http://" + at[1] + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	return metricspage.Parse(t, answer.Body)
}

// wanted is the expected value of a metric after the run.
type wanted struct {
	value  float64
	name   string
	labels []string
}

// TestEveryPartReportsItsWork scrapes a coordinator, a supervisor and a runner after a run with two calls.
func TestEveryPartReportsItsWork(t *testing.T) {
	t.Parallel()
	s := testcluster.New(t, "WRIT_METRICS_LISTEN=127.0.0.1:0")
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: testenv.Redis(t).URL, Nodes: 1, Speed: "0"})
	s.Script("make.tengo", "volume := import(\"volume\")\nvolume.create(\"a\", {size_gib: 1})\nvolume.create(\"b\", {size_gib: 1})\n")
	s.Succeeded(s.Follow(s.Submit("make.tengo"), 0, func() {}))

	for name, all := range map[string][]wanted{
		"coord": {
			{1, "writ_build_info", []string{"role", "coordinator"}},
			{1, "writ_submissions_total", []string{"outcome", "accepted"}},
		},
		"dc1": {
			{1, "writ_build_info", []string{"role", "supervisor"}},
			{1, "writ_supervisor_serving", []string{"datacenter", "dc1"}},
			{1, "writ_supervisor_journal_up", nil},
			{1, "writ_supervisor_redis_up", nil},
			{0, "writ_supervisor_runs_open", nil},
			{0, "writ_supervisor_calls", []string{"state", "running"}},
			{1, "writ_supervisor_nodes", []string{"state", "ready"}},
			{1, "writ_supervisor_coordinator_connected", []string{"coordinator", s.URL}},
		},
		"dc1-n1": {
			{1, "writ_build_info", []string{"role", "runner"}},
			{1, "writ_runner_serving", nil},
			{1, "writ_runner_redis_up", nil},
			{2, "writ_runner_jobs_total", []string{"operation", "volume.create", "outcome", "succeeded"}},
			{2, "writ_runner_job_seconds", []string{"operation", "volume.create"}},
			{0, "writ_runner_jobs", []string{"state", "running"}},
			{0, "writ_runner_results_unconfirmed", nil},
		},
	} {
		for _, want := range all {
			s.Until(name+" tells "+want.name, func(context.Context) bool {
				return scrape(t, s.Procs[name]).Value(want.name, want.labels...) == want.value
			})
		}
		found := scrape(t, s.Procs[name])
		for _, disk := range []string{"writ_data_disk_free_bytes", "writ_data_disk_size_bytes", "writ_store_bytes"} {
			if found.Value(disk) <= 0 {
				t.Errorf("%s has %s of %g", name, disk, found.Value(disk))
			}
		}
		if name == "dc1" && found.Value("writ_supervisor_journal_write_seconds") < 10 {
			t.Errorf("the journal was written %g times", found.Value("writ_supervisor_journal_write_seconds"))
		}
	}
}
