package containerd

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/errdefs"

	"writ"
	"writ/internal/sleep"
	"writ/sal"
	"writ/sal/logfile"
)

// A container of container.run exists until its program has ended. Its record is in phase making until the process is
// made. The record enters phase pending before the program is started. In this phase, no further process is made. So a
// process in the state Created has not started, and the program of a missing process may have run. In phase finished,
// the record contains the exit code. The result is stored before the container is removed, and the record is removed
// last. See docs/decisions/0069.

const (
	// stopGrace is the time for a program to exit when its call is cancelled or exceeds its time limit.
	stopGrace = time.Second
	// maxReruns limits the repetitions of a repeatable program whose outcome is unknown, in one call.
	maxReruns = 3
)

// runState is the part of a record for container.run.
type runState struct {
	Until     time.Time `json:"until"`               // time limit of the attempt; later, Keep ends the program
	CallUntil time.Time `json:"call_until"`          // see sal.CallHistory
	Abandoned bool      `json:"abandoned,omitempty"` // the call was cancelled or exceeded its time limit
}

// isOver reports whether no attempt waits for the program any more.
func (s *runState) isOver() bool {
	return s.Abandoned || !s.Until.IsZero() && time.Now().After(s.Until)
}

// isRun reports whether a record belongs to a call of container.run.
func isRun(r *record) bool { return r != nil && r.Own.Run != nil }

var _ sal.Resuming = (*Driver)(nil)

// DeleteResult implements sal.Resuming.
func (d *Driver) DeleteResult(_ context.Context, request sal.Request) error {
	return resultsOf(d).DeleteReturned(request)
}

func resultsOf(d *Driver) *sal.Results {
	return &sal.Results{Dir: filepath.Join(d.Dir, "results"), Step: d.Step.step}
}

// runProgram implements container.run. If the outcome of a repeatable program is unknown, it runs the program again, at
// most maxReruns times.
func runProgram(ctx context.Context, j *job) (sal.Outcome, error) {
	for reruns := 0; ; reruns++ {
		ended, err := resultOf(ctx, j)
		if err != nil {
			return sal.Outcome{}, err
		}
		if ended.Unknown == "" || !j.Call.Repeatable || reruns == maxReruns {
			return ended.Outcome(j.Request, false)
		}
	}
}

// resultOf returns the result of the program. It runs the program unless an earlier job of the call has started it.
func resultOf(ctx context.Context, j *job) (*sal.Ended, error) {
	results := resultsOf(j.Driver)
	if err := results.Prune(time.Now(), j.Call); err != nil {
		return nil, err
	}
	r, err := recordOfRun(ctx, j)
	if err != nil {
		return nil, err
	}
	var ended *sal.Ended
	if r == nil {
		if ended, err = results.Find(j.Request); err == nil && ended == nil {
			r, err = launch(ctx, j)
		}
	}
	if err == nil && r != nil {
		ended, err = follow(ctx, j, r)
	}
	if err != nil {
		return nil, err
	}
	return ended, results.MarkReturned(j.Request, ended)
}

// recordOfRun returns the record of an interrupted job of the call, or nil if the name is free. If the name is in use,
// it returns RESOURCE_CONFLICT or RESOURCE_BUSY.
func recordOfRun(ctx context.Context, j *job) (*record, error) {
	records := recordsIn(j.Dir)
	r, err := records.Get(j.Resource)
	if err != nil || r == nil {
		return nil, err
	}
	switch {
	case r.Own.Phase == making || r.Own.Phase == deleting: // no program has run, or its result is stored
		return nil, j.clear(ctx, r)
	case !isRun(r):
		if err := r.Owned(j.Request); err != nil {
			return nil, err
		}
		return nil, writ.Errorf(writ.CodeResourceConflict, "%s exists", r.Resource).WithHint("use another name")
	case r.UID == j.UID:
		return r, nil
	}
	// The datacenter has given up the call of this record.
	if err := releaseName(ctx, j, r); err != nil {
		return nil, err
	}
	return nil, nil
}

// releaseName removes the container of an earlier call whose program has ended. It returns RESOURCE_BUSY if the program
// still runs.
func releaseName(ctx context.Context, j *job, r *record) error {
	now, err := inspect(ctx, j.daemon, r.Own.Container)
	if err != nil {
		return err
	}
	if now.running() && !r.Own.Run.isOver() {
		return writ.Errorf(writ.CodeResourceBusy, "the program of an earlier container.run still runs as %s", r.Resource).
			WithHint("it ends at %s at the latest; use another name until then", r.Own.Run.Until.UTC().Format(time.RFC3339))
	}
	return concludeUnasked(ctx, j, r)
}

// launch makes the container without starting its program. If it fails, it removes the container.
func launch(ctx context.Context, j *job) (*record, error) {
	plan, err := j.plan(ctx)
	if err != nil {
		return nil, err
	}
	r := sal.NewRecord[own](j.Request)
	r.Own.Other, r.Own.Run = nextID(r), &runState{CallUntil: j.Call.Until}
	r.Own.Run.Until, _ = ctx.Deadline()
	if err := j.recordMaking(ctx, r); err != nil {
		return nil, err
	}
	if err := j.build(ctx, r, plan, false); err != nil {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
		defer cancel()
		return nil, errors.Join(err, j.clear(undo, r))
	}
	return r, nil
}

// follow starts the program if it has not started, and waits until it has ended. If ctx ends, it ends the program, but
// not if the runner stops.
func follow(ctx context.Context, j *job, r *record) (*sal.Ended, error) {
	if err := extend(ctx, j, r); err != nil {
		return nil, err
	}
	for {
		if r.Own.Phase == finished {
			return concludeAsked(ctx, j, r)
		}
		if r.Own.Run.Abandoned || ctx.Err() != nil {
			return stopProgram(ctx, j, r)
		}
		now, err := inspect(ctx, j.daemon, r.Own.Container)
		switch {
		case err != nil:
			pause(ctx, j, err)
			continue
		case now.status == client.Stopped:
			err = recordExit(j, r, now)
		case now.status == "":
			return storeUnknown(ctx, j, r, 0, "its process is gone; the node was restarted, or containerd has lost it")
		case now.status == client.Created:
			err = startProgram(ctx, j, r)
		default:
			awaitEnd(ctx, j, r)
		}
		if err != nil {
			return nil, err
		}
	}
}

// extend records a later time limit, if the job was sent again.
func extend(ctx context.Context, j *job, r *record) error {
	until, limited := ctx.Deadline()
	if !limited || !until.After(r.Own.Run.Until) || r.Own.Run.Abandoned {
		return nil
	}
	r.Own.Run.Until, r.Own.Run.CallUntil = until, j.Call.Until
	return j.put(r, r.Own.Phase)
}

// pause waits before the daemon is asked again.
func pause(ctx context.Context, j *job, why error) {
	j.Progress("waiting for containerd: " + why.Error())
	_ = sleep.For(ctx, again)
}

// startProgram starts a created process. A cancelled start might still begin later, so the start does not end with ctx.
func startProgram(ctx context.Context, j *job, r *record) error {
	// A runner that ended after it had made the process may have left a stage.
	if err := stageOf(j.Driver, r.Own.Container).Clear(); err != nil {
		return err
	}
	task, err := j.task(ctx, r.Own.Container)
	if err != nil {
		pause(ctx, j, err)
		return nil
	}
	starting, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	j.Step.step("start the program")
	if err := task.Start(starting); err == nil {
		j.Progress("the program runs")
		return nil
	} else if now, e := inspect(starting, j.daemon, r.Own.Container); e == nil && now.status == client.Created &&
		isRefusal(err) {
		return errors.Join(notStarted("start "+r.Resource.String(), err), j.clear(starting, r))
	} else if ctx.Err() == nil {
		pause(ctx, j, err)
	}
	return nil
}

// isRefusal reports whether the daemon has answered a request with an error, so that the request has no later effect.
func isRefusal(err error) bool {
	return !errdefs.IsUnavailable(err) && !errdefs.IsDeadlineExceeded(err) && !errdefs.IsCanceled(err) &&
		!errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
}

// awaitEnd waits until the program has probably ended.
func awaitEnd(ctx context.Context, j *job, r *record) {
	waiting, cancel := context.WithTimeout(ctx, sweep) // a daemon that restarts may never answer Wait
	defer cancel()
	task, err := j.task(waiting, r.Own.Container)
	var ended <-chan client.ExitStatus
	if err == nil {
		ended, err = task.Wait(waiting)
	}
	if err == nil {
		select {
		case exit := <-ended:
			err = exit.Error()
		case <-waiting.Done():
		}
	}
	if err != nil && !gone(err) && waiting.Err() == nil {
		pause(ctx, j, err)
	}
}

// recordExit records how the program has ended.
func recordExit(j *job, r *record, now containerState) error {
	r.Own.LastExit = lastEnd(r, now, j.namespace())
	return j.put(r, finished)
}

// concludeAsked stores the result of an ended program for the attempt that waits for it.
func concludeAsked(ctx context.Context, j *job, r *record) (*sal.Ended, error) {
	secrets, err := masksIn(createArgs(j.Args))
	if err != nil {
		return nil, err
	}
	return conclude(ctx, j, r, func(log *logfile.Log) (string, error) {
		log.Secrets = secrets
		return log.End(maxOutput)
	})
}

// concludeUnasked ends a program and stores its result, without an attempt that waits for it.
func concludeUnasked(ctx context.Context, j *job, r *record) error {
	now, err := inspect(ctx, j.daemon, r.Own.Container)
	if err != nil {
		return err
	}
	if r.Own.Phase == pending && now.status == client.Stopped {
		if err := recordExit(j, r, now); err != nil {
			return err
		}
	}
	if r.Own.Phase != finished {
		_, err := storeUnknown(ctx, j, r, 0, stoppedReason)
		return err
	}
	secrets, err := secretsOf(ctx, j, r)
	isLost := !now.known && writ.CodeOf(err) == writ.CodeDriverRefused
	if err != nil && !isLost {
		return err
	}
	_, err = conclude(ctx, j, r, func(log *logfile.Log) (string, error) {
		if isLost { // only the daemon had the values of its secrets
			return "", nil
		}
		log.Secrets = secrets
		return log.End(maxOutput)
	})
	return err
}

// stoppedReason describes a program that was ended.
const stoppedReason = "it was ended, because the call was cancelled or exceeded its time limit"

// conclude stores the result of an ended program and removes its container. `read` reads an output. conclude continues
// after ctx has ended.
func conclude(
	ctx context.Context, j *job, r *record, read func(*logfile.Log) (string, error),
) (*sal.Ended, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	if err := j.end(ctx, nil, r.Own.Container, 0); err != nil { // with the process, its logger ends
		return nil, err
	}
	ended := sal.Ended{Exit: r.Own.LastExit.Exit, Until: r.Own.Run.CallUntil}
	path := j.logPath(r.Own.Container)
	var err error
	for to, path := range map[*string]string{&ended.Stdout: path, &ended.Stderr: errorLogPath(path)} {
		if *to, err = read(&logfile.Log{Path: path}); err != nil {
			return nil, sal.HostError("read the output of "+r.Resource.String(), err)
		}
	}
	return &ended, store(ctx, j, r, ended)
}

// storeUnknown stores that the outcome of the program is unknown, and removes its container. attempt is the number of
// the attempt that returns this result, or 0 if no attempt waits for it.
func storeUnknown(ctx context.Context, j *job, r *record, attempt int, why string) (*sal.Ended, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	if err := j.end(ctx, nil, r.Own.Container, stopGrace); err != nil {
		return nil, err
	}
	ended := sal.Ended{Unknown: why, Returned: attempt, Until: r.Own.Run.CallUntil}
	return &ended, store(ctx, j, r, ended)
}

func store(ctx context.Context, j *job, r *record, ended sal.Ended) error {
	if err := resultsOf(j.Driver).Put(r.Resource, r.UID, ended); err != nil {
		return err
	}
	return j.clear(ctx, r)
}

// stopProgram ends the program after the context of its call has ended. If the runner stops, the program continues to
// run. If the program has ended by itself, stopProgram returns its result.
func stopProgram(ctx context.Context, j *job, r *record) (*sal.Ended, error) {
	if errors.Is(context.Cause(ctx), sal.ErrStopping) {
		return nil, ctx.Err()
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	if !r.Own.Run.Abandoned {
		now, err := inspect(undo, j.daemon, r.Own.Container)
		if err == nil && now.status == client.Stopped {
			if err := recordExit(j, r, now); err != nil {
				return nil, err
			}
			return concludeAsked(ctx, j, r)
		}
		r.Own.Run.Abandoned = true // if the daemon is unreachable, Keep ends the program later
		if err := j.put(r, r.Own.Phase); err != nil {
			return nil, err
		}
	}
	ended, err := storeUnknown(undo, j, r, j.Call.Number(), stoppedReason)
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return ended, err
}

// recoverRun implements recovered for a record of container.run.
func recoverRun(ctx context.Context, j *job, r *record) (left, recovered *record, err error) {
	if err := keepRun(ctx, j, r); err != nil {
		return nil, nil, err
	}
	r, err = recordsIn(j.Dir).Get(r.Resource)
	return nil, r, err
}

// keepRun ends and removes a program after the time limit of its attempt. Before the time limit, the supervisor may
// send the job again.
func keepRun(ctx context.Context, j *job, r *record) error {
	switch {
	case !r.Own.Run.isOver():
		return nil
	case r.Own.Phase == making:
		return j.clear(ctx, r)
	default:
		return concludeUnasked(ctx, j, r)
	}
}
