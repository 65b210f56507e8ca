package runner_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/sal"
)

func TestCancelEndsRunningAndRefusesNewJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(nil)
		n.host.setPause(func(ctx context.Context, step string, r sal.Request) error {
			if step == begun && r.Resource.Name == "data" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		runs := n.job(1, "volume.create", "data", nil)
		waits := n.job(2, "volume.create", "data", nil)
		foreign := n.job(1, "volume.create", "other", func(j *writ.Job) {
			j.Payload = n.submission(n.alice, nil)
			j.Run = writ.RunIDOf(j.Payload)
		})
		n.push(runs)
		quiet(time.Second)
		n.push(waits)
		quiet(time.Second)
		until := time.Now().Add(time.Minute)
		n.tell(writ.Control{Cancels: map[writ.RunID]int64{runs.Run: until.UnixMilli()}})
		comes := n.job(3, "node.ping", "", nil)
		n.push(comes)
		for _, j := range []*writ.Job{runs, waits, comes} {
			if got := n.await(j.JobKey); codeOf(got) != writ.CodeRunCancelled {
				t.Errorf("job %d: %+v, want %s", j.Seq, got.Error, writ.CodeRunCancelled)
			}
		}
		n.push(foreign)
		if got := n.await(foreign.JobKey); got.Error != nil {
			t.Errorf("a job of another run: %+v", got.Error)
		}

		n = n.again()
		late := n.job(4, "node.ping", "", nil)
		n.push(late)
		if got := n.await(late.JobKey); codeOf(got) != writ.CodeRunCancelled {
			t.Errorf("after a restart: %+v, want %s", got.Error, writ.CodeRunCancelled)
		}
		quiet(time.Until(until) + time.Second)
		for seq := 5; seq <= 6; seq++ {
			later := n.job(seq, "node.ping", "", nil)
			n.push(later)
			if got := n.await(later.JobKey); got.Error != nil {
				t.Errorf("after its time the cancel was still remembered: %+v", got.Error)
			}
			n = n.again()
		}
		if n.host.total() != 1 {
			t.Errorf("%d effects, want 1: of the other run", n.host.total())
		}
	})
}

func TestCancelSparesJobsOfLaterResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(nil)
		resumed := func(seq, resumes int) *writ.Job {
			return n.job(seq, "node.ping", "", func(j *writ.Job) { j.Resumes = resumes })
		}
		run := resumed(1, 0).Run
		n.tell(writ.Control{Cancels: map[writ.RunID]int64{run: time.Now().Add(time.Hour).UnixMilli()}, Resumes: map[writ.RunID]int{run: 1}})
		for seq := range 2 {
			for resumes, want := range []writ.Code{writ.CodeRunCancelled, writ.CodeRunCancelled, ""} {
				job := resumed(10*seq+resumes+1, resumes)
				n.push(job)
				if got := n.await(job.JobKey); codeOf(got) != want {
					t.Errorf("after %d resumes: %+v, want %q", resumes, got.Error, want)
				}
			}
			n = n.again()
		}
	})
}

func TestEndedJobKeepsResultAfterCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(nil)
		job := n.job(1, "volume.create", "data", nil)
		n.push(job)
		n.await(job.JobKey)
		n.tell(writ.Control{Acks: []writ.JobKey{job.JobKey}, Cancels: map[writ.RunID]int64{job.Run: time.Now().Add(time.Hour).UnixMilli()}})
		job.Delivery = 2
		n.push(job)
		quiet(time.Second)
		got := n.got(job.JobKey)
		if len(got) != 2 || got[1].Error != nil {
			t.Errorf("results = %+v, want the same one twice", got)
		}
	})
}

func TestForgedControlMessagesAreIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(nil)
		job := n.job(1, "node.ping", "", nil)
		n.push(job)
		n.await(job.JobKey)
		message := writ.Control{
			Epoch: 9, Acks: []writ.JobKey{job.JobKey}, Cancels: map[writ.RunID]int64{job.Run: time.Now().Add(time.Hour).UnixMilli()},
		}
		genuine := n.fixture.supervisor
		n.fixture.supervisor = newKey()
		n.tell(message)
		n.fixture.supervisor = genuine
		message.Node = "0192f6c2-0000-7000-8000-0000000000bb"
		n.tell(message)
		before := len(n.got(job.JobKey))
		quiet(5 * time.Second)
		if got := len(n.got(job.JobKey)); got == before {
			t.Error("a forged acknowledgement silenced the node")
		}
		next := n.job(2, "node.ping", "", nil)
		n.push(next)
		if got := n.await(next.JobKey); got.Error != nil {
			t.Errorf("a forged cancel or epoch counted: %+v", got.Error)
		}
		if got := n.counted("dropped"); got != 2 {
			t.Errorf("%g dropped, want 2", got)
		}
	})
}
