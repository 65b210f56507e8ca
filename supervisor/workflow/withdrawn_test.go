package workflow

import (
	"testing"
	"time"

	"writ"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
)

func TestOrderFollowsStateOfJob(t *testing.T) {
	t.Parallel()
	deadline := time.Unix(1000, 0)
	open := func(change func(r *journal.Run)) *journal.Run {
		r := &journal.Run{Run: writ.Run{State: writ.RunRunning, Deadline: deadline}}
		change(r)
		return r
	}
	running := open(func(*journal.Run) {})
	resumed := open(func(r *journal.Run) { r.Resumes = 2 })
	ended := open(func(r *journal.Run) { r.State, r.Resumes = writ.RunCancelled, 1 })
	failing := open(func(r *journal.Run) { r.Stop, r.StopState, r.StopBy = &writ.Error{}, writ.RunFailed, deadline })
	cutShort := open(func(r *journal.Run) {
		r.Stop, r.StopState, r.StopBy = &writ.Error{}, writ.RunFailed, deadline.Add(-time.Minute)
	})
	cancelled := open(func(r *journal.Run) { r.Stop, r.StopState, r.StopBy = &writ.Error{}, writ.RunCancelled, deadline })
	call := func(state writ.CallState, attempt, before int) *journal.Call {
		return &journal.Call{Call: writ.Call{State: state, Attempt: attempt}, Before: before}
	}
	for name, tt := range map[string]struct {
		run     *journal.Run
		call    *journal.Call
		attempt int
		order   stopOrder
		resumes int
	}{
		"running":                       {running, call(writ.CallRunning, 1, 0), 1, stopNothing, 0},
		"unknown call":                  {running, nil, 1, stopNothing, 0},
		"unknown attempt":               {running, call(writ.CallFailed, 1, 0), 2, stopNothing, 0},
		"failed call":                   {running, call(writ.CallFailed, 1, 0), 1, stopJob, 0},
		"expired call":                  {running, call(writ.CallExpired, 1, 0), 1, stopJob, 0},
		"succeeded call":                {running, call(writ.CallSucceeded, 1, 0), 1, stopNothing, 0},
		"earlier attempt":               {running, call(writ.CallRunning, 2, 0), 1, stopJob, 0},
		"attempt from before a resume":  {resumed, call(writ.CallRunning, 2, 1), 1, stopRun, 1},
		"attempt since a resume":        {resumed, call(writ.CallRunning, 2, 1), 2, stopNothing, 0},
		"ended run":                     {ended, call(writ.CallCancelled, 1, 0), 1, stopRun, 1},
		"unknown call of ended run":     {ended, nil, 1, stopRun, 1},
		"cancelled run":                 {cancelled, call(writ.CallRunning, 1, 0), 1, stopRun, 0},
		"failing run":                   {failing, call(writ.CallRunning, 1, 0), 1, stopNothing, 0},
		"failing run that is cut short": {cutShort, call(writ.CallRunning, 1, 0), 1, stopRun, 0},
	} {
		if order, resumes := stopOf(tt.run, tt.call, tt.attempt); order != tt.order || resumes != tt.resumes {
			t.Errorf("%s: order %d with %d resumes, want %d with %d", name, order, resumes, tt.order, tt.resumes)
		}
	}
}

// The queue is asked again about the jobs of a node that is lost again. The later answer finds no job in the queue,
// because the first one had withdrawn it.
func TestLaterAnswerKeepsKnownWithdrawal(t *testing.T) {
	t.Parallel()
	for withdrawn, want := range map[int]writ.CallState{0: writ.CallFailed, 1: writ.CallPlanned} {
		p := newPlanned()
		p.View.Nodes = oneNode{writ.Node{ID: "n", Name: "n", Liveness: writ.LivenessLost}}
		c := p.call(t, "volume.create", "v", map[string]any{"size_gib": 1})
		c.Node, c.NodeName, c.State, c.Delivery, c.Withdrawn = "n", "n", writ.CallQueued, 1, withdrawn
		r := receiver{p.Step, mail.Mail{MaybeStarted: []writ.JobKey{c.Key()}}}
		if err := r.receiveWithdrawn(); err != nil {
			t.Fatal(err)
		}
		if c.State != want {
			t.Errorf("with %d deliveries withdrawn, the call is %s, want %s", withdrawn, c.State, want)
		}
	}
}
