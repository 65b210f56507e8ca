package watch

import (
	"time"

	"writ"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
	"writ/supervisor/workflow"
)

// endGrace is added to the EndBy of a call before the supervisor gives the call up. A live node reports by then.
const endGrace = 5 * time.Second

// deadlines ends runs past their deadline and calls past their EndBy.
type deadlines struct {
	post func(run writ.RunID, m mail.Mail)
	left map[mail.Delivery]time.Duration // remaining time of sent calls until their EndBy
}

// endRuns ends runs past their deadline, which is a time of the wall clock.
func (d *deadlines) endRuns(runs []writ.RunID, now time.Time) {
	for _, id := range runs {
		err := writ.Errorf(writ.CodeRunExpired, "the run did not end before its deadline").
			WithHint("give it more time with --deadline")
		d.post(id, mail.Mail{Stop: &mail.Stop{State: writ.RunExpired, Err: err, By: now.Add(workflow.StopWithin)}})
	}
}

// endCalls ends calls past their EndBy. The remaining time of a call is measured with the monotonic clock, as on its
// node, so a changed clock ends no call early. It decreases only while the supervisor listens to nodes. Nodes end calls
// in time by themselves, and a job that has not reached its node has not started.
func (d *deadlines) endCalls(sent []*journal.Call, now time.Time, listened time.Duration) {
	left := make(map[mail.Delivery]time.Duration, len(sent))
	for _, c := range sent {
		job := mail.DeliveryOf(c)
		rest, known := d.left[job]
		if rest -= listened; !known {
			rest = max(c.EndBy.Sub(now), 0) // at least 0: messages that arrived during a pause are handled first
		}
		// a stopped node measures no time, so the call has its full time after the node's return
		if c.Why.LostNode() || c.KeptBack {
			rest = c.EndBy.Sub(c.Queued)
		}
		if left[job] = rest; rest < -endGrace {
			d.post(c.Run, mail.Mail{Overdue: []writ.JobKey{c.Key()}})
		}
	}
	d.left = left
}
