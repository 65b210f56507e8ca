package services

import (
	"context"
	"fmt"
	"time"

	"writ"
	"writ/coord/api"
	"writ/internal/sleep"
)

// logReader reads a log with a sequence of runs. Each run reads a part of the log.
type logReader struct {
	task
	what   string // "container/web"
	follow bool
	print  func(logPart) error

	next string // the position after the printed text
}

// logPart is a part of a log as JSON.
type logPart struct {
	Resource string `json:"resource,omitempty"` // "container/web", for logs of several resources
	Text     string `json:"text"`
	Next     string `json:"next"`
	Lost     bool   `json:"lost"`
	More     bool   `json:"more"`
	State    string `json:"state"`
}

// read reads the log once, or follows it until ctx ends or a run fails.
func (r *logReader) read(ctx context.Context) error {
	for {
		if err := r.run(ctx); err != nil || !r.follow {
			return err
		}
	}
}

// run signs and submits a script, and prints the results until the run has ended. If it is interrupted, it cancels the
// run.
func (r *logReader) run(ctx context.Context) error {
	if r.next != "" {
		r.order.Params["after"] = r.next
	}
	submission, err := r.submit(ctx)
	if err != nil {
		return err
	}
	seen := 0
	run, err := r.watch(ctx, submission.Run, func(e api.Event) {
		if e.Call != nil && e.Call.State == writ.CallSucceeded && e.Call.Seq > seen {
			seen, _ = r.fetch(ctx, submission.Run, seen) // results that this request misses come with the next one
		}
	})
	if err == nil {
		err = r.rest(ctx, submission.Run, seen)
	}
	if ctx.Err() != nil {
		return r.interrupted(ctx, submission.Run)
	}
	if err != nil {
		return err
	}
	_, err = r.ended(ctx, run)
	return err
}

// hint returns the hint of a failure. If the failure has no hint, hint returns the command that continues after the
// printed text.
func (r *logReader) hint(f *writ.Failure) string {
	if f.Hint == "" && r.next != "" {
		return fmt.Sprintf("`writ logs %s --after %s` continues after the printed text", r.what, r.next)
	}
	return f.Hint
}

// rest prints the remaining results of a run that has ended.
func (r *logReader) rest(ctx context.Context, run writ.RunID, seen int) error {
	for {
		_, err := r.fetch(ctx, run, seen)
		if err == nil || !writ.AsError(err).Retryable() {
			return err
		}
		r.showReason(fmt.Sprintf("the end of the log cannot be read yet: %v", err))
		if err := sleep.For(ctx, time.Second); err != nil {
			return err
		}
	}
}

// fetch prints the results of the calls with numbers above `after`. It returns the number of the last call that it
// printed.
func (r *logReader) fetch(ctx context.Context, run writ.RunID, after int) (last int, err error) {
	values, err := r.client.Runs.Values(ctx, run, after)
	if err != nil {
		return after, err
	}
	for _, c := range values.Calls {
		if c.Seq != after+1 || c.State != writ.CallSucceeded {
			break
		}
		after = c.Seq
		p := partOf(c.Values)
		r.next = p.Next
		if err := r.print(p); err != nil {
			return after, err
		}
	}
	return after, nil
}

// partOf converts the result of a call.
func partOf(values map[string]any) (p logPart) {
	p.Text, _ = values["text"].(string)
	p.Next, _ = values["next"].(string)
	p.Lost, _ = values["lost"].(bool)
	p.More, _ = values["more"].(bool)
	p.State, _ = values["state"].(string)
	return p
}
