package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"writ"
	"writ/internal/cbor"
	"writ/internal/clip"
	"writ/internal/sleep"
	"writ/internal/tracing"
	"writ/runner/journal"
	"writ/sal"
	"writ/sal/catalog"
)

const (
	// stuckAfter is the time that a driver gets to return after its context ended. Then the node stops waiting for the
	// driver.
	stuckAfter = 2 * time.Second
	// observeFor limits the inspection of a resource after an interrupted job.
	observeFor = 10 * time.Second
	// maxValues limits the encoded values of a result, and maxMessage limits each text of an error, both in bytes.
	// Results pass through Redis, so their size is limited.
	maxValues  = 64 << 10
	maxMessage = 4 << 10
)

// attempt is the outcome or the error of one driver call.
type attempt struct {
	sal.Outcome
	err error
}

// acts carries jobs out and records their outcomes and refusals.
type acts struct {
	*base
	desk    *desk
	outbox  *outbox
	keeper  *keeper
	record  func(s tracing.Span) // nil without tracing
	working context.Context      // parent of the contexts of all jobs
}

// act calls the driver and records the outcome. If the driver ignores its deadline, act returns nil and the job's slot
// becomes free. Until the driver returns, the job has no answer and its resource stays locked. The supervisor gives up
// the call in the meantime.
func (a *acts) act(w *work) *writ.Result {
	started := a.now()
	ctx, stop := until(w.ctx, a.now(), endBy(w.job, started), errEndBy)
	defer stop()
	a.desk.begin(w)
	done := make(chan attempt, 1)
	go func() { done <- a.do(ctx, w) }()

	select {
	case got := <-done:
		return a.conclude(ctx, w, started, got)
	case <-ctx.Done():
	}
	late := time.NewTimer(stuckAfter)
	defer late.Stop()
	select {
	case got := <-done:
		return a.conclude(ctx, w, started, got)
	case <-late.C:
		a.abandon(ctx, w, started, done)
		return nil
	}
}

// endBy returns the deadline of a job that starts at the time `now`, in unix milliseconds: `now` plus the time between
// StartBy and EndBy, but at most EndBy. If the run's deadline determines EndBy, the time between StartBy and EndBy is
// shorter than a job may take, so endBy returns EndBy.
func endBy(j *writ.Job, now time.Time) int64 {
	if most := j.EndBy - j.StartBy; most > 0 && (j.Deadline == 0 || j.EndBy < j.Deadline) {
		return min(j.EndBy, now.UnixMilli()+most)
	}
	return j.EndBy
}

// conclude records the outcome of a job. It returns nil if the runner is shutting down; the next start of the runner
// then continues the job.
func (a *acts) conclude(ctx context.Context, w *work, started time.Time, got attempt) *writ.Result {
	if got.err != nil && ctx.Err() != nil {
		cause := context.Cause(ctx)
		if errors.Is(cause, errShutdown) {
			return nil
		}
		got.err = withCause(cause, got.err)
	}
	if got.err != nil && !w.repeatable() && !w.resumable() {
		got.err = asOutcomeUnknown(w, writ.AsError(got.err))
	}
	result := a.answer(w, started, got)
	a.counts.recordJob(w.operation.Name(), max(a.now().Sub(started), 0), result)
	if a.record != nil {
		a.record(spanOf(w.job, a.member.Name(), started, a.now(), result))
	}
	if result.Error != nil && result.Error.Code == writ.CodeResourceConflict {
		if now, err := a.observe(w); err == nil && now.Exists && now.UID != w.job.UID {
			result.Found = now.UID
		}
	}
	recorded := a.finish(w, result)
	if recorded == result {
		deleteResult(w.ctx, a, w)
	}
	return recorded
}

// deleteResult deletes the result that a driver has stored for a job, because the answer of the job is recorded. The
// runner may have ended between the two, so a later delivery of the job deletes it as well.
func deleteResult(ctx context.Context, a *acts, w *work) {
	resuming, ok := w.driver.(sal.Resuming)
	if !ok || w.operation.Repeat != catalog.Resume {
		return
	}
	if err := resuming.DeleteResult(ctx, a.request(ctx, w)); err != nil {
		a.log.WarnContext(ctx, "delete the result of a program", "run", w.job.Run, "seq", w.job.Seq, "err", err)
	}
}

// do calls the driver. It recovers a panic of the driver and masks secrets in its answer.
func (a *acts) do(ctx context.Context, w *work) (got attempt) {
	defer func() {
		if p := recover(); p != nil {
			got = attempt{err: fmt.Errorf("the driver panicked: %v\n%s", p, debug.Stack())}
		}
		got = w.mask.attempt(got)
	}()
	if w.operation.Effect != catalog.Look {
		defer a.keeper.states.Forget(w.resource()) // while the job holds the lock
	}
	got.Outcome, got.err = a.keeper.meter.charged(ctx, w,
		func() (sal.Outcome, error) { return w.driver.Do(ctx, a.request(ctx, w)) })
	return got
}

// abandon stops waiting for a driver that ignores its deadline. The resource stays locked until the driver returns. Its
// late result is still recorded and sent.
func (a *acts) abandon(ctx context.Context, w *work, started time.Time, done <-chan attempt) {
	log := a.log.With("run", w.job.Run, "seq", w.job.Seq, "op", w.job.Operation)
	log.WarnContext(ctx, "driver ignores its deadline; its resource stays locked",
		"resource", w.resource().String(), "err", context.Cause(ctx))
	a.desk.markStuck(w, a.now())
	go func() { // ends when the driver returns; shutdown does not wait for it
		got := <-done
		log.InfoContext(ctx, "stuck driver has returned; its resource is free again", "err", got.err)
		if result := a.conclude(ctx, w, started, got); result != nil {
			a.outbox.post(result, w.job.Until())
		}
		w.lock.Release()
		a.keeper.deaths.Watch(w.driver, w.resource())
		a.desk.leave(w)
	}()
}

// finish records a result. If the journal cannot be written, a repeatable job is answered with that error. For any
// other job, finish retries until the result is recorded, because a lost result could lead to a second execution.
// finish returns nil if the runner stops first.
func (a *acts) finish(w *work, result *writ.Result) *writ.Result {
	once := !w.repeatable() && !w.resumable() // a continued job may have no row yet
	for {
		err := a.store.note(w.ctx, a.journal.Finish(context.WithoutCancel(w.ctx), w.job, result, once))
		switch {
		case err == nil:
			return result
		case w.repeatable():
			return a.refuseUnrecorded(w.ctx, w, doneUnrecorded(w, result, err))
		case sleep.For(a.working, retryAfter) != nil:
			return nil
		}
	}
}

// doneUnrecorded returns the error of a repeatable job whose outcome could not be recorded. Unlike a job that never
// started, it has used up an attempt and its effects exist, so the message contains the outcome.
func doneUnrecorded(w *work, result *writ.Result, why error) error {
	how := w.job.Operation + " was carried out"
	if result.Error != nil {
		how = fmt.Sprintf("%s failed (%v)", w.job.Operation, result.Error)
	}
	return writ.Errorf(writ.CodeStoreUnavailable, "%s, but the node cannot record the result: %v", how, why).
		WithHint("free space on the node's disk; the call is retried automatically and finds the existing resource")
}

// refuse answers a job without acting and returns the recorded answer. It returns nil to leave the job to another
// delivery: if the runner stops, if the start-by time is over, or if another delivery can continue the job.
func (a *acts) refuse(ctx context.Context, w *work, why error) *writ.Result {
	switch {
	case errors.Is(why, errShutdown) || errors.Is(why, errStartBy):
		return nil
	case writ.CodeOf(why) == writ.CodeNodeStore:
		return a.refuseUnrecorded(ctx, w, why)
	case w.resumable() && writ.AsError(why).Retryable() && a.wasInterrupted(ctx, w):
		return nil // the next delivery continues it
	}
	return a.recordAnswer(ctx, w, func(before *journal.Entry) *writ.Result {
		if before != nil && before.Incarnation < a.number && !w.repeatable() &&
			writ.CodeOf(why) != writ.CodeOutcomeUnknown {
			// An earlier incarnation may have carried the job out, and a retry would repeat it. So the answer to every such
			// job is OUTCOME_UNKNOWN.
			return a.answer(w, w.taken, attempt{err: outcomeUnknown(w)})
		}
		return a.answer(w, w.taken, attempt{err: why})
	})
}

// wasInterrupted reports whether an earlier incarnation started the job and did not finish it. It also returns true if
// the journal cannot be read.
func (a *acts) wasInterrupted(ctx context.Context, w *work) bool {
	entry, err := a.journal.Find(context.WithoutCancel(ctx), w.job.JobKey)
	return err != nil || entry != nil && entry.Result == nil && entry.Incarnation < a.number
}

// answerAs answers a job with the result of an earlier attempt of its call.
func (a *acts) answerAs(ctx context.Context, w *work, done *writ.Result) *writ.Result {
	return a.recordAnswer(ctx, w, func(*journal.Entry) *writ.Result {
		same := *done
		same.JobKey, same.Job = w.job.JobKey, w.digest
		return &same
	})
}

// recordAnswer records the answer to a job that is not carried out, unless the job already has one. It returns the
// recorded answer.
func (a *acts) recordAnswer(
	ctx context.Context, w *work, answer func(before *journal.Entry) *writ.Result,
) *writ.Result {
	refused := false
	result, err := a.journal.Refuse(context.WithoutCancel(ctx), w.job, w.digest, a.number,
		func(before *journal.Entry) *writ.Result {
			refused = true
			return answer(before)
		})
	if err := a.store.note(ctx, err); err != nil {
		return a.refuseUnrecorded(ctx, w, err)
	}
	if refused {
		a.counts.recordRefusal(result)
	} else {
		a.counts.repeated.Inc()
	}
	return result
}

// refuseUnrecorded answers a job while the journal cannot be written. It returns the recorded result if there is one.
// Otherwise the answer is the error `why`, which makes the supervisor send another attempt. refuseUnrecorded returns
// nil if another attempt could repeat a job that is not repeatable, or if the journal cannot be read.
func (a *acts) refuseUnrecorded(ctx context.Context, w *work, why error) *writ.Result {
	entry, err := a.journal.Find(context.WithoutCancel(ctx), w.job.JobKey)
	switch {
	case err != nil:
		return nil
	case entry != nil && entry.Result != nil:
		return entry.Result
	case entry != nil && entry.Incarnation < a.number && !w.repeatable():
		return nil
	}
	result := a.answer(w, w.taken, attempt{err: why})
	a.counts.recordRefusal(result)
	return result
}

// answer builds the result of a job.
func (a *acts) answer(w *work, started time.Time, got attempt) *writ.Result {
	result := &writ.Result{
		JobKey: w.job.JobKey, Job: w.digest, Node: a.node, Driver: w.about.Name, Simulated: w.about.Simulated,
		Started: started.UnixMilli(), Ended: a.now().UnixMilli(), Boot: a.boot, Incarnation: a.number,
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
		a.log.ErrorContext(w.ctx, "job failed by a defect of writ",
			"run", w.job.Run, "seq", w.job.Seq, "op", w.job.Operation, "err", got.err)
	}
	result.Error = &writ.Error{Code: e.Code, Message: clip.OneLine(e.Message, maxMessage), Hint: clip.OneLine(e.Hint, maxMessage)}
	return result
}

// checkValues checks that the values of an outcome can be journaled, signed and decoded again.
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
		err = cbor.Unmarshal(encoded, &again) // rejects strings that are not valid UTF-8
	}
	if err != nil {
		return fmt.Errorf("check the driver's values: %w", err)
	}
	if len(encoded) > maxValues {
		return writ.Errorf(writ.CodeScriptLimit, "the result has %d KiB, the limit is %d", len(encoded)>>10,
			maxValues>>10)
	}
	return nil
}

// fit clips the texts of a driver's description. Some of these texts are output of other programs.
func fit(about writ.NodeDriver) writ.NodeDriver {
	about.Name = clip.OneLine(about.Name, maxSentence)
	about.Detail = clip.OneLine(about.Detail, maxMessage)
	about.Lacks = clip.OneLine(about.Lacks, maxMessage)
	about.Engines = slices.Clone(about.Engines)
	for i := range about.Engines {
		e := &about.Engines[i]
		e.Name = clip.OneLine(e.Name, maxSentence)
		e.Version = clip.OneLine(e.Version, maxSentence)
		e.Refused = clip.OneLine(e.Refused, maxMessage)
	}
	return about
}

// withCause returns an error with the code of cause, which ended the job's context, and appends the driver's message.
func withCause(cause, err error) error {
	why := *writ.AsError(cause)
	if e, ok := errors.AsType[*writ.Error](err); ok && e.Code != why.Code {
		why.Message += ": " + e.Message
	}
	why.Err = err
	return &why
}

const outcomeHint = "inspect the resource; if repeating is harmless, set idempotent: true in the call's options"

func outcomeUnknown(w *work) *writ.Error {
	return writ.Errorf(writ.CodeOutcomeUnknown, "the node stopped during %s; its outcome is unknown", w.job.Operation).
		WithHint(outcomeHint)
}

// asOutcomeUnknown converts the failure of a job that must not be repeated. A retryable error or DRIVER_REFUSED may
// follow a partial execution and could lead to a second one, so it becomes OUTCOME_UNKNOWN. Other errors are returned
// unchanged.
func asOutcomeUnknown(w *work, failed *writ.Error) *writ.Error {
	if !failed.Retryable() && failed.Code != writ.CodeDriverRefused || failed.Code.Info().Kind != writ.Failed {
		return failed
	}
	unknown := writ.Errorf(writ.CodeOutcomeUnknown, "%s failed, possibly after partial effects: %s: %w",
		w.job.Operation, failed.Code, failed)
	return unknown.WithHint(outcomeHint)
}

// outcomeUnknown returns the error of an interrupted job, with the current state of its resource.
func (a *acts) outcomeUnknown(w *work) *writ.Error {
	unknown := outcomeUnknown(w)
	resource := w.resource()
	if resource == (writ.ResourceID{}) {
		return unknown
	}
	switch now, err := a.observe(w); {
	case err != nil:
		a.log.WarnContext(w.ctx, "inspect the resource of an interrupted job", "run", w.job.Run, "seq", w.job.Seq,
			"op", w.job.Operation, "err", err)
	case !now.Exists:
		unknown.Message += "; the " + resource.String() + " does not exist now"
	default:
		unknown.Message += "; the " + resource.String() + " exists now and is " + now.State
	}
	return unknown
}

// observe asks the driver for the current state of a job's resource.
func (a *acts) observe(w *work) (sal.Observation, error) {
	ctx, stop := context.WithTimeout(w.ctx, observeFor)
	defer stop()
	type sight struct {
		sal.Observation
		err error
	}
	seen := make(chan sight, 1)
	go func() { // ends when the driver returns
		var s sight
		defer func() {
			if p := recover(); p != nil {
				s.err = fmt.Errorf("the driver panicked: %v\n%s", p, debug.Stack())
			}
			seen <- s
		}()
		s.Observation, s.err = w.driver.Observe(ctx, w.resource())
	}()
	select {
	case s := <-seen:
		return s.Observation, s.err
	case <-ctx.Done():
		return sal.Observation{}, context.Cause(ctx)
	}
}
