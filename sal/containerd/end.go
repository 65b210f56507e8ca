package containerd

import (
	"cmp"
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"writ/sal/catalog"
	"writ/sal/containerd/runtimespec"
)

// stopSignal returns the signal that ends a container. The call or the image names the signal. If the image is missing
// or its signal is invalid, stopSignal returns SIGTERM, because an existing container must be able to end.
func stopSignal(ctx context.Context, c client.Container) (syscall.Signal, error) {
	labels, err := c.Labels(ctx)
	if gone(err) {
		return syscall.SIGTERM, nil
	}
	if err != nil {
		return 0, failed("read the labels of the container", err)
	}
	if s, err := runtimespec.ParseStopSignal(labels[labelStop]); labels[labelStop] != "" && err == nil {
		return s, nil
	}
	image, err := c.Image(ctx)
	if gone(err) {
		return syscall.SIGTERM, nil
	}
	if err != nil {
		return 0, failed("find the image of the container", err)
	}
	described, err := image.Spec(ctx)
	if gone(err) {
		return syscall.SIGTERM, nil
	}
	if err != nil {
		return 0, failed("read the image of the container", err)
	}
	s, err := runtimespec.ParseStopSignal(described.Config.StopSignal)
	if err != nil {
		return syscall.SIGTERM, nil
	}
	return s, nil
}

// graceOf returns the time limit for a container to end when it is replaced or deleted, at most the job's limit.
func (j *job) graceOf(r *record) time.Duration {
	grace := chosenGrace(j, r)
	if j.mostGrace > 0 {
		grace = min(grace, j.mostGrace)
	}
	return grace
}

// chosenGrace is graceOf without the limit of the job. Arguments of the call override arguments of the container, which
// override arguments of the replaced container.
func chosenGrace(j *job, r *record) time.Duration {
	if isRun(r) {
		return stopGrace
	}
	var seconds int64
	switch args := j.Args.(type) {
	case *catalog.ContainerCreate:
		seconds = args.GraceSeconds
	case *catalog.ContainerDelete:
		seconds = args.GraceSeconds
	}
	if own, ok := r.Spec["grace_seconds"].(int64); ok && seconds == 0 {
		seconds = own
	}
	if replaced, ok := r.Own.Beside["grace_seconds"].(int64); ok && seconds == 0 {
		seconds = replaced
	}
	if seconds == 0 {
		return cmp.Or(j.Grace, defaultGrace)
	}
	return time.Duration(seconds) * time.Second
}

// end ends a container's process: first with the stop signal of the container, then with SIGKILL after grace. It is not
// an error if the process has exited. It records before each signal how the process is about to end, so that a repeated
// call returns the same result. r may be nil. In Keep it returns stillEnding if the process needs more time; Keep then
// calls it again.
func (j *job) end(ctx context.Context, r *record, id string, grace time.Duration) error {
	if err := endProcess(ctx, j, r, id, grace); err != nil {
		return err
	}
	if r == nil || r.Own.Ending == nil || r.Own.Ending.Container != id {
		return nil
	}
	r.Own.Ending = nil
	return j.put(r, r.Own.Phase)
}

func endProcess(ctx context.Context, j *job, r *record, id string, grace time.Duration) error {
	j.health.Interrupt(j.Resource) // a probe may be running a program in the container
	if err := stageOf(j.Driver, id).Clear(); err != nil {
		return err
	}
	task, err := j.task(ctx, id)
	if gone(err) {
		return j.removeRemains(ctx, id)
	}
	if err != nil {
		return err
	}
	status, err := j.resumed(ctx, task)
	if err != nil {
		return err
	}
	runs := status == client.Running || status == client.Unknown
	switch {
	case !runs || grace <= 0:
	case j.keeps && r != nil && r.Own.Ending.isOf(id, task.Pid()):
		status, err = waitFurther(ctx, j, r, task, grace)
	default:
		if err := j.recordEnding(r, catalog.EndedByItself); err != nil {
			return err
		}
		status, err = j.ask(ctx, r, id, task, grace)
	}
	if err != nil {
		return err
	}
	if status != client.Stopped {
		if runs {
			if err := j.recordEnding(r, catalog.EndedByForce); err != nil {
				return err
			}
		}
		j.Step.step("kill the process")
		if err := j.signal(ctx, task, syscall.SIGKILL, time.Minute); err != nil {
			return err
		}
	}
	j.Step.step("remove the process")
	if _, err := task.Delete(ctx); err != nil && !gone(err) {
		return failed("remove the process", err)
	}
	return nil
}

// recordEnding records how a process is about to end.
func (j *job) recordEnding(r *record, how string) error {
	if r == nil {
		return nil
	}
	r.Own.Ended = how
	return j.put(r, r.Own.Phase)
}

// resumed returns the status of a process. A paused process, which receives no signals, is resumed first.
func (j *job) resumed(ctx context.Context, task client.Task) (client.ProcessStatus, error) {
	status, err := task.Status(ctx)
	if err != nil && !gone(err) {
		return "", failed("inspect the process", err)
	}
	if status.Status != client.Paused {
		return status.Status, nil
	}
	j.Step.step("resume the process")
	if err := task.Resume(ctx); err != nil && !gone(err) {
		return "", failed("resume the process", err)
	}
	return client.Running, nil
}

// ask sends a process the stop signal of its container, waits at most grace, and returns the status after that.
func (j *job) ask(
	ctx context.Context, r *record, id string, task client.Task, grace time.Duration,
) (client.ProcessStatus, error) {
	c, err := j.daemon.LoadContainer(ctx, id)
	if err != nil {
		return "", failed("find the container", err)
	}
	s, err := stopSignal(ctx, c)
	if err != nil {
		return "", err
	}
	until, patience := time.Now().Add(grace), grace
	if j.keeps && r != nil {
		patience = min(grace, keepPatience)
	}
	j.Step.step("ask the process to end")
	j.Progress(fmt.Sprintf("waiting at most %s until the process ends after %s", patience, signalName(s)))
	if err := j.signal(ctx, task, s, patience); err != nil {
		return "", err
	}
	status, err := statusOf(ctx, task)
	if err != nil || status == client.Stopped {
		return status, err
	}
	if patience < grace {
		r.Own.Ending = &endingProcess{Container: id, Pid: task.Pid(), Until: until}
		if err := j.put(r, r.Own.Phase); err != nil {
			return "", err
		}
		return "", &stillEnding{until}
	}
	j.Progress(fmt.Sprintf("the container did not end within %s after %s and is killed", grace, signalName(s)))
	return status, nil
}

// keepPatience is how long Keep waits for a process. Most programs end sooner.
const keepPatience = 2 * time.Second

// endingProcess is a process that received its stop signal from Keep.
type endingProcess struct {
	Container string    `json:"container"`
	Pid       uint32    `json:"pid"`
	Until     time.Time `json:"until"` // time at which it is killed
}

// isOf reports whether e is the process of a container. e may be nil.
func (e *endingProcess) isOf(container string, pid uint32) bool {
	return e != nil && e.Container == container && e.Pid == pid
}

// stillEnding is the error for a process that may run until the given time.
type stillEnding struct{ until time.Time }

func (e *stillEnding) Error() string {
	return "its process was asked to end, and may run until " + e.until.UTC().Format(time.DateTime) + " UTC"
}

// waitFurther returns the status of a process that an earlier Keep asked to end, or stillEnding. If the clock was set
// back, the process still gets at most grace from now.
func waitFurther(
	ctx context.Context, j *job, r *record, task client.Task, grace time.Duration,
) (client.ProcessStatus, error) {
	status, err := statusOf(ctx, task)
	if err != nil || status == client.Stopped {
		return status, err
	}
	e := r.Own.Ending
	if latest := time.Now().Add(grace); e.Until.After(latest) {
		e.Until = latest
		if err := j.put(r, r.Own.Phase); err != nil {
			return "", err
		}
	}
	if time.Now().Before(e.Until) {
		return "", &stillEnding{e.Until}
	}
	return status, nil
}

// statusOf returns the status of a process, which is client.Stopped if the daemon has no such process.
func statusOf(ctx context.Context, task client.Task) (client.ProcessStatus, error) {
	status, err := task.Status(ctx)
	if gone(err) {
		return client.Stopped, nil
	}
	return status.Status, failed("inspect the process", err)
}

// signalName returns the name of a signal, such as "SIGQUIT". Real-time signals only have numbers.
func signalName(s syscall.Signal) string {
	return cmp.Or(unix.SignalName(s), fmt.Sprintf("signal %d", int(s)))
}

// signal sends a signal and waits at most patience for the process to end.
func (j *job) signal(ctx context.Context, task client.Task, s syscall.Signal, patience time.Duration) error {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	ended, err := task.Wait(waiting)
	if err != nil {
		return failed("wait for the process", err)
	}
	if err := task.Kill(ctx, s); err != nil && !gone(err) && !errdefs.IsFailedPrecondition(err) {
		return failed("send the process "+signalName(s), err)
	}
	select {
	case exit := <-ended:
		if err := exit.Error(); err != nil && ctx.Err() == nil && !gone(err) {
			return failed("wait for the process", err)
		}
		return ctx.Err()
	case <-time.After(patience):
		return nil
	}
}
