package client

import (
	"context"
	"io"
	"slices"
	"time"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/internal/sleep"
)

// Pauses before an event stream is reopened, and the age of a stream after which its loss is expected.
const (
	reconnectFirst = 500 * time.Millisecond
	reconnectMost  = 5 * time.Second
	agedAfter      = time.Minute
)

// comesBack is how long a known run may be missing. A coordinator restored from a backup learns of the run again from
// its datacenter, which reconnects within seconds.
const comesBack = time.Minute

// Watcher receives the events of a run.
type Watcher struct {
	// Event receives each event in order. An event may be delivered twice.
	Event func(api.Event)
	// Lost is called once for each lost stream. After a stream that lasted at least agedAfter, it is called only if the
	// next stream cannot be opened. Lost may be nil.
	Lost func(err error)
}

// Watch reports the events of a run to w, from its start to its end, and returns the final run as the coordinator shows
// it. Lost streams are reopened after the last event. Events are not verified; End verifies the result.
func (c Streams) Watch(ctx context.Context, id writ.RunID, w Watcher) (api.Run, error) {
	var last int64
	var known time.Time // last time that the run was known
	pause, reported := reconnectFirst, false
	for {
		aged := false // an old stream ends when its token expires, and is reopened at once
		run, err := c.client.Runs.Get(ctx, id)
		if err == nil {
			known = time.Now()
		}
		switch {
		case err != nil:
		case run.State.Ended():
			if err = c.replay(ctx, run, w); err == nil {
				return run, nil
			}
		default:
			w.Event(api.Event{Topic: api.TopicRun, Datacenter: run.Datacenter, Time: time.Now(), Run: &run})
			before, began := last, time.Now()
			if err = c.stream(ctx, id, &last, w); err == nil {
				continue // the run ended; query it again, because a failed run may have been resumed since
			}
			aged = time.Since(began) >= agedAfter
			if last > before || aged {
				pause, reported = reconnectFirst, false
			}
		}
		if ctx.Err() != nil {
			return run, ctx.Err()
		}
		forgotten := writ.CodeOf(err) == writ.CodeNotFound && time.Since(known) < comesBack
		if !writ.AsError(err).Retryable() && !forgotten {
			return run, err
		}
		if w.Lost != nil && !reported && !aged {
			w.Lost(err)
			reported = true
		}
		if err := sleep.For(ctx, pause); err != nil {
			return run, err
		}
		pause = min(2*pause, reconnectMost)
	}
}

// newsEvery is the poll interval of AwaitNews.
const newsEvery = 100 * time.Millisecond

// AwaitNews waits until the coordinator shows a change of an ended run. Callers use it after a statement, because the
// answer arrives before the event with its effect.
func (c Streams) AwaitNews(ctx context.Context, before api.Run) error {
	for {
		run, err := c.client.Runs.Get(ctx, before.ID)
		if err != nil || !run.State.Ended() || !run.Ended.Equal(before.Ended) {
			return err
		}
		if err := sleep.For(ctx, newsEvery); err != nil {
			return err
		}
	}
}

// Get returns a run as the coordinator shows it. It rejects an answer about another run.
func (c Runs) Get(ctx context.Context, id writ.RunID) (api.Run, error) {
	run, err := api.Answer[api.Run](c.client.API.GetRun(ctx, id))
	if err == nil && run.ID != id {
		return api.Run{}, anotherRun(id, run.ID)
	}
	return run, err
}

// Payload returns the signed payload of a run. It verifies the payload against the run id.
func (c Runs) Payload(ctx context.Context, run api.Run) (*identity.Payload, error) {
	signed, err := c.Signed(ctx, run)
	if err != nil {
		return nil, err
	}
	text, _, err := sshsig.Split(signed)
	if err != nil {
		return nil, err
	}
	return identity.ParsePayload(text)
}

// anotherRun returns the error for an answer about another run.
func anotherRun(asked, got writ.RunID) error {
	return writ.Errorf(writ.CodeUnverified, "the coordinator was asked for run %s and answered with run %s", asked, got).
		WithHint("do not trust this coordinator; use another one with --server, and inform its operator")
}

// Calls returns all calls of a run.
func (c Runs) Calls(ctx context.Context, id writ.RunID) ([]writ.Call, error) {
	return All(func(cursor string) ([]writ.Call, string, error) {
		page, err := api.Answer[api.CallPage](c.client.API.ListCalls(ctx, id,
			&api.ListCallsParams{Limit: api.Given(PageSize), Cursor: api.Given(cursor)}))
		return page.Items, page.NextCursor, err
	})
}

// Values returns a run with its output, and the arguments and results of the calls after a call number. The datacenter
// stores them, so they are unavailable while it is disconnected.
func (c Runs) Values(ctx context.Context, id writ.RunID, after int) (v api.RunValues, err error) {
	var calls []api.CallValues
	for {
		params := &api.GetValuesParams{After: api.Given(after), Limit: api.Given(PageSize)}
		if v, err = api.Answer[api.RunValues](c.client.API.GetValues(ctx, id, params)); err != nil {
			return api.RunValues{}, err
		}
		calls = append(calls, v.Calls...)
		if !v.More || len(v.Calls) == 0 {
			v.Calls, v.More = calls, false
			return v, nil
		}
		after = calls[len(calls)-1].Seq
	}
}

// List returns all nodes that params select.
func (c Nodes) List(ctx context.Context, params api.ListNodesParams) ([]writ.Node, error) {
	params.Limit = api.Given(PageSize)
	return All(func(cursor string) ([]writ.Node, string, error) {
		params.Cursor = api.Given(cursor)
		page, err := api.Answer[api.NodePage](c.client.API.ListNodes(ctx, &params))
		return page.Items, page.NextCursor, err
	})
}

// ListIfAllowed works like List, but returns no nodes if the reader may read only some projects. Nodes belong to no
// project.
func (c Nodes) ListIfAllowed(ctx context.Context, params api.ListNodesParams) ([]writ.Node, error) {
	nodes, err := c.List(ctx, params)
	if writ.CodeOf(err) == writ.CodeRoleMissing {
		return nil, nil
	}
	return nodes, err
}

// Listed returns all resources that params select, each with the reason if its state is not current.
func (c *Client) Listed(ctx context.Context, params api.ListResourcesParams) ([]api.ListedResource, error) {
	params.Limit = api.Given(PageSize)
	return All(func(cursor string) ([]api.ListedResource, string, error) {
		params.Cursor = api.Given(cursor)
		page, err := api.Answer[api.ResourcePage](c.API.ListResources(ctx, &params))
		return page.Items, page.NextCursor, err
	})
}

// Resources returns the same resources as Listed, without the reasons.
func (c *Client) Resources(ctx context.Context, params api.ListResourcesParams) ([]writ.Resource, error) {
	listed, err := c.Listed(ctx, params)
	if err != nil {
		return nil, err
	}
	return api.Views(listed, func(r api.ListedResource) writ.Resource { return r.Resource }), nil
}

// replay reports an ended run as events from its current state. Events are stored for a limited time, and a short run
// may end before the first request.
func (c Streams) replay(ctx context.Context, run api.Run, w Watcher) error {
	calls, err := c.client.Runs.Calls(ctx, run.ID)
	if err != nil {
		return err
	}
	var events []api.Event
	for _, call := range calls {
		events = append(events, api.Event{Topic: api.TopicCall, Datacenter: run.Datacenter, Time: call.Ended, Call: &call})
	}
	asking, stop := context.WithTimeout(ctx, dialTime)
	defer stop()
	// the end is reported even if the datacenter with the log lines is disconnected
	lines, _ := c.client.Runs.Logs(asking, run.ID)
	for _, line := range lines {
		events = append(events, api.Event{Topic: api.TopicLog, Datacenter: run.Datacenter, Time: line.Time, Log: &line})
	}
	slices.SortStableFunc(events, func(a, b api.Event) int { return a.Time.Compare(b.Time) })
	for _, e := range events {
		w.Event(e)
	}
	w.Event(api.Event{Topic: api.TopicRun, Datacenter: run.Datacenter, Time: run.Ended, Run: &run})
	return nil
}

// silenceMost is the maximum silence on an event stream. Coordinators send a keep-alive every 15 s.
const silenceMost = 40 * time.Second

// heard resets the silence timer on each read of a stream.
type heard struct {
	io.Reader
	silence *time.Timer
}

func (h heard) Read(b []byte) (int, error) {
	n, err := h.Reader.Read(b)
	h.silence.Reset(silenceMost)
	return n, err
}

// stream reports events until the run has ended, and then returns nil.
func (c Streams) stream(ctx context.Context, id writ.RunID, last *int64, w Watcher) error {
	params := &api.WatchRunParams{}
	if *last > 0 {
		params.LastEventID = last
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	response, err := c.client.API.WatchRun(ctx, id, params)
	if err := api.ErrorOf(response, err); err != nil {
		return err
	}
	defer response.Body.Close()
	silence := time.AfterFunc(silenceMost, stop)
	defer silence.Stop()
	for m, err := range api.Messages(heard{response.Body, silence}) {
		if err != nil {
			return err
		}
		*last = m.ID
		if m.Reset { // earlier events are missing from the stream
			return writ.Errorf(writ.CodeUnreachable, "the coordinator no longer has the events after the last one")
		}
		w.Event(m.Event)
		if m.Event.Run != nil && m.Event.Run.State.Ended() ||
			m.Event.Submission != nil && rejected(m.Event.Submission.State) {
			return nil
		}
	}
	return writ.Errorf(writ.CodeUnreachable, "the event stream ended")
}

func rejected(s writ.SubmissionState) bool {
	return s == writ.SubmissionRefused || s == writ.SubmissionExpired
}
