package containerd

import (
	"context"
	"path/filepath"
	"time"

	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/leases"
	mounting "github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/pkg/cio"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/containerd/imagestore"
	"writ/sal/containerd/shim"
	"writ/sal/logfile"
)

// containerState is the daemon's view of a container.
type containerState struct {
	known  bool                 // the container exists
	status client.ProcessStatus // status of its process; "" if it has none
	exit   uint32               // exit code, if the process has ended
}

// running reports whether the container has a process that may be running. A process whose shim does not answer counts,
// because it may be alive.
func (s containerState) running() bool {
	return s.status == client.Running || s.status == client.Paused || s.status == client.Pausing ||
		s.status == client.Unknown
}

// inspect asks the daemon for the state of a container.
func inspect(ctx context.Context, daemon *client.Client, id string) (containerState, error) {
	c, err := daemon.LoadContainer(ctx, id)
	if gone(err) {
		return containerState{}, nil
	}
	if err != nil {
		return containerState{}, failed("inspect the container", err)
	}
	task, err := c.Task(ctx, nil)
	if gone(err) {
		return containerState{known: true}, nil
	}
	if err != nil {
		return containerState{}, failed("inspect the container's process", err)
	}
	status, err := task.Status(ctx)
	if gone(err) {
		return containerState{known: true}, nil
	}
	return containerState{known: true, status: status.Status, exit: status.ExitStatus}, failed(
		"inspect the container's process", err)
}

// prepare makes the process of a container without starting its program.
func (j *job) prepare(ctx context.Context, r *record, id string, args *catalog.ContainerCreate) error {
	c, err := j.daemon.LoadContainer(ctx, id)
	if err != nil {
		return failed("find the container", err)
	}
	return onStage(ctx, j, r, id, args, func(root []mounting.Mount) error {
		word := loggerWord
		if isRun(r) {
			word = splitLoggerWord
		}
		output := cio.BinaryIO(j.Program, map[string]string{word: logTo(j.logPath(id), r.Own.IDs)})
		j.Step.step("make the process")
		task, err := c.NewTask(ctx, output, client.WithRootFS(root))
		if exists(err) {
			if err := j.removeRemains(ctx, id); err != nil {
				return err
			}
			task, err = c.NewTask(ctx, output, client.WithRootFS(root))
		}
		if err != nil {
			return notStarted("make the process of "+j.Resource.String(), err)
		}
		return checkCreated(ctx, j, id, task.Pid(), args)
	})
}

// run starts the current container, whatever its state. It has no effect if the container runs.
func (j *job) run(ctx context.Context, r *record) error {
	// A runner that ended after it had made the process may have left a stage.
	if err := stageOf(j.Driver, r.Own.Container).Clear(); err != nil {
		return err
	}
	now, err := inspect(ctx, j.daemon, r.Own.Container)
	if err != nil || now.running() {
		return err
	}
	args, err := argsOf(r)
	if err != nil {
		return err
	}
	if now.status != client.Created {
		if now.status != "" {
			if err := j.end(ctx, r, r.Own.Container, 0); err != nil {
				return err
			}
		}
		if err := j.hasVolumes(ctx, args); err != nil {
			return err
		}
		if err := renew(ctx, j, r, args); err != nil {
			return err
		}
		if err := demote(ctx, j, r); err != nil {
			return err
		}
		if err := j.ensureNetwork(ctx, r); err != nil {
			return err
		}
		if err := j.write(r); err != nil {
			return err
		}
		if err := j.prepare(ctx, r, r.Own.Container, args); err != nil {
			return err
		}
	}
	task, err := j.task(ctx, r.Own.Container)
	if err != nil {
		return err
	}
	if err := checkCreated(ctx, j, r.Own.Container, task.Pid(), args); err != nil {
		return err
	}
	if r.Own.Ending != nil { // a reboot ended the process
		r.Own.Ending = nil
		if err := j.put(r, r.Own.Phase); err != nil {
			return err
		}
	}
	j.Step.step("start the process")
	if err := task.Start(ctx); err != nil {
		return failed("start "+r.Resource.String(), err)
	}
	began(j, r)
	return nil
}

// ensureNetwork recreates the network namespace if necessary, because it does not survive a reboot.
func (j *job) ensureNetwork(ctx context.Context, r *record) error {
	args, err := argsOf(r)
	if err != nil || len(args.Networks) == 0 && r.Own.Namespace == "" {
		return err
	}
	before := r.Own.Namespace
	if err := j.connect(ctx, r, args); err != nil || r.Own.Namespace == before {
		return err
	}
	c, err := j.daemon.LoadContainer(ctx, r.Own.Container)
	if err != nil {
		return failed("find the container", err)
	}
	j.Step.step("change the network namespace")
	if err := reconnect(ctx, c, r.Own.Namespace); err != nil {
		return failed("change the network namespace", err)
	}
	return j.put(r, r.Own.Phase)
}

// start starts a stopped container.
func (j *job) start(ctx context.Context, r *record) (sal.Outcome, error) {
	now, err := inspect(ctx, j.daemon, r.Own.Container)
	if err != nil {
		return sal.Outcome{}, err
	}
	if !now.known {
		return sal.Outcome{}, writ.Errorf(writ.CodeDriverRefused, "containerd has lost %s", r.Resource).
			WithHint("run the script that created it again")
	}
	if now.running() && !r.Own.Stopped && r.Own.Phase == ready {
		return started(ctx, j, r, writ.ChangeUnchanged)
	}
	r.Own.Stopped, r.Own.Ended = false, ""
	if err := j.put(r, starting); err != nil {
		return sal.Outcome{}, err
	}
	j.restarts.forget(r.Resource.HostName())
	if err := j.activate(ctx, r); err != nil {
		return sal.Outcome{}, err
	}
	return started(ctx, j, r, writ.ChangeUpdated)
}

// started returns the outcome of start for a container that runs.
func started(ctx context.Context, j *job, r *record, change writ.Change) (sal.Outcome, error) {
	if err := ensureHealthy(ctx, j, r); err != nil {
		return sal.Outcome{}, err
	}
	if err := updateReadiness(ctx, j, r); err != nil {
		return sal.Outcome{}, err
	}
	return j.outcome(ctx, r, change)
}

// stop ends the container's process. It records the stop first, so that the container is not restarted.
func (j *job) stop(ctx context.Context, r *record, grace time.Duration) (sal.Outcome, error) {
	now, err := inspect(ctx, j.daemon, r.Own.Container)
	if err != nil {
		return sal.Outcome{}, err
	}
	if r.Own.Stopped && now.status == "" {
		if err := j.removeRemains(ctx, r.Own.Container); err != nil {
			return sal.Outcome{}, err
		}
		return j.outcome(ctx, r, writ.ChangeUnchanged)
	}
	r.Own.Stopped, r.Own.Ended = true, ""
	if err := j.put(r, r.Own.Phase); err != nil {
		return sal.Outcome{}, err
	}
	if err := leave(ctx, j, r, 0); err != nil {
		return sal.Outcome{}, err
	}
	j.restarts.forget(r.Resource.HostName())
	if err := j.end(ctx, r, r.Own.Container, grace); err != nil {
		return sal.Outcome{}, err
	}
	j.health.Forget(r.Resource)
	if r.Own.Phase == starting { // the container that it replaces may still run
		if err := j.activate(ctx, r); err != nil {
			return sal.Outcome{}, err
		}
	}
	return j.outcome(ctx, r, writ.ChangeUpdated)
}

// removeRemains finishes the interrupted removal of a process. After the interruption, the daemon has forgotten the
// process but keeps its shim, and does not make another process. Deleting the unknown process makes the daemon remove
// the shim. If the daemon has forgotten the shim, too, the driver asks the shim to end.
func (j *job) removeRemains(ctx context.Context, id string) error {
	j.Step.step("remove the remains of the process")
	_, err := j.daemon.TaskService().Delete(ctx, &tasks.DeleteTaskRequest{ContainerID: id})
	if status.Code(err) == codes.NotFound { // this is also the answer after a successful removal
		err = shim.End(ctx, shim.Socket(j.address(), j.namespace(), id), id)
	}
	return failed("remove the remains of the process", err)
}

// discard removes a container and its parts from the daemon, and images without another user.
func (j *job) discard(ctx context.Context, r *record, id string, grace time.Duration) error {
	c, err := j.daemon.LoadContainer(ctx, id)
	if err != nil && !gone(err) {
		return failed("find the container", err)
	}
	if err == nil {
		if err := j.end(ctx, r, id, grace); err != nil {
			return err
		}
		j.Step.step("delete the container")
		if err := c.Delete(ctx); err != nil && !gone(err) {
			return failed("delete the container", err)
		}
	}
	if err := stageOf(j.Driver, id).Clear(); err != nil {
		return err
	}
	if err := j.removeSnapshot(ctx, id); err != nil {
		return err
	}
	if err := j.daemon.LeasesService().Delete(ctx, leases.Lease{ID: id}); err != nil && !gone(err) {
		return failed("delete the container", err)
	}
	for _, path := range []string{j.logPath(id), errorLogPath(j.logPath(id))} {
		if err := (&logfile.Log{Path: path}).Remove(); err != nil {
			return sal.HostError("remove the log of the container", err)
		}
	}
	if err := removeFiles(j, id); err != nil {
		return err
	}
	return j.store().DropUnused(ctx)
}

// removeSnapshot removes the layer of a container. Volumes are not affected.
func (j *job) removeSnapshot(ctx context.Context, id string) error {
	j.Step.step("remove the container's layer")
	for _, name := range imagestore.Snapshotters {
		err := j.daemon.SnapshotService(name).Remove(ctx, id)
		if err != nil && !gone(err) && !imagestore.NoSnapshotter(err) {
			return failed("remove the container's layer", err)
		}
	}
	return nil
}

// task finds the process of a container.
func (j *job) task(ctx context.Context, id string) (client.Task, error) {
	c, err := j.daemon.LoadContainer(ctx, id)
	if err != nil {
		return nil, failed("find the container", err)
	}
	task, err := c.Task(ctx, nil)
	return task, failed("find the process", err)
}

func (j *job) logPath(id string) string { return filepath.Join(placeOf(j.Dir, j.Resource), id+".log") }

// logOf returns the log of the current container.
func logOf(dir string, r *record) *logfile.Log {
	return &logfile.Log{
		Path: filepath.Join(placeOf(dir, r.Resource), r.Own.Container+".log"), Stream: string(r.UID) + " " + r.Own.Container,
	}
}
