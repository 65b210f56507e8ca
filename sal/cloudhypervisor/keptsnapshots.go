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
	"writ/internal/diskspace"
	"writ/sal"
)

// gib is the unit of disk quotas in bytes.
const gib = 1 << 30

// snapshotBytes returns the size of all snapshots of a machine, including the reservation for one in progress.
func (o *own) snapshotBytes() int64 {
	sum := o.Writing
	for _, k := range o.Kept {
		sum += k.Bytes
	}
	return sum
}

// diskGiB returns the size of the snapshots in GiB, rounded up.
func (o *own) diskGiB() int64 { return (o.snapshotBytes() + gib - 1) / gib }

// reserve records the largest possible size of a new snapshot before its first byte is written. It returns
// QUOTA_EXCEEDED if the project has no room for it.
func (j *job) reserve(ctx context.Context, r *sal.Record[own], memory bool) error {
	if err := j.release(r); err != nil { // the reservation of an interrupted attempt
		return err
	}
	var bytes int64
	if memory {
		bytes = r.Own.MemoryMiB << 20
	}
	for _, v := range r.Own.Volumes {
		if v.ReadOnly {
			continue
		}
		path, err := j.diskFile(ctx, r, v)
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return sal.HostError("measure the disk of the volume "+v.Volume.Name, err)
		}
		bytes += diskspace.Occupied(info)
	}
	j.reserving.Lock()
	defer j.reserving.Unlock()
	if j.Room != nil {
		if err := j.Room(ctx, r.Resource.HostName(), sal.Bound{Bytes: bytes, Project: r.Resource.Project}); err != nil {
			return err
		}
	}
	r.Own.Writing = bytes
	return j.records().Put(r)
}

// release ends the reservation of a snapshot that was not finished.
func (j *job) release(r *sal.Record[own]) error {
	if r.Own.Writing == 0 {
		return nil
	}
	r.Own.Writing = 0
	return j.records().Put(r)
}

// deleteSnapshot deletes a snapshot: first from the record, then its files. It returns ChangeUnchanged for an unknown
// snapshot: an earlier attempt may have deleted it.
func (j *job) deleteSnapshot(ctx context.Context, r *sal.Record[own], name string) (sal.Outcome, error) {
	if _, exists := r.Own.Kept[name]; !exists {
		if err := j.sweepSnapshots(r); err != nil {
			return sal.Outcome{}, err
		}
		return j.outcome(ctx, r, writ.ChangeUnchanged)
	}
	r.Own.Kept = maps.Clone(r.Own.Kept)
	delete(r.Own.Kept, name)
	r.Generation++
	if err := j.records().Put(r); err != nil {
		return sal.Outcome{}, err
	}
	if err := j.sweepSnapshots(r); err != nil {
		return sal.Outcome{}, err
	}
	return j.outcome(ctx, r, writ.ChangeUpdated)
}

// sweepSnapshots deletes the files of snapshots that the record does not list: an interrupted call left them.
func (j *job) sweepSnapshots(r *sal.Record[own]) error {
	names, err := sal.FileNames(filepath.Join(j.dir, "snapshots"))
	if err != nil {
		return sal.HostError("list the snapshots of "+r.Resource.String(), err)
	}
	left := slices.DeleteFunc(names, func(name string) bool { _, listed := r.Own.Kept[name]; return listed })
	paths := []string{filepath.Join(j.dir, "work")}
	for _, name := range left {
		paths = append(paths, j.snapshotDir(name))
	}
	for _, path := range paths {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		j.step("delete the files of a snapshot")
		if err := os.RemoveAll(path); err != nil {
			return sal.HostError("delete the files of a snapshot", err)
		}
	}
	return nil
}

// keepSnapshots removes the remains of interrupted calls. It also measures snapshots of earlier driver versions, which
// did not record a size.
func (j *job) keepSnapshots(r *sal.Record[own]) error {
	if err := errors.Join(j.release(r), j.sweepSnapshots(r)); err != nil {
		return err
	}
	measured := maps.Clone(r.Own.Kept)
	for name, k := range measured {
		if k.Bytes != 0 {
			continue
		}
		bytes, err := occupiedBelow(j.snapshotDir(name))
		if err != nil {
			return sal.HostError("measure a snapshot", err)
		}
		k.Bytes = bytes
		measured[name] = k
	}
	if maps.EqualFunc(measured, r.Own.Kept, func(a, b kept) bool { return a.Bytes == b.Bytes }) {
		return nil
	}
	r.Own.Kept = measured
	return j.records().Put(r)
}

// occupiedBelow returns the disk space in bytes of the files below a directory. Blocks shared with other files are
// included.
func occupiedBelow(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			sum += diskspace.Occupied(info)
		}
		return err
	})
	return sum, err
}
