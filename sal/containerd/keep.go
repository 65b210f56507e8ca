package containerd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/snapshots"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// Keep compares a container with its record and repairs it: it finishes interrupted operations, restarts the container
// if it should run, and ends it if it should not. After a reboot it starts every container whose policy is not "never".
// Repairs by Run since the last Keep are reported as well.
func (d *Driver) Keep(ctx context.Context, resource writ.ResourceID) ([]sal.Drift, error) {
	drift, err := d.mend(ctx, resource)
	d.mu.Lock()
	defer d.mu.Unlock()
	var before []sal.Drift
	for _, what := range d.mended[resource.HostName()] {
		before = append(before, sal.Drift{What: what, Mended: true})
	}
	delete(d.mended, resource.HostName())
	return append(before, drift...), err
}

// maxMended limits the repairs by Run that are remembered for each container. Older ones are dropped.
const maxMended = 5

// rememberRepair remembers a repair by Run until Keep reports it.
func (d *Driver) rememberRepair(resource writ.ResourceID, what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mended == nil {
		d.mended = map[string][]string{}
	}
	all := append(d.mended[resource.HostName()], what)
	d.mended[resource.HostName()] = all[max(0, len(all)-maxMended):]
}

// mend repairs a container under its lock and returns the drift, without earlier repairs by Run.
func (d *Driver) mend(ctx context.Context, resource writ.ResourceID) ([]sal.Drift, error) {
	if r, err := d.records().Get(resource); err != nil || r == nil {
		return nil, err
	}
	j, done, err := d.begin(ctx, sal.Request{Resource: resource, Progress: func(string) {}}, d.reachCached)
	if err != nil {
		return nil, err
	}
	defer done()
	r, err := d.records().Get(resource) // read again under the lock
	if err != nil || r == nil {
		return nil, err
	}
	j.UID = r.UID
	return j.keep(j.in(ctx), r)
}

// keep is mend for a caller that holds the lock.
func (j *job) keep(ctx context.Context, r *record) ([]sal.Drift, error) {
	switch r.Own.Phase {
	case making:
		return []sal.Drift{{What: "its creation was never finished; repeat the call that creates it"}}, nil
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
	switch {
	case !now.known:
		return j.recreate(ctx, r)
	case now.status == client.Unknown:
		return []sal.Drift{{What: "its process does not answer"}}, nil
	case r.Own.Stopped && now.running():
		return mended("it ran although it was stopped", j.end(ctx, r, r.Own.Container, j.graceOf(r)))
	case r.Own.Stopped && now.status == "":
		return nil, j.removeRemains(ctx, r.Own.Container)
	case r.Own.Stopped:
		return nil, nil
	case now.running():
		return j.keepNetwork(ctx, r)
	case now.status == client.Created:
		return mended("its start was interrupted", j.activate(ctx, r))
	default:
		return j.restartEnded(ctx, r, now)
	}
}

// keepNetwork restarts a container whose process is in another network namespace than the one at the recorded path.
// This happens if that namespace was deleted and recreated; the container would be unreachable.
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
		return nil, nil
	}
	if err := j.end(ctx, r, r.Own.Container, j.graceOf(r)); err != nil {
		return nil, err
	}
	return mended("its process was in another network namespace, and it was restarted", j.run(ctx, r))
}

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

// Pauses before the restart of a container that ended.
const (
	firstPause = time.Second
	lastPause  = 5 * time.Minute
	// steady is the run time after which the pauses start again from firstPause.
	steady = time.Minute
)

// restart is the restart state of a container that ended. It is only in memory: after a restart of the runner, the
// first attempt comes at once.
type restart struct {
	pause time.Duration // before the next restart
	due   time.Time     // time of the next restart; zero while the container runs
	began time.Time     // time of the last restart
}

// restartEnded restarts a container whose process has ended or disappeared, if its policy allows it and its pause is
// over.
func (j *job) restartEnded(ctx context.Context, r *record, now containerState) ([]sal.Drift, error) {
	policy, _ := r.Spec["restart"].(string)
	// Otherwise the whole process disappeared, by a reboot or an administrator, so the program did not end by itself.
	known := now.status == client.Stopped
	end, err := j.recordEnd(r, now)
	if err != nil {
		return nil, err
	}
	if policy == "never" || policy == "on-failure" && known && now.exit == 0 {
		j.dropRestartState(r.Resource)
		return failedEnd(end), nil
	}
	how := "its process was gone"
	if known {
		how = "it had ended with " + end.String()
	}
	if due := j.due(r.Resource, known); time.Until(due) > 0 {
		return []sal.Drift{{What: fmt.Sprintf("%s; the next start is in %s", how, time.Until(due).Round(time.Second))}},
			nil
	}
	if err := j.run(ctx, r); err != nil {
		return nil, err
	}
	j.began(r.Resource)
	return mended(how+"; it was restarted", nil)
}

// failedEnd returns the drift of a container that its policy does not restart. It is nil if the program succeeded or
// never ended by itself.
func failedEnd(end *lastExit) []sal.Drift {
	if end == nil || end.Code == 0 {
		return nil
	}
	return []sal.Drift{{What: "it has ended with " + end.String() + "; start it again with container.start"}}
}

// due returns the time of the next restart. The pause begins when the end is first noticed.
func (d *Driver) due(resource writ.ResourceID, ended bool) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !ended {
		return time.Time{}
	}
	name := resource.HostName()
	r, ok := d.restarts[name]
	if !ok {
		r = &restart{pause: firstPause}
		if d.restarts == nil {
			d.restarts = map[string]*restart{}
		}
		d.restarts[name] = r
	}
	if r.due.IsZero() {
		if !r.began.IsZero() && time.Since(r.began) > steady {
			r.pause = firstPause
		}
		r.due = time.Now().Add(r.pause)
		r.pause = min(2*r.pause, lastPause)
	}
	return r.due
}

// began records the restart of a container.
func (d *Driver) began(resource writ.ResourceID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r, ok := d.restarts[resource.HostName()]; ok {
		r.due, r.began = time.Time{}, time.Now()
	}
}

// dropRestartState drops the restart state and the remembered repairs of a container.
func (d *Driver) dropRestartState(resource writ.ResourceID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.restarts, resource.HostName())
	delete(d.mended, resource.HostName())
}

// Orphans returns containers, layers and images at the daemon, files, and network namespaces without a record.
func (d *Driver) Orphans(ctx context.Context) ([]sal.Orphan, error) {
	daemon, err := d.reachCached(ctx)
	if err != nil {
		return nil, err
	}
	ctx = d.in(ctx)
	var all []sal.Orphan
	atDaemon, layers, err := inventory(ctx, daemon)
	if err != nil {
		return nil, err
	}
	images, err := daemon.ImageService().List(ctx)
	if err != nil {
		return nil, failed("list the images", err)
	}
	files, err := os.ReadDir(filepath.Join(d.Dir, "containers"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, sal.HostError("list the files of containers", err)
	}
	var owners []sal.Owner
	if d.Networks != nil {
		if owners, err = d.Networks.Owners(ctx); err != nil {
			return nil, err
		}
	}

	// Records are read last, so that everything made before has its record.
	known, err := d.known()
	if err != nil {
		return nil, err
	}
	all = sal.DamagedOrphans(known.damaged)
	for _, c := range atDaemon {
		known.images[c.Image] = true
		if !known.has(c.ID) {
			remedy := d.ctr("tasks", "rm", "-f", c.ID) + "; " + d.ctr("containers", "rm", c.ID)
			all = append(all, sal.Orphan{Kind: "container", Name: c.ID, Of: hostNameIn(c.ID), Remedy: remedy})
		}
		delete(layers, c.ID)
	}
	for id, snapshotter := range layers {
		if !known.has(id) {
			all = append(all, sal.Orphan{
				Kind: "snapshot", Name: id, Of: hostNameIn(id),
				Remedy: d.ctr("snapshots", "--snapshotter", snapshotter, "rm", id),
			})
		}
	}
	for _, i := range images {
		if !known.images[i.Name] && !known.unfinished {
			all = append(all, sal.Orphan{Kind: "image", Name: i.Name, Remedy: d.ctr("images", "rm", i.Name)})
		}
	}
	for _, f := range files {
		if !known.places[f.Name()] {
			path := filepath.Join(d.Dir, "containers", f.Name())
			all = append(all,
				sal.Orphan{Kind: "directory", Name: path, Of: f.Name(), Remedy: sal.Command("rm", "-r", path)})
		}
	}
	for _, o := range owners {
		if o.Resource.Kind == writ.KindContainer && !known.uids[o.UID] && !known.places[o.Resource.HostName()] {
			all = append(all,
				sal.Orphan{Kind: "network namespace", Name: o.Resource.String(), Of: o.Resource.HostName()})
		}
	}
	slices.SortFunc(all, func(a, b sal.Orphan) int { return strings.Compare(a.Kind+" "+a.Name, b.Kind+" "+b.Name) })
	return all, nil
}

// recordIndex holds the objects that records account for.
type recordIndex struct {
	containers, images, places map[string]bool
	uids                       map[writ.UID]bool
	damaged                    []sal.Damaged
	unfinished                 bool // a container is being made, and its image may be in the middle of an import
}

// has reports whether a record, possibly damaged, accounts for a container at the daemon.
func (k *recordIndex) has(id string) bool {
	return k.containers[id] || slices.ContainsFunc(k.damaged, func(d sal.Damaged) bool { return isOf(d.HostName, id) })
}

// ctr returns a shell command for the daemon.
func (d *Driver) ctr(words ...string) string {
	return sal.Command(append([]string{"ctr", "-a", cmp.Or(d.Address, DefaultAddress), "-n", d.namespace()},
		words...)...)
}

// hostNameIn returns the host name of the container with this ID at the daemon.
func hostNameIn(id string) string {
	name, _, _ := strings.Cut(id, "-")
	return name
}

// inventory returns the containers of the daemon, and the snapshotters of container layers by container ID.
func inventory(
	ctx context.Context, daemon *client.Client,
) (all []containers.Container, layers map[string]string, err error) {
	all, err = daemon.ContainerService().List(ctx)
	if err != nil {
		return nil, nil, failed("list the containers", err)
	}
	layers = map[string]string{}
	for _, name := range snapshotters {
		err := daemon.SnapshotService(name).Walk(ctx, func(_ context.Context, s snapshots.Info) error {
			if s.Kind == snapshots.KindActive {
				layers[s.Name] = name
			}
			return nil
		})
		if err != nil && !gone(err) && !noSnapshotter(err) {
			return nil, nil, failed("list the layers", err)
		}
	}
	return all, layers, nil
}

func (d *Driver) known() (*recordIndex, error) {
	records, damaged, err := d.records().List()
	if err != nil {
		return nil, err
	}
	k := &recordIndex{
		damaged: damaged, containers: map[string]bool{}, images: map[string]bool{}, places: map[string]bool{},
		uids: map[writ.UID]bool{},
	}
	for _, r := range records {
		k.containers[r.Own.Container], k.containers[r.Own.Other] = true, true
		k.places[r.Resource.HostName()] = true
		k.uids[r.UID] = true
		k.unfinished = k.unfinished || r.Own.Phase == making || r.Own.Phase == replacing
	}
	for _, r := range damaged {
		k.places[r.HostName] = true
		k.unfinished = true // it may be in the middle of an import
	}
	return k, nil
}
