package cloudhypervisor

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"writ"
	"writ/sal"
)

// kept describes a snapshot and the state of the machine when it was made.
type kept struct {
	Power     power  `json:"power"` // power state of the machine; a stopped machine has no memory in its snapshot
	CPUs      int64  `json:"cpus"`
	MemoryMiB int64  `json:"memory_mib"`
	Volumes   []disk `json:"volumes,omitempty"`
	Bytes     int64  `json:"bytes,omitempty"`   // disk space of its files
	Version   string `json:"version,omitempty"` // of cloud-hypervisor, which reads only snapshots of its own version
}

func (j *job) snapshotDir(name string) string { return filepath.Join(j.dir, "snapshots", name) }

func memoryDir(snapshot string) string { return filepath.Join(snapshot, "memory") }

// snapshot stores the memory and the writable disks of the machine. A running machine is paused meanwhile.
func (j *job) snapshot(ctx context.Context, r *sal.Record[own], name string) (sal.Outcome, error) {
	if _, exists := r.Own.Kept[name]; exists {
		return j.outcome(ctx, r, writ.ChangeUnchanged)
	}
	if err := sal.RoomForSnapshot(r.Resource, "snapshot", len(r.Own.Kept)); err != nil {
		return sal.Outcome{}, err
	}
	v, _, err := j.live(ctx, r)
	if err != nil {
		return sal.Outcome{}, err
	}
	if v != nil {
		defer v.release()
	}
	if err := j.reserve(ctx, r, v != nil); err != nil {
		return sal.Outcome{}, err
	}
	k := kept{Power: stopped, CPUs: r.Own.CPUs, MemoryMiB: r.Own.MemoryMiB, Volumes: slices.Clone(r.Own.Volumes)}
	if v == nil {
		err = j.keep(ctx, r, name, nil)
	} else {
		k.Power, k.Version = r.Own.Power, r.Own.Process.Version
		err = j.whilePaused(ctx, r, v, func() error { return j.keep(ctx, r, name, v) })
	}
	if err == nil {
		k.Bytes, err = occupiedBelow(j.snapshotDir(name))
	}
	if err != nil {
		return sal.Outcome{}, errors.Join(err, j.release(r))
	}
	r.Own.Writing, r.Own.Kept = 0, maps.Clone(r.Own.Kept)
	if r.Own.Kept == nil {
		r.Own.Kept = map[string]kept{}
	}
	r.Own.Kept[name] = k
	return j.updated(ctx, r)
}

// whilePaused calls `do` while the machine is paused. Afterwards it resumes a machine that should run, even if ctx has
// ended.
func (j *job) whilePaused(ctx context.Context, r *sal.Record[own], v *vmm, do func() error) error {
	now, _, err := v.state(ctx)
	if err != nil {
		return err
	}
	if now == running {
		j.step("pause the machine")
		if err := v.ask(ctx, "pause the machine", v.Pause); err != nil &&
			(ctx.Err() != nil || j.requireState(ctx, v, paused) != nil) {
			return errors.Join(err, j.resumeAfter(ctx, v))
		}
	}
	err = do()
	if r.Own.Power == running {
		err = errors.Join(err, j.resumeAfter(ctx, v))
	}
	return err
}

func (j *job) resumeAfter(ctx context.Context, v *vmm) error {
	over, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleaning)
	defer cancel()
	return j.resumeMachine(over, v)
}

// keep writes a snapshot in directory work and renames it when it is complete. A snapshot exists only if the record has
// an entry for it.
func (j *job) keep(ctx context.Context, r *sal.Record[own], name string, v *vmm) error {
	work := filepath.Join(j.dir, "work")
	err := j.fill(ctx, r, work, v)
	if err == nil {
		err = j.place(work, j.snapshotDir(name))
	}
	if err != nil {
		return errors.Join(sal.HostError("store a snapshot of "+r.Resource.String(), err), os.RemoveAll(work))
	}
	return nil
}

func (j *job) fill(ctx context.Context, r *sal.Record[own], work string, v *vmm) error {
	j.step("clear work")
	if err := os.RemoveAll(work); err != nil {
		return err
	}
	if err := sal.MakeDir(work); err != nil {
		return err
	}
	if v != nil {
		if err := sal.MakeDir(memoryDir(work)); err != nil {
			return err
		}
		if err := j.chownMemory(r, work); err != nil {
			return err
		}
		j.step("write memory")
		if err := v.ask(ctx, "write its memory",
			func(ctx context.Context) error { return v.Snapshot(ctx, memoryDir(work)) }); err != nil {
			return withStopHint(err)
		}
	}
	for _, disk := range r.Own.Volumes {
		if disk.ReadOnly {
			continue // cannot have changed
		}
		path, err := j.diskFile(ctx, r, disk)
		if err != nil {
			return err
		}
		if err := sal.Clone(ctx, path, filepath.Join(work, serialOf(r, disk)), 0, j.Step); err != nil {
			return err
		}
	}
	return sal.SyncDir(work)
}

// withStopHint extends the hint of an error if cloud-hypervisor permanently refuses to write the memory of a machine. A
// snapshot of the stopped machine is still possible.
func withStopHint(err error) error {
	e, ok := errors.AsType[*writ.Error](err)
	if !ok || e.Code != writ.CodeDriverRefused {
		return err
	}
	return e.WithHint("a snapshot of the stopped machine keeps its disks: machine.stop, then machine.snapshot; %s",
		e.Hint)
}

// place renames a directory. It replaces a target that a crash left.
func (j *job) place(from, to string) error {
	j.step("make room for the snapshot")
	if err := sal.MakeDir(filepath.Dir(to)); err != nil {
		return err
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	j.step("put the snapshot in place")
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return sal.SyncDir(filepath.Dir(to))
}

// restore resets the machine to a snapshot. It first records phase restoring; from then on, the reset is completed even
// after a crash.
func (j *job) restore(ctx context.Context, r *sal.Record[own], name string) (sal.Outcome, error) {
	k, ok := r.Own.Kept[name]
	if !ok {
		return sal.Outcome{}, sal.UnknownSnapshot(r.Resource, "snapshot", name, slices.Sorted(maps.Keys(r.Own.Kept)))
	}
	if k.Version != "" {
		version, err := program(j.Program).version(ctx)
		if err != nil {
			return sal.Outcome{}, err
		}
		if version != k.Version {
			return sal.Outcome{}, writ.Errorf(writ.CodeResourceConflict,
				"the snapshot %q has memory that cloud-hypervisor %s wrote; this node has %s, which cannot read it",
				name, k.Version, version).
				WithHint("run the machine with %s again, or copy data from the disks of the snapshot", k.Version)
		}
	}
	dropped := slices.DeleteFunc(slices.Clone(r.Own.Volumes),
		func(v disk) bool { return slices.Contains(k.Volumes, v) })
	if err := j.revokeDisks(ctx, r.Resource, dropped); err != nil { // the process keeps open files until it ends
		return sal.Outcome{}, err
	}
	r.Own.Phase, r.Own.Restoring = restoring, name
	r.Own.Power, r.Own.CPUs, r.Own.MemoryMiB, r.Own.Volumes = k.Power, k.CPUs, k.MemoryMiB, slices.Clone(k.Volumes)
	if err := j.claim(ctx, r); err != nil {
		return sal.Outcome{}, err
	}
	if err := j.finishRestore(ctx, r); err != nil {
		return sal.Outcome{}, err
	}
	return j.outcome(ctx, r, writ.ChangeUpdated)
}

// finishRestore ends the process, restores the disks, and starts a process with the restored memory. If only the memory
// cannot be restored, the machine is stopped and can be started from its disks.
func (j *job) finishRestore(ctx context.Context, r *sal.Record[own]) error {
	from := j.snapshotDir(r.Own.Restoring)
	if err := j.endProcess(ctx, r); err != nil {
		return err
	}
	for _, disk := range r.Own.Volumes {
		if err := j.putBack(ctx, r, disk, from); err != nil {
			return sal.HostError("put the disk of the volume "+disk.Volume.Name+" back", err)
		}
	}
	var failed error
	r.Own.Process = nil
	if want := r.Own.Power; want != stopped {
		failed = j.bringUp(ctx, r, nil, func(ctx context.Context, r *sal.Record[own], v *vmm) error {
			if err := j.chownSnapshot(ctx, r, from); err != nil {
				return err
			}
			j.step("put the memory back")
			if err := v.ask(ctx, "restore its memory", func(ctx context.Context) error {
				return v.Restore(ctx,
					memoryDir(from), want == running)
			}); err != nil {
				return err
			}
			return j.requireState(ctx, v, want)
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if failed != nil {
		r.Own.Power, r.Own.Process = stopped, nil
	} else {
		r.Own.Past = past{}
		r.Own.Past.began(j.clock())
	}
	r.Own.Phase, r.Own.Restoring = ready, ""
	r.Generation++
	return errors.Join(failed, j.records().Put(r))
}

// putBack replaces the disk of a volume by a copy of the snapshot's disk. It skips a read-only volume that the snapshot
// does not contain.
func (j *job) putBack(ctx context.Context, r *sal.Record[own], v disk, snapshot string) error {
	from := filepath.Join(snapshot, serialOf(r, v))
	if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) && v.ReadOnly {
		return nil
	}
	volume, err := j.Volumes.Volume(ctx, r.Resource.Project, v.Volume)
	if err != nil {
		return err
	}
	to := filepath.Join(volume.Dir, sal.DiskName)
	fresh := to + ".restored"
	j.step("clear the copy")
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := sal.Clone(ctx, from, fresh, volume.SizeGiB<<30, j.Step); err != nil {
		return err
	}
	j.step("put the disk back")
	if err := os.Rename(fresh, to); err != nil {
		return err
	}
	return sal.SyncDir(volume.Dir)
}
