package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/client"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/containerd/health"
	"writ/sal/containerd/runtimespec"
	"writ/sal/logfile"
)

// A new container with a health check stays in phase checking until its first successful probe. Meanwhile, the
// container that it replaces is stopped, except in a handover (see handover.go). After the first successful probe, the
// driver deletes the old container. If the new container does not become healthy, the driver deletes it and restarts
// the old container. After a crash, the repeated call continues with the new container, but any other operation, and
// Keep, restores the old container.

// restoreGrace limits the time for an unhealthy container to end before the replaced container is started again.
const restoreGrace = 5 * time.Second

// checkOf returns the health check of a container, or nil.
func checkOf(r *record) (*health.Check, error) {
	args, err := argsOf(r)
	if err != nil {
		return nil, err
	}
	check, err := health.Parse(args.HealthCheck())
	if check != nil && check.OfImage {
		check.Command = r.Own.ImageCheck
	}
	return check, err
}

func subjectOf(r *record, check health.Check) health.Subject {
	return health.Subject{Resource: r.Resource, Container: r.Own.Container, Check: check}
}

// isUnfinished reports whether a resource was never completely created.
func isUnfinished(r *record) bool {
	return r.Own.Phase == making || r.Own.Phase == checking && r.Own.Other == ""
}

// replacedBy returns the properties of the current container that a failed replacement restores. It is nil if the
// replacement is not checked, or if the daemon has lost the current container.
func replacedBy(
	ctx context.Context, j *job, r *record, args *catalog.ContainerCreate, stopped bool,
) (*replaced, error) {
	if check, err := health.Parse(args.HealthCheck()); err != nil || check == nil || stopped {
		return nil, err
	}
	now, err := inspect(ctx, j.daemon, r.Own.Container)
	if err != nil || !now.known {
		return nil, err
	}
	was := &replaced{
		Stopped: r.Own.Stopped, ImageCheck: r.Own.ImageCheck, FilesChanging: r.Own.FilesChanging,
		attachment: r.Own.attachment,
	}
	old, err := argsOf(r)
	if err != nil {
		return nil, err
	}
	was.Runs = now.running() && !r.Own.Stopped && canHandOver(old, args)
	return was, nil
}

// activateChecked is activate for a container in phase checking.
func activateChecked(ctx context.Context, j *job, r *record) error {
	if r.Own.Other != "" && !r.Own.handsOver() {
		if err := leave(ctx, j, r, drainLimit); err != nil {
			return err
		}
		if err := j.end(ctx, r, r.Own.Other, j.graceOf(r)); err != nil {
			return err
		}
	}
	if err := j.run(ctx, r); err != nil {
		return err
	}
	check, err := checkOf(r)
	if err != nil {
		return err
	}
	if check != nil {
		if err := await(ctx, j, r, *check); err != nil {
			return err
		}
	}
	if r.Own.Other == "" {
		if err := j.put(r, ready); err != nil {
			return err
		}
		return updateReadiness(ctx, j, r)
	}
	if r.Own.handsOver() {
		if err := takePorts(ctx, j, r); err != nil {
			return err
		}
	} else {
		r.Own.Replaced = nil
	}
	if err := j.put(r, starting); err != nil { // from here on, the replaced container is not restored
		return err
	}
	return j.activate(ctx, r)
}

// finishChecking continues a create or a replacement that a crash interrupted while it waited for the first successful
// probe.
func finishChecking(ctx context.Context, j *job, r *record) (writ.Change, error) {
	change, undo := writ.ChangeCreated, j.clear
	if r.Own.Other != "" {
		change, undo = writ.ChangeUpdated, func(ctx context.Context, r *record) error { return restoreReplaced(ctx, j, r) }
	}
	err := j.activate(ctx, r)
	if err != nil {
		undoing, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
		defer cancel()
		return "", errors.Join(err, undo(undoing, r))
	}
	return change, nil
}

// recoverChecking implements recovered for a container in phase checking.
func recoverChecking(ctx context.Context, j *job, r *record) (left, recovered *record, err error) {
	makes := j.Operation != nil && j.Operation.Effect == catalog.Make
	if makes && j.UID == r.UID && !r.Own.Stopped {
		change, _, err := r.Decide(j.Request)
		if err == nil && change == writ.ChangeUnchanged {
			now, err := inspect(ctx, j.daemon, r.Own.Container)
			if err != nil || now.known {
				return nil, r, errors.Join(err, j.endPrograms(ctx, r))
			}
		}
	}
	switch {
	case r.Own.Other != "":
		return nil, r, restoreReplaced(ctx, j, r)
	case makes:
		return r, nil, nil
	default:
		return nil, r, j.endPrograms(ctx, r)
	}
}

// keepChecking implements keep for a container in phase checking.
func keepChecking(ctx context.Context, j *job, r *record) ([]sal.Drift, error) {
	if r.Own.Other != "" {
		return mended("its replacement was interrupted and reverted", restoreReplaced(ctx, j, r))
	}
	return []sal.Drift{{
		What: "its creation was interrupted before it was healthy; repeat the call that creates it",
	}}, nil
}

// restoreReplaced deletes a container in phase checking and restarts the replaced container, unless it was stopped on
// request.
func restoreReplaced(ctx context.Context, j *job, r *record) error {
	j.Step.step("return to the replaced container")
	_ = j.endPrograms(ctx, r) // a program that does not end now ends with its container
	if r.Own.handsOver() {
		if err := returnPorts(ctx, j, r); err != nil {
			return err
		}
	}
	if err := j.discard(ctx, r, r.Own.Container, min(j.graceOf(r), restoreGrace)); err != nil {
		return err
	}
	var was replaced
	if r.Own.Replaced != nil {
		was = *r.Own.Replaced
	}
	if was.Runs {
		j.Step.step("release the network namespace of the new container")
		if err := j.Networks.Release(ctx, ownerOf(r)); err != nil {
			return err
		}
	}
	r.Own.Container, r.Own.Other = r.Own.Other, ""
	r.Spec, r.Own.Beside = r.Own.Beside, nil
	r.Own.Stopped, r.Own.ImageCheck, r.Own.attachment = was.Stopped, was.ImageCheck, was.attachment
	r.Own.FilesChanging, r.Own.Replaced = was.FilesChanging, nil
	if !was.Runs {
		if err := restoreNetwork(ctx, j, r); err != nil {
			return err
		}
	}
	if err := j.put(r, starting); err != nil {
		return err
	}
	return j.activate(ctx, r)
}

// ensureHealthy waits until a running container with a health check is healthy. It does not change the container, even
// after a failure.
func ensureHealthy(ctx context.Context, j *job, r *record) error {
	check, err := checkOf(r)
	if err != nil || check == nil || r.Own.Stopped || healthOf(j.Driver, r) == catalog.HealthHealthy {
		return err
	}
	if err := await(ctx, j, r, *check); err != nil {
		return err
	}
	return j.put(r, r.Own.Phase)
}

// changeCheck waits until a running container passes the check in the arguments of a call, if it differs from the
// present check. A change of the published ports may also change the port of the check. If the container does not pass,
// the old check stays in force.
func changeCheck(ctx context.Context, j *job, r *record, args *catalog.ContainerCreate) error {
	check, err := health.Parse(args.HealthCheck())
	if err != nil {
		return err
	}
	if check != nil && check.OfImage {
		if check.Command, err = imageCheckOf(ctx, j, r); err != nil {
			return err
		}
		r.Own.ImageCheck = check.Command
	}
	if before, err := checkOf(r); err != nil || reflect.DeepEqual(before, check) {
		return err
	}
	if check == nil {
		j.health.Interrupt(r.Resource)
		j.health.Forget(r.Resource)
		r.Own.Health = nil
		return nil
	}
	if r.Own.Stopped {
		return nil
	}
	return await(ctx, j, r, *check)
}

// imageCheckOf returns the health check of the image of the current container.
func imageCheckOf(ctx context.Context, j *job, r *record) ([]string, error) {
	c, err := j.daemon.LoadContainer(ctx, r.Own.Container)
	if err != nil {
		return nil, failed("find "+r.Resource.String(), err)
	}
	image, err := c.Image(ctx)
	if err != nil {
		return nil, failed("find the image of "+r.Resource.String(), err)
	}
	command, err := runtimespec.HealthCommand(ctx, image)
	return command, failed("read the health check of the image", err)
}

// await waits until a container passes a check. Then it sets the health in r, but does not write the record.
func await(ctx context.Context, j *job, r *record, check health.Check) error {
	j.health.Interrupt(r.Resource)
	secrets, err := secretsOf(ctx, j, r)
	if err != nil {
		return err
	}
	j.Step.step("wait until it is healthy")
	j.Progress("waiting until the container is healthy")
	start := time.Now()
	err = health.Wait(ctx, &target{j, r, r.Own.Container, secrets, true}, check)
	_, isFailure := errors.AsType[*health.Failure](err)
	_, isEnd := errors.AsType[*health.Ended](err)
	_, isCoded := errors.AsType[*writ.Error](err)
	switch {
	case err == nil:
	case isFailure || isEnd:
		return unhealthy(ctx, j, r, time.Since(start), err)
	case isCoded:
		return err
	default:
		return failed("probe "+r.Resource.String(), err)
	}
	j.health.Passed(subjectOf(r, check))
	setHealth(j.Driver, r)
	return nil
}

// lastLines is the part of a container's log in the error of an unhealthy container.
var lastLines = catalog.LogPart{Lines: 10, MaxKiB: 1}

// unhealthy returns the error of a container that did not become healthy. It contains the end of the container's log,
// because a failed create removes the log.
func unhealthy(ctx context.Context, j *job, r *record, after time.Duration, why error) error {
	said := ""
	if log, err := j.log(ctx, r); err == nil {
		if part, err := log.Part(&lastLines); err == nil && strings.TrimSpace(part.Text) != "" {
			said = "; its output ends with: " + strings.TrimSpace(part.Text)
		}
	}
	logs := "`writ logs container/" + r.Resource.Name + "`"
	hint := logs + " shows its output"
	switch {
	case isUnfinished(r):
		hint = "it was removed; mend its program or its check, or set health.start_seconds higher, and run the script again"
	case r.Own.Phase == checking:
		hint = "the previous container is unchanged, and " + logs + " shows its output; only this message has the output of the new container"
	}
	return writ.Errorf(writ.CodeUnhealthy, "%s is not healthy after %s: %w%s", r.Resource, after.Round(time.Second), why,
		said).WithHint("%s", hint)
}

// healthOf returns the health of a running container, or "" without a check.
func healthOf(d *Driver, r *record) string {
	if check, err := checkOf(r); err != nil || check == nil {
		return ""
	}
	if s, known := d.health.State(r.Resource, r.Own.Container); known {
		return s.Word
	}
	if s := r.Own.Health; s != nil && s.Container == r.Own.Container {
		return s.Word
	}
	return catalog.HealthStarting
}

// setHealth sets the health in r and reports whether it changed. It does not write the record.
func setHealth(d *Driver, r *record) bool {
	s, known := d.health.State(r.Resource, r.Own.Container)
	if !known || r.Own.Health != nil && *r.Own.Health == s {
		return false
	}
	r.Own.Health = &s
	return true
}

// began records the start of a process for the health check of its container, if it has one.
func began(j *job, r *record) {
	if check, err := checkOf(r); err == nil && check != nil {
		j.health.Began(subjectOf(r, *check))
	}
}

// keepRunning is keep for a running container.
func keepRunning(ctx context.Context, j *job, r *record) ([]sal.Drift, error) {
	drift, err := j.keepNetwork(ctx, r)
	if err != nil {
		return nil, err
	}
	check, err := checkOf(r)
	if err != nil || check == nil {
		return drift, err
	}
	j.health.Watch(subjectOf(r, *check), r.Own.Health)
	if setHealth(j.Driver, r) {
		err = j.put(r, r.Own.Phase)
	}
	if s := r.Own.Health; s != nil && s.Word == catalog.HealthUnhealthy {
		drift = append(drift, sal.Drift{What: "it is unhealthy: " + s.Cause})
	}
	return drift, err
}

// target gives probes access to a container.
type target struct {
	*job
	record  *record
	id      string // of the container at the daemon
	secrets logfile.Secrets
	// restarts means that Ready restarts an ended process according to its policy. The caller then holds the lock of the
	// resource, and the container is the current one.
	restarts bool
}

// errNotRunning is the error of a probe of a container without a process.
var errNotRunning = errors.New("its program does not run")

// Ready implements health.Target.
func (t *target) Ready(ctx context.Context) error {
	now, err := inspect(ctx, t.daemon, t.id)
	if err != nil || now.running() {
		return err
	}
	if !t.restarts {
		return errNotRunning
	}
	how := health.Failure{Cause: "its program is gone"}
	if end := lastEnd(t.record, now, t.namespace()); end != nil {
		how.Cause = "its program has ended with " + end.String()
	}
	stays := staysEnded(t.record, now)
	if _, err := t.restartEnded(ctx, t.record, now); err != nil {
		return err
	}
	if stays {
		return &health.Ended{Failure: how}
	}
	return &how
}

// Network implements health.Target.
func (t *target) Network(ctx context.Context) (*os.File, error) {
	task, err := t.task(ctx, t.id)
	if err != nil {
		return nil, err
	}
	network, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", task.Pid()))
	if err != nil {
		return nil, errNotRunning
	}
	// If the process still runs, the kernel had not reused its PID when the file was opened.
	if status, err := task.Status(ctx); err != nil || status.Status != client.Running {
		network.Close()
		return nil, errNotRunning
	}
	return network, nil
}

// Exec implements health.Target.
func (t *target) Exec(ctx context.Context, command []string) (exit int64, output string, err error) {
	p := &program{job: t.job, pipes: t.pipes(probePipes)}
	code, err := p.run(ctx, t.id, command, nil)
	if writ.CodeOf(err) == writ.CodeArgumentsInvalid { // the container cannot run it
		return 0, "", &health.Failure{Cause: writ.AsError(err).Message}
	}
	return int64(code), p.out.text(t.secrets) + p.err.text(t.secrets), err
}

// Clean implements health.Target.
func (t *target) Clean(text string, isCut bool) string {
	if isCut {
		return t.secrets.HidePart([]byte(text))
	}
	return t.secrets.Hide([]byte(text))
}

// Report implements health.Target.
func (t *target) Report(err error) {
	t.Progress("the container is not healthy yet: " + err.Error())
}

// errBusy is the error of a container on which an operation runs.
var errBusy = errors.New("an operation on the container runs")

// probe probes a running container for Run. It does not hold the lock of the container, so that slow programs do not
// delay operations.
func probe(ctx context.Context, d *Driver, s health.Subject) error {
	t, done, err := targetOf(ctx, d, s)
	if err != nil {
		return err
	}
	defer done()
	return health.Probe(ctx, t, s.Check)
}

// targetOf returns a running container for a probe. The caller calls done after the probe. If the check is a command,
// targetOf locks the container for a moment and marks it in d.probing. So endPrograms does not end the command.
func targetOf(ctx context.Context, d *Driver, s health.Subject) (t *target, done func(), err error) {
	name, done := s.Resource.HostName(), func() {}
	if len(s.Check.Command) > 0 {
		unlock, ok := d.locks.Try(name)
		if !ok {
			return nil, nil, errBusy
		}
		defer unlock()
	}
	r, err := recordsIn(d.Dir).Get(s.Resource)
	if err != nil {
		return nil, nil, err
	}
	if r == nil || r.Own.Container != s.Container || r.Own.Stopped || r.Own.Phase != ready {
		return nil, nil, errNotRunning
	}
	daemon, err := d.reachCached(ctx)
	if err != nil {
		return nil, nil, err
	}
	j := &job{
		Driver: d, daemon: daemon,
		Request: sal.Request{Resource: s.Resource, UID: r.UID, Progress: func(string) {}},
	}
	secrets, err := secretsOf(ctx, j, r)
	if err == nil && len(s.Check.Command) > 0 {
		err = j.endPrograms(ctx, r)
		d.probing.Store(name, true)
		done = func() { d.probing.Delete(name) }
	}
	return &target{j, r, s.Container, secrets, false}, done, err
}
