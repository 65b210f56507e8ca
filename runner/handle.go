package runner

import (
	"context"
	"crypto/ed25519"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/runner/hosted"
	"writ/runner/journal"
	"writ/runner/queue"
	"writ/sal/catalog"
)

// Causes of a job context's end.
var (
	errCancelled = writ.Errorf(writ.CodeRunCancelled, "the run was cancelled")
	errGivenUp   = writ.Errorf(writ.CodeRunCancelled, "the call was given up")
	errEndBy     = writ.Errorf(writ.CodeDeadlineExceeded, "the call did not end before its deadline")
	// Never sent as an answer: another delivery may be on its way.
	errStartBy = errors.New("the job could not start before its start-by time")
)

// handle processes a delivery from the queue. It returns once the answer is recorded and the transport has accepted it,
// so a later beat without the job always follows its result.
func (n *incarnation) handle(accepting context.Context, task queue.Task) {
	now := n.now()
	job, digest, err := n.open(task.Body, now)
	if err != nil {
		n.drop(accepting, "delivery", task.ID, err)
		return
	}
	w := n.desk.enter(n.working, job, digest, now)
	if w == nil {
		n.counts.repeated.Add(1)
		return // the job is in progress; its result answers this delivery too
	}
	defer func() {
		if w.stuck.IsZero() {
			n.desk.leave(w)
		}
	}()
	// Checked while the job is on the desk: an inventory therefore includes this job, or the job is not carried out.
	if epoch := n.epoch.Load(); job.Epoch < epoch {
		n.drop(accepting, "delivery", task.ID,
			writ.Errorf(writ.CodeConflict, "its epoch is %d, the node has seen %d", job.Epoch, epoch))
		return
	}
	if result := n.carryOut(accepting, w); result != nil {
		// An older answer: a supervisor restored from a backup knows only the jobs it has sent since then.
		if result.Job != digest {
			again := *result
			again.Job = digest
			result = &again
		}
		select {
		case <-n.outbox.post(result, job.Until()):
		case <-n.working.Done(): // recorded; the next incarnation sends it
		}
	}
}

// open opens the envelope of a job and checks everything that does not need its entry: signer, recipient and time. It
// does not check the epoch. A job that arrives too late is left to the supervisor, which knows whether another delivery
// is on its way.
func (n *incarnation) open(body []byte, now time.Time) (*writ.Job, writ.Digest, error) {
	job, digest, err := envelope.OpenWith[writ.Job](n.opener, envelope.Job, body)
	if err != nil {
		return nil, digest, err
	}
	switch {
	case job.Node != n.node || job.Datacenter != n.member.Datacenter() || job.Cluster != n.member.Roster().Cluster:
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

// carryOut carries the job out, or determines why it must not, and returns the recorded answer. nil leaves the job to
// another delivery.
func (n *incarnation) carryOut(accepting context.Context, w *work) *writ.Result {
	defer func() {
		if w.release != nil {
			w.release()
		}
		if w.stuck.IsZero() {
			w.lock.Release()
			n.keeper.deaths.Watch(w.driver, w.resource())
		}
	}()
	if w.job.Delivery > 1 { // only a shortcut: the steps below would find the entry too
		entry, err := n.journal.Find(accepting, w.job.JobKey)
		if err == nil && entry != nil && entry.Result != nil {
			n.counts.repeated.Add(1)
			return entry.Result
		}
	}
	past, err := n.prepare(accepting, w)
	switch {
	case err != nil:
		return n.refuse(accepting, w, err)
	case past == nil:
		return n.act(w)
	case past.Entry != nil && past.Entry.Result != nil:
		n.counts.repeated.Add(1)
		return past.Entry.Result
	case past.Later:
		return n.refuse(accepting, w, writ.Errorf(writ.CodeAttemptGivenUp,
			"attempt %d was given up: a later attempt of the call arrived before it", w.job.Attempt))
	case !w.repeatable():
		return n.notAgain(accepting, w, past)
	}
	n.log.InfoContext(accepting, "job continued", "run", w.job.Run, "seq", w.job.Seq, "op", w.job.Operation)
	return n.act(w)
}

// notAgain answers a job that must not be repeated and that may have been carried out, by this attempt or an earlier
// one.
func (n *incarnation) notAgain(accepting context.Context, w *work, past *journal.Past) *writ.Result {
	interrupted := past.Entry != nil && past.Entry.Incarnation < n.number
	switch {
	case !interrupted && past.Done != nil:
		return n.answerAs(accepting, w, past.Done)
	case interrupted || past.Unclear:
		return n.refuse(accepting, w, n.outcomeUnknown(w))
	}
	return n.act(w) // it was recorded as started, but was not
}

// prepare does everything before acting: decode, wait for more of a log and for the resource, check the permit, wait
// for a slot, record. It returns the earlier state of the job if that forbids acting.
func (n *incarnation) prepare(accepting context.Context, w *work) (*journal.Past, error) {
	if stuck := n.desk.stuck(); len(stuck) >= n.slots {
		return nil, writ.Errorf(writ.CodeResourceBusy,
			"the drivers of %d jobs ignore their deadlines, for example that of job %s", len(stuck), stuck[0].JobKey)
	}
	if err := n.raiseEpoch(accepting, w.job.Epoch); err != nil {
		return nil, err
	}
	if err := n.decode(w); err != nil {
		return nil, err
	}
	early, cut := context.WithCancelCause(w.ctx)
	defer cut(nil)
	defer context.AfterFunc(accepting, func() { cut(errShutdown) })()
	startBy := w.job.StartBy
	if patience, _ := w.waits(); patience > 0 {
		if err := n.await(early, w); err != nil {
			return nil, err
		}
		startBy = max(startBy, n.now().Add(observeFor).UnixMilli()) // the wait began in time
	}
	early, stop := n.until(early, startBy, errStartBy)
	defer stop()

	if resource := w.resource(); resource != (writ.ResourceID{}) {
		w.lock = n.locks.Request(resource, hosted.Holder{Job: w.job.JobKey})
		if err := w.lock.Wait(early); errors.Is(err, errStartBy) {
			holder := w.lock.Holder()
			if slices.ContainsFunc(n.desk.stuck(), func(w writ.Stuck) bool { return w.JobKey == holder.Job }) {
				return nil, writ.Errorf(writ.CodeResourceBusy,
					"the driver of the job %s ignores its deadline and still works on the %s", holder.Job, resource)
			}
			return nil, writ.Errorf(writ.CodeResourceBusy, "%s", holder.Works(resource))
		} else if err != nil {
			return nil, err
		}
	}
	if w.operation.Signed() {
		if err := n.permits.check(early, w.job, w.operation); err != nil {
			if cause := context.Cause(early); cause != nil && !errors.Is(cause, errStartBy) {
				return nil, cause
			}
			n.warnOfUnsigned(accepting, w, err)
			return nil, err
		}
	}
	if err := n.enter(early, w); err != nil {
		return nil, err
	}
	if accepting.Err() != nil {
		return nil, errShutdown
	}
	if early.Err() != nil {
		return nil, context.Cause(early)
	}
	if err := n.store.get(); err != nil && w.repeatable() {
		return nil, n.noteStore(accepting, err) // jobs with an entry detect it when they write
	}
	past, err := n.journal.Start(context.WithoutCancel(accepting), w.job, w.digest, n.number, !w.repeatable())
	return past, n.noteStore(accepting, err)
}

// warnOfUnsigned logs a job without a valid signature of a person. An honest supervisor sends one only while its roster
// and the node's differ, so repeated warnings indicate a stolen supervisor key.
func (n *incarnation) warnOfUnsigned(ctx context.Context, w *work, why error) {
	e := writ.AsError(why)
	if !e.Decided() {
		return
	}
	if times, say := n.lines.Say("unsigned "+string(e.Code), time.Now()); say {
		n.log.WarnContext(ctx, "refused a job without a person's signature: the supervisor's key may be stolen",
			"run", w.job.Run, "seq", w.job.Seq, "op", w.job.Operation, "name", w.job.Name, "code", e.Code, "err", why,
			"times", times)
	}
}

// until returns a context that ends at the time end, in unix milliseconds by the node's clock. The remaining time is
// fixed at the call: later changes of the clock do not move it.
func (n *incarnation) until(parent context.Context, end int64, cause error) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(parent, time.UnixMilli(end).Sub(n.now()), cause)
}

// raiseEpoch records the epoch of an authentic message if it is higher than all before. It takes effect at once, even
// if it cannot be recorded: the node then ignores earlier epochs, reports the new one, and starts no job until the
// epoch is on disk.
func (n *incarnation) raiseEpoch(ctx context.Context, epoch int64) error {
	raise(&n.epoch, epoch)
	if epoch <= n.epochKept.Load() {
		return nil
	}
	if err := n.noteStore(ctx, n.journal.RaiseEpoch(context.WithoutCancel(ctx), epoch)); err != nil {
		return err
	}
	raise(&n.epochKept, epoch)
	return nil
}

// raise sets number to n if n is larger.
func raise(number *atomic.Int64, n int64) {
	for {
		known := number.Load()
		if n <= known || number.CompareAndSwap(known, n) {
			return
		}
	}
}

// supervisorKey returns the key of an envelope's signer. An unknown key may belong to a roster that the node does not
// have yet, so it also requests newer rosters.
func (n *incarnation) supervisorKey(id envelope.KeyID) (ed25519.PublicKey, error) {
	key, err := n.member.SupervisorKey(id)
	if err != nil {
		n.rosters.want(0)
	}
	return key, err
}

// decode looks up the operation and driver of a job and decodes its arguments, including secrets.
func (n *incarnation) decode(w *work) error {
	operation, ok := catalog.Lookup(w.job.Operation)
	if !ok {
		return writ.Errorf(writ.CodeDriverMissing, "the node does not know the operation %q", w.job.Operation)
	}
	w.operation = operation
	if w.driver = n.drivers[operation.Module]; w.driver == nil {
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
	secrets, err := n.reveal(w.job, operation)
	if err != nil {
		return err
	}
	w.mask = maskOf(secrets)
	if w.origin, err = n.origin(w.ctx, w); err != nil {
		return err
	}
	w.args, err = operation.DecodeWith(w.job.Args, secrets)
	return err
}
