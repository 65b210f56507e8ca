package outbox

import (
	"context"
	"slices"

	"writ"
	"writ/internal/failpoint"
	"writ/supervisor/mail"
)

// Stops takes back work of a run: jobs in the queues, and jobs that nodes have started.
type Stops struct {
	Run   writ.RunID
	Until int64 // time until which nodes remember a cancel, in Unix milliseconds

	Cancels  map[writ.NodeID]int             // nodes that stop the run, with the number of its resumes
	GivenUp  map[writ.NodeID][]writ.JobKey   // started jobs that nodes stop
	Withdraw map[writ.NodeID][]mail.Delivery // jobs to remove from the queue; the run learns which ones were removed
	Reclaim  map[writ.NodeID][]mail.Delivery // the same for a lost node; the run also learns which ones were not there
	Stale    map[writ.NodeID][]mail.Delivery // jobs to remove from the queue, whatever their state
}

func (s *Stops) isEmpty() bool {
	return len(s.Cancels)+len(s.GivenUp)+len(s.Withdraw)+len(s.Reclaim)+len(s.Stale) == 0
}

// stop carries out s. The next step of the run may run at the same time.
func (o *Outbox) stop(ctx context.Context, s Stops) {
	for node, resumes := range s.Cancels {
		message := writ.Control{Node: node, Cancels: map[writ.RunID]int64{s.Run: s.Until}}
		if resumes > 0 {
			message.Resumes = map[writ.RunID]int{s.Run: resumes}
		}
		o.Control(failpoint.At(ctx, failpoint.CancelSent), message)
	}
	for node, keys := range s.GivenUp {
		o.Control(failpoint.At(ctx, failpoint.CancelSent), writ.Control{Node: node, GivenUp: keys})
	}
	for node, tasks := range s.Withdraw {
		withdrawn, _ := o.withdraw(ctx, s.Run, node, tasks)
		o.post(s.Run, mail.Mail{Withdrawn: withdrawn})
	}
	for node, tasks := range s.Reclaim {
		withdrawn, err := o.withdraw(ctx, s.Run, node, tasks)
		if err != nil {
			o.askAgain(s.Run, node)
			tasks = withdrawn // the state of the others is unknown
		}
		o.post(s.Run, mail.Mail{Withdrawn: withdrawn, MaybeStarted: notWithdrawn(tasks, withdrawn)})
	}
	for node, tasks := range s.Stale {
		_, _ = o.withdraw(ctx, s.Run, node, tasks)
	}
}

// withdraw removes deliveries of a run from the queue of a node. It returns those that no node received. With an error
// the list may be incomplete.
func (o *Outbox) withdraw(ctx context.Context, run writ.RunID, node writ.NodeID, tasks []mail.Delivery) (withdrawn []mail.Delivery, err error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	ids := make([]string, len(tasks))
	for i, task := range tasks {
		ids[i] = task.TaskID()
	}
	removed, err := o.Queue.Withdraw(failpoint.At(ctx, failpoint.JobsWithdrawn), node, ids...)
	if err != nil && ctx.Err() == nil {
		o.Warnings.Warn(node, "withdraw jobs", "run", run, "err", err)
	}
	for i, task := range tasks {
		if slices.Contains(removed, ids[i]) {
			withdrawn = append(withdrawn, task)
		}
	}
	return withdrawn, err
}

// notWithdrawn returns the jobs with a delivery in tasks that is not in withdrawn. The deliveries of a job are adjacent.
func notWithdrawn(tasks, withdrawn []mail.Delivery) (jobs []writ.JobKey) {
	for _, task := range tasks {
		if !slices.Contains(withdrawn, task) {
			jobs = append(jobs, task.Key)
		}
	}
	return slices.Compact(jobs)
}

// askAgain records that the queue did not answer which jobs of a run a lost node received. The watch asks again.
func (o *Outbox) askAgain(run writ.RunID, node writ.NodeID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unanswered[Question{run, node}] = true
}

// post gives a run its mail unless the mail is empty.
func (o *Outbox) post(run writ.RunID, m mail.Mail) {
	if len(m.Withdrawn)+len(m.MaybeStarted) > 0 {
		o.Post(run, m)
	}
}
