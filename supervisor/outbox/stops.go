package outbox

import (
	"context"
	"slices"

	"writ"
	"writ/internal/failpoint"
	"writ/supervisor/mail"
)

// Stops revokes work of a run: queued jobs, and jobs that nodes have started.
type Stops struct {
	Run   writ.RunID
	Until int64 // nodes remember a cancel until this time, in Unix milliseconds

	Cancels  map[writ.NodeID]int             // nodes that must stop the run, with the resume count of the run
	GivenUp  map[writ.NodeID][]writ.JobKey   // started jobs that nodes must stop
	Withdraw map[writ.NodeID][]mail.Delivery // queued jobs to remove; the run receives the removed deliveries
	// like Withdraw, for a lost node; the run also receives the jobs that were not found
	Reclaim map[writ.NodeID][]mail.Delivery
	Stale   map[writ.NodeID][]mail.Delivery // queued jobs to remove; the run receives no report
}

func (s *Stops) isEmpty() bool {
	return len(s.Cancels)+len(s.GivenUp)+len(s.Withdraw)+len(s.Reclaim)+len(s.Stale) == 0
}

// stop sends s. The next step of the run may run concurrently.
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
			tasks = withdrawn // the state of the other tasks is unknown
		}
		o.post(s.Run, mail.Mail{Withdrawn: withdrawn, MaybeStarted: notWithdrawn(tasks, withdrawn)})
	}
	for node, tasks := range s.Stale {
		_, _ = o.withdraw(ctx, s.Run, node, tasks)
	}
}

// withdraw removes deliveries of a run from the queue of a node. It returns the removed deliveries, which no node has
// received. If it also returns an error, the list may be incomplete.
func (o *Outbox) withdraw(
	ctx context.Context, run writ.RunID, node writ.NodeID, tasks []mail.Delivery,
) (withdrawn []mail.Delivery, err error) {
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

// notWithdrawn returns the jobs with a delivery in tasks that is not in withdrawn. The deliveries of a job are
// adjacent.
func notWithdrawn(tasks, withdrawn []mail.Delivery) (jobs []writ.JobKey) {
	for _, task := range tasks {
		if !slices.Contains(withdrawn, task) {
			jobs = append(jobs, task.Key)
		}
	}
	return slices.Compact(jobs)
}

// askAgain records that the queue did not report which jobs of a run a lost node received. Package watch asks again.
func (o *Outbox) askAgain(run writ.RunID, node writ.NodeID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unanswered[Question{run, node}] = true
}

// post posts mail to a run, unless the mail is empty.
func (o *Outbox) post(run writ.RunID, m mail.Mail) {
	if len(m.Withdrawn)+len(m.MaybeStarted) > 0 {
		o.Post(run, m)
	}
}
