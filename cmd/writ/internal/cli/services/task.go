package services

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/runview"
	"writ/cmd/writ/internal/cli/why"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/identity"
)

// busyFor is how long a running call is not looked at. A call that reads a log waits for text that long.
const busyFor = 2 * waitForPart * time.Second

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

	waits why.WaitNotes
	began atomic.Int64 // start of the running call, in nanoseconds of the Unix time; 0 without one
}

// submit signs and submits the script.
func (t *task) submit(ctx context.Context) (writ.Submission, error) {
	signed, err := t.sign(ctx, t.order)
	if err != nil {
		return writ.Submission{}, err
	}
	return t.client.Orders.Submit(ctx, signed)
}

// watch calls event for each event of the run until the run has ended. It shows why the run waits, and after a few
// seconds also the command that ends the wait.
func (t *task) watch(ctx context.Context, run writ.RunID, event func(api.Event)) (api.Run, error) {
	t.waits.Show = t.note
	t.began.Store(0)
	lookout := runview.NewLookout(func(ctx context.Context) { t.look(ctx, run) })
	defer lookout.Start(ctx)()
	return t.client.Streams.Watch(ctx, run, client.Watcher{
		Event: func(e api.Event) {
			lookout.Heard()
			t.explain(e)
			event(e)
		},
		Lost: func(err error) { t.note("… the connection for run %s was lost, reconnecting: %v", run, err) },
	})
}

// look prints the reasons why the run waits, each with its next command. While a call is busy, look returns at once.
func (t *task) look(ctx context.Context, run writ.RunID) {
	if began := t.began.Load(); began != 0 && time.Since(time.Unix(0, began)) < busyFor {
		return
	}
	all := why.WaitReasonsOf(ctx, t.client, run)
	for i := range all {
		all[i].Call = cmp.Or(all[i].Call, "run "+string(run))
	}
	t.waits.NoteAll(all)
}

// explain shows the reason why a call waits, such as a silent node.
func (t *task) explain(e api.Event) {
	if e.Call == nil {
		return
	}
	t.began.Store(0)
	if e.Call.State == writ.CallRunning {
		t.began.Store(time.Now().UnixNano())
	}
	if !e.Call.State.Ended() {
		t.showReason(e.Call.Reason)
	}
}

// showReason prints a reason, unless it repeats the previous one.
func (t *task) showReason(text string) {
	if text == "" {
		t.waits.Forget("")
		return
	}
	t.waits.Note(why.WaitReason{Reason: why.Reason{Why: text}})
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
