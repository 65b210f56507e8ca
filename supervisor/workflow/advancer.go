package workflow

import (
	"context"
	"log/slog"
	"time"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/limit"
	"writ/scripts"
	"writ/supervisor/journal"
	"writ/supervisor/mail"
	"writ/supervisor/mailbox"
	"writ/supervisor/outbox"
	"writ/supervisor/ratelog"
)

// AdvancerConfig holds the dependencies of an Advancer. All fields are required.
type AdvancerConfig struct {
	Journal  *journal.Journal
	View     *View
	Outbox   *outbox.Outbox
	Mailbox  *mailbox.Scheduler
	Programs Programs
	Quota    Quota
	// Freed is called after a step has freed room on a node with waiting calls.
	Freed func(node writ.NodeID, run writ.RunID)
	// Unasked is called for results of a node that answer no sent job.
	Unasked func(node writ.NodeID, results int)
	// Ended is called after the last step of a run.
	Ended    func(run writ.RunID)
	Now      func() time.Time
	Log      *slog.Logger
	Warnings *ratelog.Log
}

// Programs evaluates the scripts of runs.
type Programs interface {
	// MayAct checks that the journal still has the submission of a run as it was accepted, and that its signer may
	// still run it. It returns a stop if the run must end, else nil.
	MayAct(ctx context.Context, run *journal.Run) (*mail.Stop, error)
	// Pass evaluates the script of a run, given its calls. The outcome has only new log lines.
	Pass(ctx context.Context, run *journal.Run, calls []scripts.Entry, past scripts.Past) (scripts.Outcome, error)
}

// Quota counts the open work of projects.
type Quota interface {
	AddCalls(project writ.ProjectID, n int)
	AddRuns(project writ.ProjectID, n int)
}

// Advancer advances runs. The steps of a run never overlap. A step loads the run and receives its mail (the messages
// for the run since its last step). It evaluates the script, decides about the calls and writes all changes in one
// transaction. Its jobs are sent after the commit.
type Advancer struct {
	AdvancerConfig
	recent *recent
	logs   limit.Names // bytes that the scripts of each project log
}

// NewAdvancer returns an advancer. Its Step, Owners and Drop serve the mailbox.
func NewAdvancer(config AdvancerConfig) *Advancer {
	return &Advancer{
		AdvancerConfig: config, recent: newRecent(), logs: limit.Names{PerSecond: logBytes, AtOnce: logBytesOnce},
	}
}

// Begin schedules the first step of a new run. The caller has written the run to the journal.
func (a *Advancer) Begin(run *journal.Run) {
	a.Mailbox.Begin(run.ID, run.Project, func() { a.recent.put(&recentRun{run: run}) })
}

// Step advances a run with its mail. If a record that the run needs was forged, the run stays unchanged until the
// record is restored.
func (a *Advancer) Step(ctx context.Context, id writ.RunID, m mail.Mail) error {
	err := a.advance(ctx, id, m)
	if writ.CodeOf(err) == writ.CodeRecordForged {
		a.noteForged(ctx, id, err)
	}
	return err
}

func (a *Advancer) advance(ctx context.Context, id writ.RunID, m mail.Mail) error {
	t, err := a.load(ctx, id, m)
	if err != nil {
		return err
	}
	if t == nil {
		a.Drop(m.Results)
		return nil
	}
	why, err := a.Programs.MayAct(ctx, t.run)
	if err != nil {
		return err
	}
	if err := (&receiver{t, m}).receive(why); err != nil {
		return err
	}
	if err := newSurvey(ctx, a.Journal, t); err != nil {
		return err
	}
	pass, err := a.evaluate(ctx, t)
	if err != nil {
		return err
	}
	if pass != nil && t.calls.first > 0 { // before the transaction, because other writers would have to wait
		if err := a.Journal.Read(ctx, func(tx *journal.Tx) error { return fetchNamed(&t.calls, tx, t.run, pass) }); err != nil {
			return err
		}
	}
	written := t
	fresh := true
	err = a.Journal.Write(failpoint.At(ctx, m.Change()), func(tx *journal.Tx) error {
		if !fresh { // the group commit failed and this step is repeated alone: restart from the journal
			again, err := a.reload(tx, id, m)
			if err != nil {
				return err
			}
			if err := (&receiver{again, m}).receive(why); err != nil {
				return err
			}
			written = again
		}
		fresh = false
		w := writer{Step: written, tx: tx}
		if err := w.apply(m, pass); err != nil {
			return err
		}
		step := written
		tx.Then(func() { a.committed(step, m) })
		return nil
	})
	if err != nil {
		return err
	}
	remember(a, written)
	a.afterCommit(written)
	return nil
}

// committed runs as part of the commit of a step, before the next commit. It updates the quota before the end of a run
// is published, so that a client may submit the next run at once.
func (a *Advancer) committed(t *Step, m mail.Mail) {
	if t.out.OpenCalls != 0 {
		a.Quota.AddCalls(t.run.Project, t.out.OpenCalls)
	}
	if t.out.OpenRuns != 0 {
		a.Quota.AddRuns(t.run.Project, t.out.OpenRuns)
	}
	a.Outbox.Put(t.out.Jobs, m.Results, t.out.Stops)
}

// afterCommit sends the messages of a step and wakes other runs.
func (a *Advancer) afterCommit(t *Step) {
	a.Outbox.Flush()
	for _, r := range t.out.Unasked {
		a.Warnings.Refused(r.Node, "result without a sent job; it is ignored",
			writ.Errorf(writ.CodeNotFound, "no job with the digest of the result was sent to the node"),
			"run", t.run.ID, "seq", r.Result.Seq, "attempt", r.Result.Attempt)
		a.Unasked(r.Node, 1)
	}
	for node := range t.out.Freed {
		if a.View.Backlog.HasBacklog(node) {
			a.Freed(node, t.run.ID)
		}
	}
	for _, run := range t.out.Runs {
		a.Mailbox.Post(run, mail.Mail{})
	}
	switch {
	case t.run.State.Ended() && t.runMoved:
		a.Log.Info("run ended", "run", t.run.ID, "state", t.run.State, "calls", countOf(&t.calls))
		a.Ended(t.run.ID)
	case wantsPass(t):
		a.Mailbox.Post(t.run.ID, mail.Mail{})
	}
}

// noteForged stores and publishes the reason why a run is stuck. It does not write a run whose own record was forged.
func (a *Advancer) noteForged(ctx context.Context, id writ.RunID, why error) {
	held := writ.Reason{Code: writ.ReasonForged, Error: withoutHint(writ.AsError(why))}
	err := a.Journal.Write(failpoint.At(ctx, new(mail.Mail).Change()), func(tx *journal.Tx) error {
		run, err := tx.Run(id)
		if err != nil || run == nil || run.State.Ended() || run.Why.Equal(held) {
			return err
		}
		run.Why = held
		shown := run.Run
		shown.Output = nil
		tx.AddEvents(writ.Event{Run: &shown})
		return tx.PutRun(run)
	})
	if err != nil && writ.CodeOf(err) != writ.CodeRecordForged && ctx.Err() == nil {
		a.Log.Warn("report a held run", "run", id, "err", err)
	}
}

// Drop acknowledges results for unknown runs. Nodes have results for unknown runs if an older backup replaced the
// journal.
func (a *Advancer) Drop(results []mail.Arrival) {
	byNode := make(map[writ.NodeID]int)
	for _, r := range results {
		byNode[r.Node]++
	}
	for node, n := range byNode {
		a.Unasked(node, n)
	}
	a.Outbox.Put(nil, results, outbox.Stops{})
	a.Outbox.Flush()
}
