package runner_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/internal/sleep"
	"writ/runner"
	"writ/sal"
	"writ/supervisor/nodes"
)

// endingAPI is the node API of a supervisor whose runs may have ended.
type endingAPI struct {
	nodes.Backend
	ended atomic.Bool
	asked atomic.Int32
}

func (a *endingAPI) Payload(ctx context.Context, digest writ.Digest) ([]byte, error) {
	a.asked.Add(1)
	if a.ended.Load() {
		return nil, writ.Errorf(writ.CodeRunCancelled, "the run has ended")
	}
	return a.Backend.Payload(ctx, digest)
}

// accepted is when the test's run was accepted: the clock of synctest starts at this time.
var accepted = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()

// sentNow makes a job as a supervisor sends it.
func sentNow(j *writ.Job) {
	j.Accepted = accepted
	j.StartBy = time.Now().Add(nodes.StartWithin).UnixMilli()
	j.EndBy = j.StartBy + time.Minute.Milliseconds()
}

// Promise: Nodes and Redis: A job that Redis kept back starts at most five seconds after the end of its run.
// How: A node asks the node API again before it starts a job that was sent more than five seconds ago.
func TestLateJobOfEndedRunIsRefused(t *testing.T) {
	for name, deliver := range map[string]func(n *node, job *writ.Job, end func()){
		"arrives late": func(n *node, job *writ.Job, end func()) {
			end()
			quiet(10 * time.Second)
			n.push(job)
		},
		"waits for a slot": func(n *node, job *writ.Job, end func()) {
			n.push(n.job(1, "volume.create", "slow", sentNow))
			quiet(time.Second)
			n.push(job)
			quiet(time.Second)
			end()
		},
		"is a later delivery": func(n *node, job *writ.Job, end func()) {
			quiet(10 * time.Second)
			end()
			job.Delivery = 2
			sentNow(job)
			n.push(job)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFixture(t)
				api := &endingAPI{Backend: s}
				n := s.fresh(func(r *runner.Runner) { r.API, r.Slots = api, 1 })
				for seq := range 20 { // all within five seconds after they were sent
					job := n.job(seq+10, "volume.create", "data", sentNow)
					n.push(job)
					if got := n.await(job.JobKey); got.Error != nil {
						t.Fatalf("%+v", got.Error)
					}
				}
				if asked := api.asked.Load(); asked != 1 {
					t.Errorf("the payload was fetched %d times", asked)
				}
				n.host.setPause(func(ctx context.Context, step string, r sal.Request) error {
					if step == begun && r.Resource.Name == "slow" {
						return sleep.For(ctx, 20*time.Second)
					}
					return nil
				})
				job := n.job(2, "volume.create", "other", sentNow)
				deliver(n, job, func() { api.ended.Store(true) })
				if got := n.await(job.JobKey); codeOf(got) != writ.CodeRunCancelled {
					t.Errorf("result = %+v, want %s", got.Error, writ.CodeRunCancelled)
				}
				if n.host.count(job.JobKey.String()) != 0 {
					t.Error("the job was carried out")
				}
			})
		})
	}
}
