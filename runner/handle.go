package runner

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/runner/hosted"
	"writ/runner/journal"
	"writ/runner/queue"
	"writ/sal"
	"writ/sal/catalog"
)

// Causes of a job context's end.
var (
	errCancelled = writ.Errorf(writ.CodeRunCancelled, "the run was cancelled")
	errGivenUp   = writ.Errorf(writ.CodeRunCancelled, "the call was given up")
	errEndBy     = writ.Errorf(writ.CodeDeadlineExceeded, "the call did not end before its deadline")
	// errStartBy is never sent as an answer, because another delivery may be on its way.
	errStartBy = errors.New("the job could not start before its start-by time")
)

// jobs handles the deliveries of the queue: it verifies and prepares each job, and lets acts carry it out.
type jobs struct {
	*base
	acts     *acts
	drivers  map[string]sal.Driver
	slots    int
	peers    []netip.Prefix
	opener   *envelope.Opener // opens jobs
	desk     *desk
	locks    *hosted.Locks
	slotPool *slotPool
	waiting  atomic.Int32 // jobs that wait for new lines of a log
	outbox   *outbox
	permits  *permits
	keeper   *keeper
	working  context.Context // parent of the contexts of all jobs
}

// handle processes a delivery from the queue. It returns once the answer is recorded and the transport has accepted it,
// so the supervisor receives the result before any beat that no longer lists the job.
func (j *jobs) handle(accepting context.Context, task queue.Task) {
	now := j.now()
	job, digest, err := j.open(task.Body, now)
	if err != nil {
		j.drop(accepting, "delivery", task.ID, err)
		return
	}
	w := j.desk.enter(j.working, job, digest, now)
	if w == nil {
		j.counts.repeated.Inc()
		return // the job is in progress; its result answers this delivery too
	}
	defer func() {
		if w.stuck.IsZero() {
			j.desk.leave(w)
		}
	}()
	// The epoch is checked while the job is on the desk. Therefore either the inventory for a newer epoch includes this
	// job, or this check drops it.
	if epoch := j.epochs.highest(); job.Epoch < epoch {
		j.drop(accepting, "delivery", task.ID,
			writ.Errorf(writ.CodeConflict, "its epoch is %d, the node has seen %d", job.Epoch, epoch))
		return
	}
	if result := j.carryOut(accepting, w); result != nil {
		// The recorded answer has the digest of an earlier envelope of this job. A supervisor that was restored from a
		// backup accepts only the digests of envelopes that it sent afterwards.
		if result.Job != digest {
			again := *result
			again.Job = digest
			result = &again
		}
		select {
		case <-j.outbox.post(result, job.Until()):
		case <-j.working.Done(): // recorded; the next incarnation sends it
		}
	}
}

// open opens the envelope of a job and checks everything that does not need its journal entry: signer, recipient and
// time. It does not compare the epoch with earlier ones; handle does. A job that arrives too late gets no answer: only
// the supervisor can tell whether another delivery is on its way.
func (j *jobs) open(body []byte, now time.Time) (*writ.Job, writ.Digest, error) {
	job, digest, err := envelope.OpenWith[writ.Job](j.opener, envelope.Job, body)
	if err != nil {
		return nil, digest, err
	}
	switch {
	case job.Node != j.node || job.Datacenter != j.member.Datacenter() || job.Cluster != j.member.Roster().Cluster:
		err = writ.Errorf(writ.CodeBadRequest, "it is for node %s of datacenter %s", job.Node, job.Datacenter)
	case !job.Run.Valid() || job.Seq < 1 || job.Attempt < 1 || job.Delivery < 1:
		err = writ.Errorf(writ.CodeBadRequest, "%s is not the key of a job", job.TaskID())
	case now.After(time.UnixMilli(job.StartBy)) || now.After(time.UnixMilli(job.EndBy)):
		err = writ.Errorf(writ.CodeExpired, "it arrived too late: start-by %s, end-by %s",
			time.UnixMilli(job.StartBy).UTC(), time.UnixMilli(job.EndBy).UTC())
	default:
		err = writ.CheckEpoch(job.Epoch, now)
	}
	return &job, digest, err
}

// carryOut carries the job out, or determines why it must not, and returns the recorded answer. A nil answer leaves the
// job to another delivery.
func (j *jobs) carryOut(accepting context.Context, w *work) *writ.Result {
	defer func() {
		if w.release != nil {
			w.release()
		}
		if w.stuck.IsZero() {
			w.lock.Release()
			j.keeper.deaths.Watch(w.driver, w.resource())
		}
	}()
	operation, known := catalog.Lookup(w.job.Operation)
	resumes := known && operation.Repeat == catalog.Resume
	if w.job.Delivery > 1 || resumes {
		// For other jobs it is only a shortcut: the steps below would find the entry too. They do not reach it if the run
		// has ended meanwhile.
		entry, err := j.journal.Find(accepting, w.job.JobKey)
		if err == nil && entry != nil && entry.Result != nil {
			j.counts.repeated.Inc()
			if resumes && j.decode(w) == nil {
				deleteResult(accepting, j.acts, w)
			}
			return entry.Result
		}
	}
	past, err := j.prepare(accepting, w)
	switch {
	case err != nil:
		return j.acts.refuse(accepting, w, err)
	case past == nil:
		return j.acts.act(w)
	case past.Entry != nil && past.Entry.Result != nil:
		j.counts.repeated.Inc()
		return past.Entry.Result
	case past.Later:
		return j.acts.refuse(accepting, w, writ.Errorf(writ.CodeAttemptGivenUp,
			"attempt %d was given up: a later attempt of the call arrived before it", w.job.Attempt))
	case !w.repeatable():
		return j.notAgain(accepting, w, past)
	}
	j.log.InfoContext(accepting, "job continued", "run", w.job.Run, "seq", w.job.Seq, "op", w.job.Operation)
	return j.acts.act(w)
}

// notAgain handles a job that must not be repeated and that may have been carried out, by this attempt or an earlier
// one. If the driver can continue an interrupted execution, notAgain calls the driver.
func (j *jobs) notAgain(accepting context.Context, w *work, past *journal.Past) *writ.Result {
	interrupted := past.Entry != nil && past.Entry.Incarnation < j.number
	switch failed := past.Failed; {
	case !interrupted && past.Done != nil:
		return j.acts.answerAs(accepting, w, past.Done)
	case w.resumable() && !interrupted && failed != nil && failed.Error.Code == writ.CodeProgramFailed:
		return j.acts.answerAs(accepting, w, failed)
	case w.resumable() && (interrupted || failed == nil):
		j.log.InfoContext(accepting, "job continued", "run", w.job.Run, "seq", w.job.Seq, "op", w.job.Operation)
		return j.acts.act(w)
	case interrupted || past.Unclear:
		return j.acts.refuse(accepting, w, j.acts.outcomeUnknown(w))
	}
	return j.acts.act(w) // this incarnation recorded the start, but did not act
}

// prepare takes all steps before the driver call: decode the job, wait for new log lines, lock the resource, check the
// permit, wait for a slot, record the start. If earlier records of the call forbid the execution, prepare returns them.
func (j *jobs) prepare(accepting context.Context, w *work) (*journal.Past, error) {
	if stuck := j.desk.stuck(); len(stuck) >= j.slots {
		return nil, writ.Errorf(writ.CodeResourceBusy,
			"the drivers of %d jobs ignore their deadlines, for example the driver of job %s", len(stuck), stuck[0].JobKey)
	}
	if err := j.epochs.raise(accepting, w.job.Epoch); err != nil {
		return nil, err
	}
	if err := j.decode(w); err != nil {
		return nil, err
	}
	early, cut := context.WithCancelCause(w.ctx)
	defer cut(nil)
	defer context.AfterFunc(accepting, func() { cut(errShutdown) })()
	startBy := w.job.StartBy
	if patience, _ := w.waits(); patience > 0 {
		if err := j.await(early, w); err != nil {
			return nil, err
		}
		startBy = max(startBy, j.now().Add(observeFor).UnixMilli()) // the wait for the log may exceed StartBy
	}
	early, stop := until(early, j.now(), startBy, errStartBy)
	defer stop()

	if resource := w.resource(); resource != (writ.ResourceID{}) {
		w.lock = j.locks.Request(resource, hosted.Holder{Job: w.job.JobKey})
		if err := w.lock.Wait(early); errors.Is(err, errStartBy) {
			holder := w.lock.Holder()
			if slices.ContainsFunc(j.desk.stuck(), func(w writ.Stuck) bool { return w.JobKey == holder.Job }) {
				return nil, writ.Errorf(writ.CodeResourceBusy,
					"the driver of the job %s ignores its deadline and still works on the %s", holder.Job, resource)
			}
			return nil, writ.Errorf(writ.CodeResourceBusy, "%s", holder.Works(resource))
		} else if err != nil {
			return nil, err
		}
	}
	if err := j.permit(accepting, early, w); err != nil {
		return nil, err
	}
	if err := j.enter(early, w); err != nil {
		return nil, err
	}
	if err := j.permit(accepting, early, w); err != nil { // the run may have ended during the wait for a slot
		return nil, err
	}
	if accepting.Err() != nil {
		return nil, errShutdown
	}
	if early.Err() != nil {
		return nil, context.Cause(early)
	}
	if err := j.store.get(); err != nil && w.repeatable() {
		return nil, j.store.note(accepting, err) // other jobs detect the failure when Start writes
	}
	past, err := j.journal.Start(context.WithoutCancel(accepting), w.job, w.digest, j.number, !w.repeatable())
	return past, j.store.note(accepting, err)
}

// permit checks that a person signed for the job and that its run is open. early ends when the job must not start any
// more.
func (j *jobs) permit(accepting, early context.Context, w *work) error {
	if !w.operation.Signed() {
		return nil
	}
	err := j.permits.check(early, w.job, w.operation)
	if err == nil {
		return nil
	}
	if cause := context.Cause(early); cause != nil && !errors.Is(cause, errStartBy) {
		return cause
	}
	j.warnOfUnsigned(accepting, w, err)
	return err
}

// warnOfUnsigned logs a job without a valid signature of a person. An honest supervisor sends such a job only while its
// roster differs from the node's, so repeated warnings indicate a stolen supervisor key.
func (j *jobs) warnOfUnsigned(ctx context.Context, w *work, why error) {
	e := writ.AsError(why)
	if !e.Decided() || e.Code == writ.CodeRunCancelled {
		return
	}
	if times, say := j.lines.Say("unsigned "+string(e.Code), time.Now()); say {
		j.log.WarnContext(ctx, "refused a job without a person's signature: the supervisor's key may be stolen",
			"run", w.job.Run, "seq", w.job.Seq, "op", w.job.Operation, "name", w.job.Name, "code", e.Code, "err", why,
			"times", times)
	}
}

// until returns a context that ends at the time `end`, in unix milliseconds of the node's clock; `now` is that clock's
// current time. The remaining time is fixed at the call, so later changes of the clock do not affect it.
func until(parent context.Context, now time.Time, end int64, cause error) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(parent, time.UnixMilli(end).Sub(now), cause)
}

// decode looks up the operation and driver of a job and decodes its arguments, including secrets.
func (j *jobs) decode(w *work) error {
	operation, ok := catalog.Lookup(w.job.Operation)
	if !ok {
		return writ.Errorf(writ.CodeDriverMissing, "the node does not know the operation %q", w.job.Operation)
	}
	w.operation = operation
	if w.driver = j.drivers[operation.Module]; w.driver == nil {
		return writ.Errorf(writ.CodeDriverMissing, "the node has no driver for %s", operation.Name())
	}
	w.about = w.driver.Describe()
	switch {
	case operation.Named() != (w.job.Name != ""):
		return writ.Errorf(writ.CodeArgumentsInvalid, "%s does not match the name %q", operation.Name(), w.job.Name)
	case operation.Named() &&
		!(writ.ValidName(w.job.Name) && writ.ValidUUID(string(w.job.Project)) && writ.ValidUUID(string(w.job.UID))):
		return writ.Errorf(writ.CodeArgumentsInvalid, "project, name and uid do not name a resource")
	}
	secrets, err := j.reveal(w.job, operation)
	if err != nil {
		return err
	}
	w.mask = maskOf(secrets)
	if w.origin, err = j.origin(w.ctx, w); err != nil {
		return err
	}
	w.args, err = operation.DecodeWith(w.job.Args, secrets)
	return err
}
