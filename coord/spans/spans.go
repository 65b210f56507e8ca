// Package spans records the history of runs as traces: the delivery of a submission, the run, its calls and their
// attempts. It depends on the events of a ledger, and must not depend on the destination of spans.
package spans

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"writ"
	"writ/internal/sleep"
	"writ/internal/tracing"
	"writ/ledger"
)

const (
	page  = 500 // events per read
	retry = 10 * time.Second
)

// Recorder records spans from the events of a ledger. All exported fields are required.
type Recorder struct {
	Ledger         ledger.Events
	News           func() <-chan struct{} // returns a channel that is closed when there are new events
	Record         func(s tracing.Span)
	DatacenterName func(id writ.DatacenterID) string
	Log            *slog.Logger

	open    map[writ.RunID]*openRun
	waiting int // open waits of all open runs
}

// Run records new events until ctx ends, and then returns nil. Earlier events are not recorded.
func (r *Recorder) Run(ctx context.Context) error {
	var after int64
	for begun := false; ctx.Err() == nil; {
		news := r.News() // before the read, so that rows stored during it are found next time
		_, newest, err := r.Ledger.EventRange(ctx)
		if err == nil && begun {
			after, err = r.readOn(ctx, after)
		}
		if err == nil {
			// Events of other topics at the end count as read. Otherwise they would be searched again each time.
			after, begun = max(after, newest), true
		} else if ctx.Err() == nil {
			r.Log.WarnContext(ctx, "read the events for traces; trying again", "err", err, "retry_in", retry)
			_ = sleep.For(ctx, retry) // the loop checks ctx
			continue
		}
		select {
		case <-news:
		case <-ctx.Done():
		}
	}
	return nil
}

// readOn records the events with ids above `after`, and returns the id of the last event.
func (r *Recorder) readOn(ctx context.Context, after int64) (int64, error) {
	for {
		events, more, err := r.Ledger.Events(ctx, after,
			ledger.EventFilter{Topics: []string{ledger.TopicSubmission, "run", "call"}}, page)
		if err != nil {
			return after, err
		}
		for i := range events {
			r.record(&events[i])
			after = events[i].ID
		}
		if !more {
			return after, nil
		}
	}
}

// record records the spans that an event ends, and tracks the spans that it starts.
func (r *Recorder) record(e *ledger.Event) {
	switch {
	case e.Submission != nil && e.Submission.State != writ.SubmissionWaiting:
		r.delivery(e)
	case e.About == "": // a datacenter must not add spans to a run of another datacenter
	case e.Run != nil:
		r.run(e)
	case e.Call != nil:
		r.call(e)
	}
}

// delivery records the delivery of a submission to its datacenter.
func (r *Recorder) delivery(e *ledger.Event) {
	in := e.Submission
	s := tracing.Span{
		At: tracing.OfRun(in.Run).Part("delivery"), Name: "deliver", From: in.Received, Until: e.Time,
		Labels: map[string]string{
			"run": string(in.Run), "datacenter": r.DatacenterName(in.Datacenter), "signer": in.Signer,
			"state": string(in.State),
		},
	}
	s.Fail(in.Error)
	r.Record(s)
}

// run records a run from its acceptance. A resumed run is recorded again, with its longer duration.
func (r *Recorder) run(e *ledger.Event) {
	run := e.Run
	at := tracing.OfRun(run.ID)
	why := writ.Reason{}
	switch {
	case run.State == writ.RunAccepted:
		why = run.Why
		r.remember(run.ID, run.Accepted)
	case !run.State.Ended():
		r.remember(run.ID, e.Time)
	}
	r.waits(at, run.ID, 0, why, e.Time)
	r.step(run.ID, run.Started, e.Time)
	if !run.State.Ended() {
		return
	}
	r.step(run.ID, run.Ended, e.Time)
	r.forget(run.ID)
	s := tracing.Span{
		At: at, Name: run.Script, From: run.Accepted, Until: run.Ended,
		Labels: map[string]string{
			"run": string(run.ID), "datacenter": r.DatacenterName(e.Datacenter), "project": run.ProjectName,
			"deployment": run.Deployment, "signer": run.Signer, "state": string(run.State),
		},
	}
	if f := run.Failure; f != nil {
		s.Fail(&f.Error)
		s.Labels["position"] = f.Position
	}
	r.Record(s)
	if !run.Started.IsZero() {
		r.Record(tracing.Span{At: at.Part("wait"), Name: "wait to begin", From: run.Accepted, Until: run.Started})
	}
}

// call records a call with its last attempt: the wait for inputs and a node, the time of its job in the queue, and the
// work of its node.
func (r *Recorder) call(e *ledger.Event) {
	c := e.Call
	at, attempt := tracing.OfCall(c.Run, c.Seq), tracing.OfAttempt(c.Run, c.Seq, c.Attempt)
	r.step(c.Run, c.Planned, e.Time)
	why := writ.Reason{}
	if c.State == writ.CallPlanned {
		why = c.Why
	}
	if !c.State.Ended() {
		r.remember(c.Run, e.Time)
	}
	r.waits(at, c.Run, c.Seq, why, e.Time)
	if !c.State.Ended() {
		return
	}
	name := c.Operation
	if c.Name != "" {
		name += " " + c.Name
	}
	s := tracing.Span{
		At: at, Name: name, From: c.Planned, Until: c.Ended,
		Labels: map[string]string{
			"run": string(c.Run), "seq": strconv.Itoa(c.Seq), "operation": c.Operation, "position": c.Position,
			"state": string(c.State), "node": c.NodeName, "driver": c.Driver, "attempt": strconv.Itoa(c.Attempt),
			"change": string(c.Change),
		},
	}
	s.Fail(c.Error)
	r.Record(s)
	if c.Queued.IsZero() {
		return
	}
	r.Record(tracing.Span{At: at.Part("wait"), Name: "wait", From: c.Planned, Until: c.Queued})
	taken := c.Started
	if taken.IsZero() {
		taken = c.Ended
	}
	r.Record(tracing.Span{
		At: at.Part("queue"), Name: "queue", From: c.Queued, Until: taken, Labels: map[string]string{"node": c.NodeName},
	})
	if !c.Started.IsZero() {
		r.Record(tracing.Span{
			At: attempt, Name: "carry out", From: c.Started, Until: c.Ended, Error: s.Error,
			Labels: map[string]string{
				"node": c.NodeName, "attempt": strconv.Itoa(c.Attempt), "delivery": strconv.Itoa(c.Delivery),
			},
		})
	}
}
