package cloudhypervisor

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"writ"
	"writ/internal/sleep"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/cloudhypervisor/api"
)

// idOf returns the device ID of a volume. serialOf returns the serial number of its disk, which is
// /dev/disk/by-id/virtio-SERIAL in the guest.
func idOf(r *sal.Record[own], v disk) string { return diskPrefix + serialOf(r, v) }

func serialOf(r *sal.Record[own], v disk) string {
	return writ.ResourceID{Project: r.Resource.Project, Kind: writ.KindVolume, Name: v.Volume.Name}.HostName()
}

func has(r *sal.Record[own], volume writ.UID) bool {
	return slices.ContainsFunc(r.Own.Volumes, func(v disk) bool { return v.Volume.UID == volume })
}

// claim writes a record after checking that its volumes exist and have no other user. Two machines on one disk would
// destroy its data, and a container could replace the disk file by a link to any file of this host.
func (j *job) claim(ctx context.Context, r *sal.Record[own]) error {
	if err := j.hasVolumes(ctx, r); err != nil {
		return err
	}
	if len(r.Own.Volumes) == 0 {
		return j.records().Put(r)
	}
	j.claims.Lock()
	defer j.claims.Unlock()
	for i, v := range r.Own.Volumes {
		if slices.ContainsFunc(r.Own.Volumes[:i], func(other disk) bool { return other.Volume.UID == v.Volume.UID }) {
			return writ.Errorf(writ.CodeArgumentsInvalid, "%s lists the volume %q twice", r.Resource, v.Volume.Name)
		}
		users, err := j.Users(ctx, v.Volume.UID)
		if err != nil {
			return err
		}
		for _, u := range users {
			if u.Resource != r.Resource {
				return catalog.DiskInUse(u.Resource, v.Volume.Name)
			}
		}
	}
	before, err := j.records().Get(r.Resource)
	if err != nil {
		return err
	}
	if err := j.records().Put(r); err != nil { // before the check, so that one of two concurrent claims finds the other
		return err
	}
	err = j.hasVolumes(ctx, r) // a concurrent delete marks the volume before it checks for users
	for _, v := range r.Own.Volumes {
		volume := sal.Owner{
			Resource: writ.ResourceID{Project: r.Resource.Project, Kind: writ.KindVolume, Name: v.Volume.Name},
			UID:      v.Volume.UID,
		}
		if err == nil {
			err = sal.Unused(ctx, volume, j.Others)
		}
	}
	switch {
	case err == nil:
		return nil
	case before == nil:
		return errors.Join(err, j.records().Remove(r.Resource))
	default:
		return errors.Join(err, j.records().Put(before))
	}
}

// hasVolumes returns an error if a volume of the machine is missing.
func (j *job) hasVolumes(ctx context.Context, r *sal.Record[own]) error {
	for _, v := range r.Own.Volumes {
		if _, err := j.Volumes.Volume(ctx, r.Resource.Project, v.Volume); err != nil {
			return sal.HostError("find the volume "+v.Volume.Name, err)
		}
	}
	return nil
}

// disks returns the machine's volumes as disks for cloud-hypervisor, each with its file.
func (j *job) disks(ctx context.Context, r *sal.Record[own]) ([]api.Disk, error) {
	var all []api.Disk
	for _, v := range r.Own.Volumes {
		path, err := j.diskFile(ctx, r, v)
		if err != nil {
			return nil, err
		}
		all = append(all,
			api.Disk{ID: idOf(r, v), Serial: serialOf(r, v), Path: path, ImageType: "Raw", Readonly: v.ReadOnly})
	}
	return all, nil
}

// diskFile returns the path of the disk file of a volume. It creates a missing file, and grows the file if the volume
// has grown.
func (j *job) diskFile(ctx context.Context, r *sal.Record[own], v disk) (string, error) {
	volume, err := j.Volumes.Volume(ctx, r.Resource.Project, v.Volume)
	if err != nil {
		return "", sal.HostError("find the volume "+v.Volume.Name, err)
	}
	path := filepath.Join(volume.Dir, sal.DiskName)
	info, err := os.Lstat(path)
	switch {
	case err == nil && !info.Mode().IsRegular(): // a link could lead anywhere
		return "", writ.Errorf(writ.CodeResourceConflict, "%s in the volume %q is not a regular file", sal.DiskName,
			v.Volume.Name)
	case err == nil && info.Size() >= volume.SizeGiB<<30:
		return path, j.chownDisk(r, v, volume)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", sal.HostError("inspect the disk of the volume "+v.Volume.Name, err)
	}
	j.step("make the disk")
	if err := growTo(path, volume.SizeGiB<<30); err != nil {
		return "", sal.HostError("make the disk of the volume "+v.Volume.Name, err)
	}
	return path, j.chownDisk(r, v, volume)
}

// measure stores in r the current disk sizes, which the process has just read.
func (j *job) measure(ctx context.Context, r *sal.Record[own]) error {
	r.Own.Sizes = sizes{}
	for _, v := range r.Own.Volumes {
		size, err := j.sizeOf(ctx, r, v)
		if err != nil {
			return err
		}
		r.Own.Sizes[v.Volume.UID] = size
	}
	return nil
}

// sizeOf returns the current size of a disk, which is at least the size of its volume.
func (j *job) sizeOf(ctx context.Context, r *sal.Record[own], v disk) (int64, error) {
	path, err := j.diskFile(ctx, r, v)
	if err != nil {
		return 0, err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return 0, sal.HostError("inspect the disk of the volume "+v.Volume.Name, err)
	}
	return info.Size(), nil
}

// growTo creates a sparse file or grows it to size. The file is not synced: after a power cut it is made again.
//
//failpoint:none the caller names the write
func growTo(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

func (j *job) attach(ctx context.Context, r *sal.Record[own], wanted disk) (sal.Outcome, error) {
	for _, v := range r.Own.Volumes {
		if v.Volume.Name == wanted.Volume.Name && v != wanted {
			return sal.Outcome{}, writ.Errorf(writ.CodeResourceConflict, "%s already has the volume %q in another mode",
				j.Resource, v.Volume.Name).
				WithHint("detach it first with machine.detach")
		}
	}
	before := slices.Clone(r.Own.Volumes)
	if !slices.Contains(r.Own.Volumes, wanted) {
		r.Own.Volumes = append(r.Own.Volumes, wanted)
		if err := j.claim(ctx, r); err != nil {
			return sal.Outcome{}, err
		}
	}
	plugged, err := j.plug(ctx, r, wanted)
	if err != nil && ctx.Err() == nil {
		if !slices.Contains(before, wanted) {
			err = errors.Join(err, j.revokeDisks(ctx, r.Resource, []disk{wanted}))
		}
		r.Own.Volumes = before
		err = errors.Join(err, j.records().Put(r))
	}
	if err != nil {
		return sal.Outcome{}, err
	}
	if !plugged && len(before) == len(r.Own.Volumes) {
		return j.outcome(ctx, r, writ.ChangeUnchanged)
	}
	return j.updated(ctx, r)
}

// plug attaches a disk to a running or paused machine if it is not attached yet. It stores the size in r; the caller
// writes the record.
func (j *job) plug(ctx context.Context, r *sal.Record[own], v disk) (plugged bool, err error) {
	m, info, err := j.live(ctx, r)
	if err != nil || m == nil {
		return false, err
	}
	defer m.release()
	if plugs(info, idOf(r, v)) {
		return false, nil
	}
	path, err := j.diskFile(ctx, r, v)
	if err != nil {
		return false, err
	}
	j.step("plug the disk in")
	d := api.Disk{ID: idOf(r, v), Serial: serialOf(r, v), Path: path, ImageType: "Raw", Readonly: v.ReadOnly}
	if err := m.ask(ctx, "attach the volume "+v.Volume.Name,
		func(ctx context.Context) error { return m.AddDisk(ctx, d) }); err != nil {
		return false, err
	}
	size, err := j.sizeOf(ctx, r, v)
	if err != nil {
		return true, err
	}
	if r.Own.Sizes == nil {
		r.Own.Sizes = sizes{}
	}
	r.Own.Sizes[v.Volume.UID] = size
	return true, nil
}

// plugs reports whether a device is attached to the machine, or detached and not yet released by the guest.
func plugs(info api.Info, id string) bool {
	_, inTree := info.DeviceTree[id]
	return inTree || slices.ContainsFunc(info.Config.Disks, func(d api.Disk) bool { return d.ID == id })
}

// live returns the process of a running or paused machine, or nil if the machine is stopped. The caller must release
// it.
func (j *job) live(ctx context.Context, r *sal.Record[own]) (*vmm, api.Info, error) {
	v, err := j.openProcess(r)
	if err != nil || v == nil {
		return nil, api.Info{}, err
	}
	now, info, err := v.state(ctx)
	if err != nil || now == stopped {
		v.release()
		return nil, api.Info{}, err
	}
	return v, info, nil
}

func (j *job) detach(ctx context.Context, r *sal.Record[own], volume writ.Ref) (sal.Outcome, error) {
	i := slices.IndexFunc(r.Own.Volumes, func(v disk) bool { return v.Volume.Name == volume.Name })
	switch {
	case i == 0 && len(spec(r).Disks) > 0:
		return sal.Outcome{}, writ.Errorf(writ.CodeResourceConflict, "%s boots from the volume %q", j.Resource,
			volume.Name).
			WithHint("delete the machine first; the volume stays")
	case i < 0:
		return j.outcome(ctx, r, writ.ChangeUnchanged)
	case r.Own.Volumes[i].Volume.UID != volume.UID:
		return sal.Outcome{}, writ.Errorf(writ.CodeResourceConflict, "%s has a different volume named %q", j.Resource,
			volume.Name)
	}
	if err := j.unplug(ctx, r, r.Own.Volumes[i]); err != nil {
		return sal.Outcome{}, err
	}
	if err := j.revokeDisks(ctx, r.Resource, r.Own.Volumes[i:i+1]); err != nil {
		return sal.Outcome{}, err
	}
	r.Own.Volumes = slices.Delete(r.Own.Volumes, i, i+1)
	return j.updated(ctx, r)
}

// releaseLimit limits how long a guest may take to release a disk. releasePoll is the poll interval.
const (
	releaseLimit = 20 * time.Second
	releasePoll  = 20 * time.Millisecond
)

// unplug detaches a disk from a running machine and waits until the guest has released it.
func (j *job) unplug(ctx context.Context, r *sal.Record[own], v disk) error {
	m, info, err := j.live(ctx, r)
	if err != nil || m == nil {
		return err
	}
	defer m.release()
	id := idOf(r, v)
	if !plugs(info, id) {
		return nil
	}
	// an earlier request was accepted, and the guest has not released the disk yet
	asked := !slices.ContainsFunc(info.Config.Disks, func(d api.Disk) bool { return d.ID == id })
	j.step("unplug the disk")
	failed := m.ask(ctx, "detach the volume "+v.Volume.Name,
		func(ctx context.Context) error { return m.RemoveDevice(ctx, id) })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	waiting, stop := context.WithTimeout(ctx, cmp.Or(j.guestTime, releaseLimit))
	defer stop()
	for {
		now, info, err := m.state(ctx)
		if err != nil || now == stopped || !plugs(info, id) {
			return err // the answer to the request does not matter if the disk is gone
		}
		if failed != nil && !asked { // v53 rejects a repeated request, v54 accepts it
			return failed
		}
		if sleep.For(waiting, releasePoll) == nil {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return writ.Errorf(writ.CodeResourceBusy, "the guest of %s does not release the volume %q", j.Resource,
			v.Volume.Name).
			WithHint("unmount it in the guest, or stop the machine and then detach it")
	}
}
