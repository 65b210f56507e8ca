package cloudhypervisor

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/cloudhypervisor/api"
)

// cleaning limits the cleanup after a failure. The cleanup continues when the context of the operation ends.
const cleaning = 40 * time.Second

// create makes the machine and starts it. If it fails, it removes everything that it created.
func (j *job) create(ctx context.Context) (*sal.Record[own], error) {
	args := j.Args.(*catalog.MachineCreate)
	r := sal.NewRecord[own](j.Request)
	r.Own = own{Phase: making, Power: running, CPUs: args.CPUs, MemoryMiB: args.MemoryMiB}
	for _, volume := range args.Disks {
		r.Own.Volumes = append(r.Own.Volumes, disk{Volume: volume})
	}
	if _, err := j.payload(ctx, r); err != nil {
		return nil, err
	}
	if err := j.prepared(ctx, r); err != nil {
		return nil, err
	}
	if err := j.claim(ctx, r); err != nil {
		j.users.Forget(r.Resource.HostName())
		return nil, err
	}
	err := j.bringUp(ctx, r, func(context.Context) error { return j.writeSeed(args, r) }, j.boot)
	if err == nil {
		err = j.syncSeed()
	}
	if err != nil {
		over, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleaning)
		defer cancel()
		return nil, errors.Join(err, j.clear(over, r))
	}
	r.Own.Phase = ready
	r.Own.Past.began(j.clock())
	r.Generation++
	return r, j.records().Put(r)
}

// remove deletes the machine.
func (j *job) remove(ctx context.Context) (sal.Outcome, error) {
	gone := sal.Outcome{
		Change: writ.ChangeUnchanged, Values: catalog.Values(catalog.Identify(j.Resource, j.UID, false)),
	}
	r, err := j.records().GetToRemove(j.Request)
	if err != nil || r == nil {
		return gone, err
	}
	if r.Own.Phase != making && r.Own.Phase != deleting {
		if err := r.Owned(j.Request); err != nil {
			return sal.Outcome{}, err
		}
		gone.Change = writ.ChangeDeleted
	}
	return gone, j.clear(ctx, r)
}

// clear removes the process, cgroup, taps and files of the machine, and finally its record. Data in volumes is kept.
func (j *job) clear(ctx context.Context, r *sal.Record[own]) error {
	r.Own.Phase = deleting
	if err := j.records().Put(r); err != nil {
		return err
	}
	if err := j.endProcess(ctx, r); err != nil {
		return err
	}
	if err := j.removeCgroup(ctx, r); err != nil {
		return err
	}
	if err := j.revokeDisks(ctx, r.Resource, r.Own.Volumes); err != nil {
		return err
	}
	j.step("release the taps")
	if err := j.Networks.Release(ctx, owner(r)); err != nil {
		return sal.HostError("release the taps of "+r.Resource.String(), err)
	}
	j.step("remove the directory")
	if err := j.removeDir(); err != nil {
		return sal.HostError("remove "+j.dir, err)
	}
	if err := j.records().Remove(r.Resource); err != nil {
		return err
	}
	j.users.Forget(r.Resource.HostName())
	return nil
}

// removeDir removes the machine's directory. It keeps the API socket if a foreign process may listen there; Orphans
// then reports the directory.
func (j *job) removeDir() error {
	socket := filepath.Join(j.dir, socketName)
	if pid, err := listener(socket); err == nil && pid == 0 {
		return os.RemoveAll(j.dir)
	}
	entries, err := os.ReadDir(j.dir)
	for _, e := range entries {
		if path := filepath.Join(j.dir, e.Name()); !strings.HasPrefix(path, socket) { // the socket or its lock file
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	return err
}

// endProcess ends the process of a machine, if there is one.
func (j *job) endProcess(ctx context.Context, r *sal.Record[own]) error {
	if r.Lost {
		return j.endProcesses(ctx)
	}
	v, err := j.openProcess(r)
	if err != nil || v == nil {
		return err
	}
	defer v.release()
	return v.end(ctx, j.step)
}

// endProcesses ends every process that was started for a machine whose record is damaged.
func (j *job) endProcesses(ctx context.Context) error {
	pids, err := withArguments(below(j.dir))
	if err != nil {
		return sal.HostError("list the processes", err)
	}
	for _, pid := range pids {
		h, err := hold(pid)
		if err != nil {
			return sal.HostError("inspect the processes of "+j.Resource.String(), err)
		}
		if h == nil {
			continue
		}
		v := newVMM(j.groups(), j.dir, h)
		err = v.end(ctx, j.step)
		v.release()
		if err != nil {
			return err
		}
	}
	return nil
}

func owner(r *sal.Record[own]) sal.Owner { return sal.Owner{Resource: r.Resource, UID: r.UID} }

// bringUp starts the process and calls `make`, which boots the machine or restores a snapshot. prepare creates other
// files of the machine while the process starts; it may be nil. If bringUp fails, it ends the process.
func (j *job) bringUp(
	ctx context.Context, r *sal.Record[own], prepare func(context.Context) error,
	make func(context.Context, *sal.Record[own], *vmm) error,
) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	v, err := j.launch(ctx, r)
	if err != nil {
		return err
	}
	defer v.release()
	defer func() {
		if err == nil {
			return
		}
		over, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleaning)
		defer cancel()
		err = errors.Join(err, v.end(over, j.step))
	}()
	if err := j.connect(ctx, r); err != nil {
		return err
	}
	if prepare != nil {
		if err := prepare(ctx); err != nil {
			return err
		}
	}
	if err := j.chownSeed(r); err != nil {
		return err
	}
	var who api.Ping
	if err := v.ask(ctx, "start cloud-hypervisor", func(ctx context.Context) (err error) {
		who, err = v.Ping(ctx)
		return err
	}); err != nil {
		return err
	}
	r.Own.Process.Version = who.BuildVersion // as --version prints it
	if err := checkVersion(who.Version); err != nil {
		return err
	}
	if err := make(ctx, r, v); err != nil {
		return err
	}
	return j.measure(ctx, r)
}

// connect makes the machine's taps.
func (j *job) connect(ctx context.Context, r *sal.Record[own]) error {
	j.step("make the taps")
	ports, err := j.Networks.Taps(ctx, owner(r), spec(r).Networks)
	if err != nil {
		return sal.HostError("make the taps of "+r.Resource.String(), err)
	}
	r.Own.Ports, r.Own.Taps = ports, map[string]int{}
	for _, p := range ports {
		if tap, err := net.InterfaceByName(p.Device); err == nil {
			r.Own.Taps[p.Device] = tap.Index
		}
		if r.Own.User == 0 {
			continue
		}
		j.step("hand the tap over")
		if err := setTapOwner(p.Device, r.Own.User); err != nil {
			return sal.HostError("hand the tap "+p.Device+" over", err)
		}
	}
	return nil
}

// boot configures the machine from its record and boots it.
func (j *job) boot(ctx context.Context, r *sal.Record[own], v *vmm) error {
	config, err := j.config(ctx, r)
	if err != nil {
		return err
	}
	j.step("describe the machine")
	if err := v.ask(ctx, "describe the machine",
		func(ctx context.Context) error { return v.Create(ctx, config) }); err != nil {
		return err
	}
	j.step("boot the machine")
	if err := v.ask(ctx, "boot the machine", v.Boot); err != nil {
		return err
	}
	if err := j.requireState(ctx, v, running); err != nil {
		return err
	}
	return j.awaitLife(ctx, r, v)
}

// firstSignLimit is the longest wait at a start for the guest's first sign of life. The wait detects a guest that the
// processor cannot run. lifePoll is the poll interval.
const (
	firstSignLimit = 2 * time.Second
	lifePoll       = 5 * time.Millisecond
)

// awaitLife waits for the first sign of life of a guest that has just been started. It returns an error if the process
// ends because of the guest. A slow guest is not an error.
func (j *job) awaitLife(ctx context.Context, r *sal.Record[own], v *vmm) error {
	soon, cancel := context.WithTimeout(ctx, firstSignLimit)
	defer cancel()
	for h := (heard{}); ; {
		if v.ended() {
			return writ.Errorf(writ.CodeDriverFailed, "the guest of %s cannot run: cloud-hypervisor ended%s",
				j.Resource, v.logTail()).
				WithHint("%s", v.seeLog())
		}
		var err error
		if h, err = h.readEvents(filepath.Join(j.dir, eventsName(r.Own.Process.Launch))); err != nil {
			return sal.HostError("read the events of "+j.Resource.String(), err)
		}
		if alive(j.dir, h) {
			return nil
		}
		// If the process continues after the shutdown event, the guest turned itself off.
		if h.Down && !v.endsWithin(ctx, shutdownGap) {
			return ctx.Err()
		}
		if !v.endsWithin(soon, lifePoll) && soon.Err() != nil {
			return ctx.Err()
		}
	}
}

// requireState returns an error if the machine is not in the state `want`.
func (j *job) requireState(ctx context.Context, v *vmm, want power) error {
	now, _, err := v.state(ctx)
	if err != nil {
		return err
	}
	if now != want {
		return writ.Errorf(writ.CodeDriverFailed, "%s should be %s and is %s%s", j.Resource, want, now, v.logTail()).
			WithHint("%s", v.seeLog())
	}
	return nil
}
