package services

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/identity"
)

// sayAfter is the delay after which the user sees why a run has not begun.
const sayAfter = 3 * time.Second

// cancelWithin limits how long an interrupted command waits for the cancellation of its run.
const cancelWithin = 5 * time.Second

// session is the state that the tasks of a command share.
type session struct {
	*cli.Env
	client     *client.Client
	by         *client.Person
	datacenter writ.DatacenterID
	project    identity.Project

	signing sync.Mutex // a key may ask its owner for each signature
}

// sign signs an order.
func (s *session) sign(ctx context.Context, order client.Order) ([]byte, error) {
	s.signing.Lock()
	defer s.signing.Unlock()
	roster, err := s.Roster(ctx, s.client)
	if err != nil {
		return nil, err
	}
	return order.Sign(roster, s.by)
}

// task is a script of this command that it signs, submits and watches.
type task struct {
	*session
	order  client.Order
	note   func(format string, args ...any)
	failed func(api.Run, *writ.Failure) error // returns the error of a failed run
	undo   string                             // reason of the cancellation if the command is interrupted

	reason string       // the last reason that was shown
	waits  atomic.Value // string: why the run has not begun
}

// submit signs and submits the script.
func (t *task) submit(ctx context.Context) (writ.Submission, error) {
	signed, err := t.sign(ctx, t.order)
	if err != nil {
		return writ.Submission{}, err
	}
	return t.client.Orders.Submit(ctx, signed)
}

// watch calls event for each event of the run until the run has ended. It shows why the run waits.
func (t *task) watch(ctx context.Context, run writ.RunID, event func(api.Event)) (api.Run, error) {
	t.waits.Store("")
	slow := time.AfterFunc(sayAfter, func() {
		if why, _ := t.waits.Load().(string); why != "" {
			t.note("… run %s %s", run, why)
		}
	})
	defer slow.Stop()
	return t.client.Streams.Watch(ctx, run, client.Watcher{
		Event: func(e api.Event) {
			t.explain(e)
			event(e)
		},
		Lost: func(err error) { t.note("… lost sight of run %s, looking again: %v", run, err) },
	})
}

// explain stores or shows the reason why the run has not begun, for example a disconnected datacenter or a silent node.
func (t *task) explain(e api.Event) {
	switch {
	case e.Run != nil && e.Run.State.Ended():
		t.waits.Store("")
	case e.Run != nil:
		t.waits.Store(e.Run.Reason)
	case e.Call != nil && e.Call.State.Ended():
		t.waits.Store("")
	case e.Call != nil:
		t.waits.Store("")
		t.showReason(e.Call.Reason)
	}
}

// showReason prints a reason, unless it repeats the previous one.
func (t *task) showReason(why string) {
	if why != "" && why != t.reason {
		t.note("… %s", why)
	}
	t.reason = why
}

// ended returns the output of a run that succeeded, as its datacenter has signed it. If the run ended otherwise, it
// returns an error.
func (t *task) ended(ctx context.Context, run api.Run) (map[string]any, error) {
	roster, err := t.client.Roster.Newest(ctx)
	if err != nil {
		return nil, err
	}
	end, err := t.client.Runs.End(ctx, roster, &run)
	switch {
	case err != nil:
		return nil, err
	case !run.State.Ended():
		return nil, writ.Errorf(writ.CodeConflict, "run %s of this command was resumed", run.ID).
			WithHint("`writ run watch %s` shows it", run.ID)
	case end.State == writ.RunSucceeded:
		return end.Output, nil
	}
	failure := end.Failure
	if failure != nil {
		shown := *failure
		shown.Position, shown.Trace = "", nil // the script is part of writ
		failure = &shown
	}
	return nil, t.failed(run, failure)
}

// cancel cancels an abandoned run.
func (t *task) cancel(ctx context.Context, run writ.RunID) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelWithin)
	defer stop()
	cancel := client.AboutRun(api.Run{
		ID: run, Datacenter: t.order.Datacenter, Script: t.order.Script.Bundle.Main.Name, Project: t.order.Project.ID,
		ProjectName: t.order.Project.Name,
	}, "cancel")
	cancel.Reason = t.undo
	t.signing.Lock()
	_, err := t.client.Statements.Decide(ctx, t.by, cancel)
	t.signing.Unlock()
	now, gone := t.client.Runs.Get(ctx, run)
	if err != nil && (gone != nil || !now.State.Ended()) {
		t.note("warning: run %s continues for some time: %v; `writ run cancel %s` ends it", run, err, run)
	}
}

// interrupted cancels a run and returns the error of an interrupted command.
func (t *task) interrupted(ctx context.Context, run writ.RunID) error {
	t.cancel(ctx, run)
	return terminal.Interrupted("")
}
