package directory

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"writ"
	"writ/sal"
)

var (
	_ sal.Keeper  = (*Driver)(nil)
	_ sal.Metered = (*Driver)(nil)
	_ sal.Volumes = (*Driver)(nil)
)

// Volume returns a volume that is there as a whole. The disk in it, if it has one, is as big as the volume from then on.
func (d *Driver) Volume(_ context.Context, project writ.ProjectID, volume writ.Ref) (sal.Volume, error) {
	request := sal.Request{Resource: writ.ResourceID{Project: project, Kind: writ.KindVolume, Name: volume.Name}, UID: volume.UID}
	r, err := d.records().Get(request.Resource)
	if err != nil {
		return sal.Volume{}, err
	}
	if r == nil || r.Own.Phase != ready {
		return sal.Volume{}, sal.Unknown(request.Resource)
	}
	if volume.UID != "" {
		if err := r.Owned(request); err != nil {
			return sal.Volume{}, err
		}
	}
	v := sal.Volume{UID: r.UID, Dir: d.data(r.Resource), SizeGiB: r.Own.SizeGiB}
	if err := growDisk(v.Dir, v.SizeGiB<<30); err != nil {
		return sal.Volume{}, sal.HostError("let the disk of "+r.Resource.String()+" grow", err)
	}
	return v, nil
}

func (d *Driver) data(volume writ.ResourceID) string {
	return filepath.Join(d.Dir, "volumes", volume.HostName(), "data")
}

// growDisk makes the disk in a volume as big as the volume, if there is one.
func growDisk(dir string, size int64) error {
	root, err := os.OpenRoot(dir) // what is in the volume must not lead elsewhere
	if err != nil {
		return err
	}
	defer root.Close()
	info, err := root.Lstat(sal.DiskName)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || info.Size() >= size) {
		return nil
	}
	if err != nil {
		return err
	}
	f, err := root.OpenFile(sal.DiskName, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	err = f.Truncate(size)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Keep finishes what a crash interrupted, and looks whether the content is there.
func (d *Driver) Keep(_ context.Context, resource writ.ResourceID) ([]sal.Drift, error) {
	if r, err := d.records().Get(resource); err != nil || r == nil {
		return nil, err
	}
	root, err := os.OpenRoot(d.Dir)
	if err != nil {
		return nil, sal.HostError("open the volume directory", err)
	}
	defer root.Close()
	j := &job{Driver: d, Request: sal.Request{Resource: resource, Progress: func(string) {}}, root: root, at: path.Join("volumes", resource.HostName())}
	r, err := j.settled()
	if err != nil || r == nil {
		return nil, err
	}
	exists, err := j.exists(path.Join(j.at, "data"))
	if err != nil {
		return nil, sal.HostError("look at "+resource.String(), err)
	}
	if !exists {
		return []sal.Drift{{What: "its content is gone: there is no directory " + d.data(resource)}}, nil
	}
	return nil, nil
}

// Orphans are directories that belong to no volume.
func (d *Driver) Orphans(ctx context.Context) ([]sal.Orphan, error) {
	records, err := d.records().List()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Join(d.Dir, "volumes"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, sal.HostError("list the volumes", err)
	}
	var all []sal.Orphan
	for _, e := range entries {
		if !slices.ContainsFunc(records, func(r *sal.Record[own]) bool { return r.Resource.HostName() == e.Name() }) {
			all = append(all, sal.Orphan{Kind: "directory", Name: filepath.Join(d.Dir, "volumes", e.Name())})
		}
	}
	return all, ctx.Err()
}

// Usage is the size of a volume, however much of it is written.
func (d *Driver) Usage(_ context.Context, resource writ.ResourceID) (sal.Usage, error) {
	r, err := d.records().Get(resource)
	if err != nil || r == nil {
		return sal.Usage{}, err
	}
	return sal.Usage{DiskGiB: r.Own.SizeGiB}, nil
}
