package client

import (
	"context"
	"io"
	"slices"
	"time"

	"writ"
	"writ/coord/api"
	"writ/identity"
)

// Pauses between two attempts to get an event stream back.
const (
	reconnectFirst = 500 * time.Millisecond
	reconnectMost  = 5 * time.Second
	agedAfter      = time.Minute
)

// comesBack is how long a run that was known may be unknown: a coordinator whose ledger came from a backup learns of it again from its
// datacenter, which connects again within seconds.
const comesBack = time.Minute

// Watcher gets the events of a run.
type Watcher struct {
	// Event gets each event in order. It may get one again that it had before.
	Event func(api.Event)
	// Lost is called, once each time, when the stream broke off and is opened again. For one that stood for a minute it is called only if the next cannot be
	// opened. It may be nil.
	Lost func(err error)
}

// Watch tells w what happens to a run, from its beginning, until the run has ended, and returns the run as the coordinator knows it
// then. Streams that break off are opened again where they ended. What a coordinator says of a run is only news; End proves it.
func (c *Client) Watch(ctx context.Context, id writ.RunID, w Watcher) (api.Run, error) {
	var last int64
	var known time.Time // the run was, last
	pause, reported := reconnectFirst, false
	for {
		aged := false // the stream stood for long: it ends with the token that opened it, and is opened again at once
		run, err := c.Run(ctx, id)
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
				continue // it said that the run has ended; that is asked again, because a failed run may have been resumed since
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
		select {
		case <-ctx.Done():
			return run, ctx.Err()
		case <-time.After(pause):
		}
		pause = min(2*pause, reconnectMost)
	}
}

// newsEvery is how often AwaitNews asks.
const newsEvery = 100 * time.Millisecond

// AwaitNews waits until the coordinator has heard that a run which had ended is not any more as it was then: the answer to a statement
// comes faster than the event that tells what it did.
func (c *Client) AwaitNews(ctx context.Context, before api.Run) error {
	tick := time.NewTicker(newsEvery)
	defer tick.Stop()
	for {
		run, err := c.Run(ctx, before.ID)
		if err != nil || !run.State.Ended() || !run.Ended.Equal(before.Ended) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Run returns a run as the coordinator knows it. An answer about another run is an error.
func (c *Client) Run(ctx context.Context, id writ.RunID) (api.Run, error) {
	run, err := api.Answer[api.Run](c.API.GetRun(ctx, id))
	if err == nil && run.ID != id {
		return api.Run{}, anotherRun(id, run.ID)
	}
	return run, err
}

// Payload returns what was signed for a run. That it is this and nothing else follows from the run's id alone.
func (c *Client) Payload(ctx context.Context, run api.Run) (*identity.Payload, error) {
	signed, err := c.signed(ctx, run)
	if err != nil {
		return nil, err
	}
	text, _, err := identity.Split(signed)
	if err != nil {
		return nil, err
	}
	return identity.ParsePayload(text)
}

// anotherRun is the error of an answer about another run than was asked for.
func anotherRun(asked, got writ.RunID) error {
	return writ.Errorf(writ.CodeUnverified, "the coordinator was asked for run %s and answered with run %s", asked, got).
		WithHint("do not believe this coordinator; use another one with --server, and tell its operator")
}

// Calls returns all calls of a run.
func (c *Client) Calls(ctx context.Context, id writ.RunID) ([]writ.Call, error) {
	return All(func(cursor string) ([]writ.Call, string, error) {
		page, err := api.Answer[api.CallPage](c.API.ListCalls(ctx, id, &api.ListCallsParams{Limit: api.Given(PageSize), Cursor: api.Given(cursor)}))
		return page.Items, page.NextCursor, err
	})
}

// Values returns a run with its output, and the calls after a number with what they were given and answered. Its datacenter has them, so they
// are out of reach while it is away.
func (c *Client) Values(ctx context.Context, id writ.RunID, after int) (api.RunValues, error) {
	return api.Answer[api.RunValues](c.API.GetValues(ctx, id, &api.GetValuesParams{After: api.Given(after)}))
}

// Logs returns all lines that the script of a run wrote so far. Its datacenter has them, so they are out of reach while it is away.
func (c *Client) Logs(ctx context.Context, id writ.RunID) ([]writ.LogLine, error) {
	all := []writ.LogLine{}
	for {
		params := &api.ListLogsParams{Limit: api.Given(PageSize)}
		if len(all) > 0 {
			params.After = api.Given(all[len(all)-1].Ordinal)
		}
		page, err := api.Answer[api.LogPage](c.API.ListLogs(ctx, id, params))
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if len(page.Items) < PageSize {
			return all, nil
		}
	}
}

// Nodes returns all nodes that params select.
func (c *Client) Nodes(ctx context.Context, params api.ListNodesParams) ([]writ.Node, error) {
	params.Limit = api.Given(PageSize)
	return All(func(cursor string) ([]writ.Node, string, error) {
		params.Cursor = api.Given(cursor)
		page, err := api.Answer[api.NodePage](c.API.ListNodes(ctx, &params))
		return page.Items, page.NextCursor, err
	})
}

// Resources returns all resources that params select.
func (c *Client) Resources(ctx context.Context, params api.ListResourcesParams) ([]writ.Resource, error) {
	params.Limit = api.Given(PageSize)
	return All(func(cursor string) ([]writ.Resource, string, error) {
		params.Cursor = api.Given(cursor)
		page, err := api.Answer[api.ResourcePage](c.API.ListResources(ctx, &params))
		return page.Items, page.NextCursor, err
	})
}

// PageSize is how many items are asked for at a time: the most that there may be.
const PageSize = 500

// maxPages is how many pages a list may have: a million items. A coordinator that names a next page for ever would fill the memory of a command.
const maxPages = 2000

// MostListed is how many items a list has at most.
const MostListed = maxPages * PageSize

// All reads all pages of a list. Any but the last may be empty, as when all nodes of one have been removed meanwhile. A list with too many pages is
// TOO_LARGE.
func All[T any](page func(cursor string) (items []T, next string, err error)) ([]T, error) {
	all, cursor := []T{}, ""
	for range maxPages {
		items, next, err := page(cursor)
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
		if next == "" {
			return all, nil
		}
		cursor = next
	}
	return nil, writ.Errorf(writ.CodeTooLarge, "the coordinator gives %d pages of the list, and it has no end", maxPages).
		WithHint("select less with the flags of the command, or ask another coordinator with --server")
}

// replay tells how a run that has ended is now: events are not kept for ever, and a quick run has ended before anybody asked for them.
func (c *Client) replay(ctx context.Context, run api.Run, w Watcher) error {
	calls, err := c.Calls(ctx, run.ID)
	if err != nil {
		return err
	}
	var events []api.Event
	for _, call := range calls {
		events = append(events, api.Event{Topic: api.TopicCall, Datacenter: run.Datacenter, Time: call.Ended, Call: &call})
	}
	asking, stop := context.WithTimeout(ctx, dialTime)
	defer stop()
	lines, _ := c.Logs(asking, run.ID) // an end is an end also while the datacenter, which has the lines, is away
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

// silenceMost is how long nothing may come on an event stream before it is given up: coordinators say every 15 s that they are still there.
const silenceMost = 40 * time.Second

// heard is a stream on which something comes now and then.
type heard struct {
	io.Reader
	silence *time.Timer
}

func (h heard) Read(b []byte) (int, error) {
	n, err := h.Reader.Read(b)
	h.silence.Reset(silenceMost)
	return n, err
}

// stream tells events until one says that the run has ended; then it returns nil.
func (c *Client) stream(ctx context.Context, id writ.RunID, last *int64, w Watcher) error {
	params := &api.WatchRunParams{}
	if *last > 0 {
		params.LastEventID = last
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	response, err := c.API.WatchRun(ctx, id, params)
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
		if m.Reset { // what happened before it must be asked for
			return writ.Errorf(writ.CodeUnreachable, "the coordinator has forgotten what came after the last event")
		}
		w.Event(m.Event)
		if m.Event.Run != nil && m.Event.Run.State.Ended() || m.Event.Submission != nil && rejected(m.Event.Submission.State) {
			return nil
		}
	}
	return writ.Errorf(writ.CodeUnreachable, "the event stream ended")
}

func rejected(s writ.SubmissionState) bool {
	return s == writ.SubmissionRefused || s == writ.SubmissionExpired
}
