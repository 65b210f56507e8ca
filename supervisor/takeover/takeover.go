// Package takeover continues the work of a datacenter under a new supervisor. It recognises a journal from a backup,
// announces the new epoch to the nodes, continues the open runs and holds the lease. The journal itself begins the
// epoch.
package takeover

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/sleep"
	"writ/supervisor/fleet"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
	"writ/supervisor/outbox"
	"writ/supervisor/ratelog"
	"writ/supervisor/workflow"
)

const (
	// announceTime limits how long a new supervisor waits for a queue that does not accept its announcements. Nodes
	// also learn the epoch from every job and from the answer to every beat.
	announceTime = 2 * time.Second
	// wakeWithin limits how long the supervisor retries to read the open runs. After that Run returns an error, so that
	// the process manager restarts it.
	wakeWithin = time.Minute
	retryEvery = time.Second
)

// Takeover informs nodes and runs of a new supervisor. All fields are required.
type Takeover struct {
	Epoch    int64
	Journal  *journal.Journal
	Members  *fleet.Members
	Outbox   *outbox.Outbox
	Roster   func() int // version in force
	Post     func(run writ.RunID, m mail.Mail)
	Warnings *ratelog.Log
	Log      *slog.Logger
}

// Announce sends the epoch to every approved node before the first job is sent, so that no node obeys an earlier
// supervisor any more.
func (t *Takeover) Announce(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, announceTime)
	defer stop()
	for _, node := range t.Members.Serving() {
		t.Outbox.Control(failpoint.At(ctx, failpoint.EpochSent), writ.Control{Node: node, Roster: t.Roster()})
	}
}

// Run continues the runs that were open when the last supervisor ended. It retries while the database restarts.
func (t *Takeover) Run(ctx context.Context) error {
	for began := time.Now(); ; {
		err := t.wakeRuns(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
			return nil
		case time.Since(began) > wakeWithin:
			return fmt.Errorf("list open runs: %w", err)
		}
		t.Warnings.Warn("", "continue open runs; trying again", "err", err)
		_ = sleep.For(ctx, retryEvery)
	}
}

// wakeRuns wakes the runs with a pending evaluation and the runs with calls on removed nodes. It delivers all sent
// calls again under the new epoch; nodes recognize jobs that they have done. All other runs wait for messages of nodes
// or for the next scan of package watch.
func (t *Takeover) wakeRuns(ctx context.Context) error {
	var pending []writ.RunID
	var sent []*journal.Call
	err := t.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
		if pending, err = tx.PendingRuns(); err != nil {
			return err
		}
		// runs with times from a clock that was set back since then
		ahead, err := tx.RunsStampedAfter(tx.Now.Add(workflow.BackoffMost))
		if err != nil {
			return err
		}
		pending = append(pending, ahead...)
		for _, n := range t.Members.List() {
			if n.Admission != writ.AdmissionRemoved {
				continue
			}
			left, err := tx.RunsOn(n.ID)
			if err != nil {
				return err
			}
			pending = append(pending, left...)
		}
		sent, err = tx.SentCalls()
		return err
	})
	if err != nil {
		return err
	}
	for _, c := range sent {
		t.Post(c.Run, mail.Mail{Resend: []mail.Delivery{mail.DeliveryOf(c)}})
	}
	for _, id := range pending {
		t.Post(id, mail.Mail{})
	}
	if len(pending)+len(sent) > 0 {
		t.Log.Info("open runs continue", "runs_to_evaluate", len(pending), "calls_sent_again", len(sent), "epoch", t.Epoch)
	}
	return nil
}
