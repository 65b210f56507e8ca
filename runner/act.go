package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"writ"
	"writ/internal/cbor"
	"writ/runner/journal"
	"writ/sal"
)

const (
	// strayAfter is how long a driver may go on after its context ended, before the job is answered without it.
	strayAfter = 2 * time.Second
	// observeFor is how long the look may take at what an interrupted job has left.
	observeFor = 10 * time.Second
	// maxValues bounds the values of a result, encoded, and maxMessage the text of an error: both travel through Redis.
	maxValues  = 64 << 10
	maxMessage = 4 << 10
)

// attempt is what a driver answered.
type attempt struct {
	sal.Outcome
	err error
}

// act calls the driver and records what came of it. A driver that ignores the end of its context does not hold the node up: the job is
// answered without it, and only its resource waits until it is done.
func (n *incarnation) act(w *work) *writ.Result {
	ctx, stop := n.until(w.ctx, w.job.EndBy, errEndBy)
	defer stop()
	n.counts.acted.Add(1)
	started := n.now()
	done := make(chan attempt, 1)
	go func() { done <- n.do(ctx, w) }()

	var got attempt
	select {
	case got = <-done:
	case <-ctx.Done():
		late := time.NewTimer(strayAfter)
		defer late.Stop()
		select {
		case got = <-done:
		case <-late.C:
			n.letGo(ctx, w, done)
			got.err = context.Cause(ctx)
		}
	}
	if got.err != nil && ctx.Err() != nil {
		cause := context.Cause(ctx)
		if errors.Is(cause, errShutdown) {
			return nil
		}
		got.err = because(cause, got.err)
	}
	if got.err != nil && !w.repeatable() {
		got.err = halfDone(w, writ.AsError(got.err))
	}
	return n.finish(w, n.answer(w, started, got))
}

// do calls the driver. It is the one place where a driver's panic ends, and where a secret does that it gives away.
func (n *incarnation) do(ctx context.Context, w *work) (got attempt) {
	defer func() {
		if p := recover(); p != nil {
			got = attempt{err: fmt.Errorf("the driver panicked: %v\n%s", p, debug.Stack())}
		}
		got = w.mask.attempt(got)
	}()
	got.Outcome, got.err = w.driver.Do(ctx, n.request(ctx, w))
	return got
}

// letGo leaves a driver alone that does not stop. Its resource is free, and its job off the desk, when it is done after all.
func (n *incarnation) letGo(ctx context.Context, w *work, done <-chan attempt) {
	log := n.log.With("run", w.job.Run, "seq", w.job.Seq, "op", w.job.Operation)
	log.WarnContext(ctx, "a driver ignores that its time is over; its resource stays locked",
		"resource", w.resource().String(), "err", context.Cause(ctx))
	n.desk.markStray(w)
	go func() { // ends with the driver; nobody can wait for it
		got := <-done
		log.InfoContext(ctx, "the driver is done after all; its resource is free", "err", got.err)
		w.turn.leave()
		n.desk.leave(w)
	}()
}

// finish records a result, and tries until it is recorded: what was done must not be forgotten while the process lives. It returns nil if
// the runner stops before.
func (n *incarnation) finish(w *work, result *writ.Result) *writ.Result {
	for n.noteStore(w.ctx, n.journal.Finish(context.WithoutCancel(w.ctx), result)) != nil {
		if !sleep(n.working, retryAfter) {
			return nil
		}
	}
	return result
}

// refuse answers a job without acting and returns the answer that stands, nil if the job is left to another delivery.
func (n *incarnation) refuse(ctx context.Context, w *work, why error) *writ.Result {
	switch {
	case errors.Is(why, errShutdown) || errors.Is(why, errStartBy):
		return nil
	case writ.CodeOf(why) == writ.CodeNodeStore:
		return n.refuseUnrecorded(ctx, w, why)
	}
	return n.settle(ctx, w, func(before *journal.Entry) *writ.Result {
		if before != nil && before.Incarnation < n.number && !w.repeatable() && writ.CodeOf(why) != writ.CodeOutcomeUnknown {
			// Whatever stands in the way now: it may have been done then, and a retry would do it again.
			return n.answer(w, w.taken, attempt{err: outcomeUnknown(w)})
		}
		return n.answer(w, w.taken, attempt{err: why})
	})
}

// answerAs answers a job with what an earlier try of its call did.
func (n *incarnation) answerAs(ctx context.Context, w *work, done *writ.Result) *writ.Result {
	return n.settle(ctx, w, func(*journal.Entry) *writ.Result {
		same := *done
		same.JobKey, same.Job = w.job.JobKey, w.digest
		return &same
	})
}

// settle records the answer to a job that is not carried out, unless there is one, and returns the one that stands.
func (n *incarnation) settle(ctx context.Context, w *work, answer func(before *journal.Entry) *writ.Result) *writ.Result {
	counter := &n.counts.repeated
	result, err := n.journal.Refuse(context.WithoutCancel(ctx), w.job, w.digest, n.number, func(before *journal.Entry) *writ.Result {
		counter = &n.counts.refused
		return answer(before)
	})
	if err := n.noteStore(ctx, err); err != nil {
		return n.refuseUnrecorded(ctx, w, err)
	}
	counter.Add(1)
	return result
}

// refuseUnrecorded answers a job while the journal cannot be written. The answer invites another try, so it is only given if the job
// was certainly not done, or may be done again.
func (n *incarnation) refuseUnrecorded(ctx context.Context, w *work, why error) *writ.Result {
	entry, err := n.journal.Find(context.WithoutCancel(ctx), w.job.JobKey)
	switch {
	case err != nil:
		return nil
	case entry != nil && entry.Result != nil:
		return entry.Result
	case entry != nil && entry.Incarnation < n.number && !w.repeatable():
		return nil
	}
	n.counts.refused.Add(1)
	return n.answer(w, w.taken, attempt{err: why})
}

// answer makes the result of a job.
func (n *incarnation) answer(w *work, started time.Time, got attempt) *writ.Result {
	result := &writ.Result{
		JobKey: w.job.JobKey, Job: w.digest, Node: n.node, Driver: w.about.Name, Simulated: w.about.Simulated,
		Started: started.UnixMilli(), Ended: n.now().UnixMilli(), Boot: n.boot, Incarnation: n.number,
	}
	if got.err == nil {
		got.err = checkValues(got.Values)
	}
	if got.err == nil {
		result.Change, result.Values = got.Change, got.Values
		return result
	}
	e := writ.AsError(got.err)
	if e.Code == writ.CodeInternal {
		n.log.ErrorContext(w.ctx, "a job failed for a reason that is our fault",
			"run", w.job.Run, "seq", w.job.Seq, "op", w.job.Operation, "err", got.err)
	}
	result.Error = &writ.Error{Code: e.Code, Message: clip(e.Message), Hint: clip(e.Hint)}
	return result
}

// checkValues reports whether the values of an outcome can be journaled, sealed and read again.
func checkValues(values map[string]any) error {
	if len(values) == 0 {
		return nil
	}
	if err := writ.CheckValue(values); err != nil {
		return fmt.Errorf("check the driver's values: %w", err)
	}
	encoded, err := cbor.Marshal(values)
	if err == nil {
		var again map[string]any
		err = cbor.Unmarshal(encoded, &again) // finds strings that are not UTF-8
	}
	if err != nil {
		return fmt.Errorf("check the driver's values: %w", err)
	}
	if len(encoded) > maxValues {
		return writ.Errorf(writ.CodeScriptLimit, "the result has %d KiB, %d are possible", len(encoded)>>10, maxValues>>10)
	}
	return nil
}

// clip makes a text fit to travel.
func clip(text string) string {
	if len(text) > maxMessage {
		text = text[:maxMessage] + " …"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// because explains an error by what ended the job's context, and keeps what the driver said to people.
func because(cause, err error) error {
	why := *writ.AsError(cause)
	if e, ok := errors.AsType[*writ.Error](err); ok && e.Code != why.Code {
		why.Message += ": " + e.Message
	}
	why.Err = err
	return &why
}

const outcomeHint = "look at what it is about; if repeating is harmless, say idempotent: true in the call's options"

func outcomeUnknown(w *work) *writ.Error {
	return writ.Errorf(writ.CodeOutcomeUnknown, "the node stopped while it did %s; whether it was done is unknown", w.job.Operation).
		WithHint(outcomeHint)
}

// halfDone is the failure of a job that must not be repeated. One that invites another try although the work was tried could be done twice.
func halfDone(w *work, failed *writ.Error) *writ.Error {
	if !failed.Retryable() || failed.Code.Info().Kind != writ.Failed {
		return failed
	}
	unknown := writ.Errorf(writ.CodeOutcomeUnknown, "%s failed, and may have been done in part: %s: %w", w.job.Operation, failed.Code, failed)
	return unknown.WithHint(outcomeHint)
}

// outcomeUnknown says what is there now of the resource that an interrupted job was about.
func (n *incarnation) outcomeUnknown(w *work) *writ.Error {
	unknown := outcomeUnknown(w)
	resource := w.resource()
	if resource == (writ.ResourceID{}) {
		return unknown
	}
	ctx, stop := context.WithTimeout(w.ctx, observeFor)
	defer stop()
	seen := make(chan string, 1)
	go func() { seen <- n.observe(ctx, w, resource) }() // ends with the driver
	select {
	case text := <-seen:
		unknown.Message += text
	case <-ctx.Done():
	}
	return unknown
}

// observe describes a resource, "" if the driver cannot.
func (n *incarnation) observe(ctx context.Context, w *work, resource writ.ResourceID) (text string) {
	log := n.log.With("run", w.job.Run, "seq", w.job.Seq, "op", w.job.Operation)
	defer func() {
		if p := recover(); p != nil {
			log.ErrorContext(ctx, "the driver panicked", "err", fmt.Sprintf("%v\n%s", p, debug.Stack()))
		}
	}()
	now, err := w.driver.Observe(ctx, resource)
	switch {
	case err != nil:
		log.WarnContext(ctx, "cannot look at what an interrupted job left", "err", err)
		return ""
	case !now.Exists:
		return "; the " + resource.String() + " does not exist now"
	default:
		return "; the " + resource.String() + " exists now and is " + now.State
	}
}
