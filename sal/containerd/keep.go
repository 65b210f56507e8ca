package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/containerd/containerd/v2/client"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// Keep compares a container with its record and repairs it. It finishes interrupted operations, restarts the container
// if it should run, and ends it if it should not run. After a reboot it starts every container whose policy is not
// "never". Repairs by Run since the last Keep are reported as well.
func (d *Driver) Keep(ctx context.Context, resource writ.ResourceID) ([]sal.Drift, error) {
	drift, err := mend(ctx, d, resource, d.locks.Take)
	return append(d.restarts.takeRepairs(resource.HostName()), drift...), err
}

// mend repairs a container under its lock and returns the drift, without the repairs that Run made earlier.
func mend(ctx context.Context, d *Driver, resource writ.ResourceID, lock locking) ([]sal.Drift, error) {
	j, r, done, err := beginOn(ctx, d, resource, lock, d.reachCached)
	if err != nil || r == nil {
		return nil, err
	}
	defer done()
	j.keeps = true
	drift, err := j.keep(j.in(ctx), r)
	if waits, ok := errors.AsType[*stillEnding](err); ok {
		drift, err = []sal.Drift{{What: waits.Error()}}, nil
	}
	if err == nil {
		err = updateReadiness(j.in(ctx), j, r)
	}
	return drift, err
}

// beginOn is begin for a container with a record. Without a record, r and done are nil.
func beginOn(
	ctx context.Context, d *Driver, resource writ.ResourceID, lock locking,
	reach func(context.Context) (*client.Client, error),
) (j *job, r *record, done func(), err error) {
	records := recordsIn(d.Dir)
	if r, err = records.Get(resource); err != nil || r == nil {
		return nil, nil, nil, err
	}
	j, done, err = begin(ctx, d, sal.Request{Resource: resource, Progress: func(string) {}}, lock, reach)
	if err != nil {
		return nil, nil, nil, err
	}
	if r, err = records.Get(resource); err != nil || r == nil { // read again under the lock
		done()
		return nil, nil, nil, err
	}
	j.UID = r.UID
	return j, r, done, nil
}

// keep is mend for a caller that holds the lock.
func (j *job) keep(ctx context.Context, r *record) ([]sal.Drift, error) {
	if isRun(r) && r.Own.Phase != deleting {
		return nil, keepRun(ctx, j, r)
	}
	switch r.Own.Phase {
	case making:
		return []sal.Drift{{What: "its creation was never finished; repeat the call that creates it"}}, nil
	case checking:
		return keepChecking(ctx, j, r)
	case deleting:
		return mended("its deletion was interrupted", j.clear(ctx, r))
	case replacing:
		return mended("its replacement was interrupted and reverted", j.dropReplacement(ctx, r))
	case starting:
		return mended("its start was interrupted", j.activate(ctx, r))
	}
	if err := j.endPrograms(ctx, r); err != nil {
		return nil, err
	}
	now, err := inspect(ctx, j.daemon, r.Own.Container)
	if err != nil {
		return nil, err
	}
	isEnding := r.Own.Ending != nil && r.Own.Ending.Container == r.Own.Container
	switch {
	case !now.known:
		return j.recreate(ctx, r)
	case now.status == client.Unknown:
		return []sal.Drift{{What: "its process does not answer"}}, nil
	case r.Own.Stopped && (now.running() || isEnding):
		return mended("it ran although it was stopped", j.end(ctx, r, r.Own.Container, j.graceOf(r)))
	case r.Own.Stopped && now.status == "":
		return nil, j.removeRemains(ctx, r.Own.Container)
	case r.Own.Stopped:
		return nil, nil
	case now.running():
		return keepRunning(ctx, j, r)
	case isEnding: // it has ended meanwhile
		return mended(otherNetwork, j.run(ctx, r))
	case now.status == client.Created:
		return mended("its start was interrupted", j.activate(ctx, r))
	default:
		return j.restartEnded(ctx, r, now)
	}
}

// keepNetwork restarts a container whose process is in another network namespace than the one at the recorded path.
// This happens if the namespace at the path was deleted and recreated. The container would then be unreachable.
func (j *job) keepNetwork(ctx context.Context, r *record) ([]sal.Drift, error) {
	if r.Own.Namespace == "" {
		return nil, nil
	}
	task, err := j.task(ctx, r.Own.Container)
	if gone(err) {
		return nil, nil // it has just ended, which the next Keep handles
	}
	if err != nil {
		return nil, err
	}
	has, err := os.Stat(fmt.Sprintf("/proc/%d/ns/net", task.Pid()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the process has ended
	}
	if err != nil {
		return nil, sal.HostError("inspect the network namespace of "+r.Resource.String(), err)
	}
	if there, err := os.Stat(r.Own.Namespace); err == nil && os.SameFile(has, there) {
		return keepPublished(ctx, j, r)
	}
	if err := j.end(ctx, r, r.Own.Container, j.graceOf(r)); err != nil {
		return nil, err
	}
	return mended(otherNetwork, j.run(ctx, r))
}

const otherNetwork = "its process was in another network namespace, and it was restarted"

func mended(what string, err error) ([]sal.Drift, error) {
	if err != nil {
		return nil, err
	}
	return []sal.Drift{{What: what, Mended: true}}, nil
}

// recreate recreates a container that the daemon has lost. Data in its layer is lost. A container with secrets cannot
// be recreated, because only the daemon had their values.
func (j *job) recreate(ctx context.Context, r *record) ([]sal.Drift, error) {
	o, ok := catalog.Lookup(r.Operation)
	if !ok || len(o.Args.Secrets(r.Spec)) > 0 {
		return []sal.Drift{{What: "containerd has lost it and its secrets; repeat the call that creates it"}}, nil
	}
	args, err := o.Decode(r.Spec)
	if err != nil {
		return nil, err
	}
	j.Operation, j.Args = o, args
	if err := j.replace(ctx, r, r.Own.Stopped); err != nil {
		return nil, err
	}
	if r.Own.Stopped { // its process was created but not started
		if err := j.end(ctx, r, r.Own.Container, 0); err != nil {
			return nil, err
		}
	}
	return []sal.Drift{{What: "containerd had lost it", Mended: true}}, nil
}

// restartEnded restarts a container whose process has ended or disappeared, if its policy allows it and its pause is
// over.
func (j *job) restartEnded(ctx context.Context, r *record, now containerState) ([]sal.Drift, error) {
	// If known is false, a reboot or an administrator removed the process at the daemon; the program did not end by
	// itself.
	known := now.status == client.Stopped
	end, err := j.recordEnd(r, now)
	if err != nil {
		return nil, err
	}
	if staysEnded(r, now) {
		j.restarts.forget(r.Resource.HostName())
		return failedEnd(end), nil
	}
	how := "its process was gone"
	if known {
		how = "it had ended with " + end.String()
	}
	if known {
		if wait := time.Until(j.restarts.Due(r.Resource.HostName(), pauses)); wait > 0 {
			return []sal.Drift{{What: fmt.Sprintf("%s; the next start is in %s", how, wait.Round(time.Second))}}, nil
		}
	}
	if err := j.run(ctx, r); err != nil {
		return nil, err
	}
	j.restarts.Began(r.Resource.HostName())
	r.Own.Restarts++
	return mended(how+"; it was restarted", j.put(r, r.Own.Phase))
}

// staysEnded reports whether the policy of a container forbids its restart.
func staysEnded(r *record, now containerState) bool {
	policy, _ := r.Spec["restart"].(string)
	return policy == "never" || policy == "on-failure" && now.status == client.Stopped && now.exit == 0
}

// failedEnd returns the drift of a container that its policy does not restart. It is nil if the program succeeded or
// never ended by itself.
func failedEnd(end *lastExit) []sal.Drift {
	if end == nil || end.Code == 0 {
		return nil
	}
	return []sal.Drift{{What: "it has ended with " + end.String() + "; start it again with container.start"}}
}
