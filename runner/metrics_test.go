package runner_test

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"writ"
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
		m := n.runner.Metrics()
		if s := m.Serves; !m.Serving || s.Running != 1 || s.Waiting != 1 || s.Stuck != 0 || s.Slots != 1 || s.Oldest < 15*time.Second || s.Oldest > 20*time.Second {
			t.Errorf("one job runs and another waits: %+v", m)
		}
		close(release)
		n.await(slow.JobKey)
		n.await(behind.JobKey)
		unknown := n.job(3, "volume.explode", "data", nil)
		n.push(unknown)
		if got := n.await(unknown.JobKey); codeOf(got) != writ.CodeDriverMissing {
			t.Fatalf("an operation that there is not is answered with %+v", got)
		}
		n.pushBytes("nonsense", []byte("nonsense"))
		quiet(time.Second)

		m = n.runner.Metrics()
		if want := map[runner.Job]int64{{Operation: "volume.create", Outcome: "succeeded"}: 2}; !maps.Equal(m.Jobs, want) {
			t.Errorf("jobs are %v, want %v", m.Jobs, want)
		}
		if took := m.Took["volume.create"]; took.Count != 2 || took.Sum < 15*time.Second || took.Upto[time.Second] != 1 {
			t.Errorf("they took %+v", took)
		}
		if want := map[writ.Code]int64{writ.CodeDriverMissing: 1}; !maps.Equal(m.Refusals, want) || m.Refused != 1 {
			t.Errorf("refusals are %v, want %v", m.Refusals, want)
		}
		if len(m.Drops) != 1 || m.Dropped != 1 {
			t.Errorf("what was ignored is %v", m.Drops)
		}
		if s := m.Serves; s.Running+s.Waiting != 0 || s.Oldest != 0 || s.Unconfirmed != 3 || !s.Journal || !s.Queue || s.Fault != "" {
			t.Errorf("nothing runs, and no result is confirmed: %+v", s)
		}
		if now := time.Now(); now.Sub(m.Sent) > 2*time.Second || now.Sub(m.Answered) > 2*time.Minute || m.Roster == 0 || m.Expires.IsZero() {
			t.Errorf("a beat was sent %s, the node API answered %s", m.Sent, m.Answered)
		}
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
		s := n.runner.Metrics().Serves
		if want := map[runner.Resources]int{{Kind: writ.KindVolume, State: "present"}: 2}; !maps.Equal(s.Resources, want) || s.Mended != 1 {
			t.Errorf("resources are %v, want %v; %d were mended", s.Resources, want, s.Mended)
		}
	})
}
