// Package directory is the volume driver that works on any disk: a volume is a plain directory. It promises what every volume driver
// promises, except for two things that it admits wherever drivers are listed: nothing stops a volume from growing over its size,
// and snapshots, clones and restores copy every byte, unless the disk lets files
// share blocks. Copies and archives keep modes, times and, if the node runs as root, owners, but
// no extended attributes, and hard links become files. It must not know what is in a volume.
//
// On disk, below Dir: records/ as package sal writes them; volumes/NAME/data is the content, volumes/NAME/snapshots/* the snapshots,
// volumes/NAME/work whatever is not finished, where NAME is writ.ResourceID.HostName; backups/PROJECT/*.tar the archives. A tree comes
// into being under work and is renamed when it is whole and synced, so that content and snapshots are never half there.
package directory

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// Driver is the volume driver of a node without a better one.
type Driver struct {
	Dir string // required: an absolute path; everything is kept below it
	// Images are those that volumes can be made of; without it there are none.
	Images sal.Images
	// Users are asked before a volume is deleted; there may be none.
	Users []sal.Users
	// Step is called before every single change of Dir; tests stop the driver there. It may be nil.
	Step func(name string)
}

// own is what a record keeps besides the spec.
type own struct {
	SizeGiB int64 `json:"size_gib"`
	Phase   phase `json:"phase"`
}

// phase tells what a crash may have interrupted.
type phase string

const (
	making    phase = "making"    // there may be anything below the volume's directory, and nothing of it counts
	ready     phase = "ready"     // data is whole
	restoring phase = "restoring" // work/new is whole, if it is there, and takes the place of data, whatever that is
	deleting  phase = "deleting"  // as making, and it must go
)

// Describe names the driver and its limits.
func (d *Driver) Describe() writ.NodeDriver {
	return writ.NodeDriver{Module: "volume", Name: "directory", Detail: "plain directories: sizes are noted and not enforced, snapshots and clones are full copies"}
}

// Observe looks at a volume.
func (d *Driver) Observe(ctx context.Context, resource writ.ResourceID) (sal.Observation, error) {
	r, err := d.records().Get(resource)
	if err != nil || r == nil {
		return sal.Observation{}, err
	}
	seen := sal.Observation{Exists: true, UID: r.UID, State: string(r.Own.Phase)}
	if seen.Values, err = d.values(r); err != nil {
		return sal.Observation{}, err
	}
	return seen, ctx.Err()
}

// List returns every volume that has a record, finished or not.
func (d *Driver) List(ctx context.Context) ([]writ.ResourceID, error) {
	return d.records().Resources(ctx)
}

// Do carries out an operation on a volume.
func (d *Driver) Do(ctx context.Context, request sal.Request) (sal.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return sal.Outcome{}, err
	}
	if err := sal.MakeDir(d.Dir); err != nil {
		return sal.Outcome{}, sal.HostError("make the volume directory", err)
	}
	root, err := os.OpenRoot(d.Dir)
	if err != nil {
		return sal.Outcome{}, sal.HostError("open the volume directory", err)
	}
	defer root.Close()
	j := &job{Driver: d, Request: request, root: root, at: path.Join("volumes", request.Resource.HostName())}

	r, err := j.settled()
	if err != nil {
		return sal.Outcome{}, err
	}
	switch request.Operation.Effect {
	case catalog.Make:
		return j.make(ctx, r)
	case catalog.Remove:
		return j.remove(ctx, r)
	default:
		return j.use(ctx, r)
	}
}

// job is one operation on one volume.
type job struct {
	*Driver
	sal.Request
	root *os.Root
	at   string // the volume's directory, below root
}

// settled returns the volume's record after finishing what a crash interrupted. A volume that was never finished does not exist.
func (j *job) settled() (*sal.Record[own], error) {
	r, err := j.records().Get(j.Resource)
	if err != nil || r == nil {
		return nil, err
	}
	switch r.Own.Phase {
	case making:
		return nil, nil
	case deleting:
		return nil, j.clear(r)
	case restoring:
		if err := j.swap(); err != nil {
			return nil, sal.HostError("put a snapshot in place", err)
		}
		r.Own.Phase = ready
		return r, j.records().Put(r)
	default:
		return r, nil
	}
}

func (j *job) make(ctx context.Context, r *sal.Record[own]) (sal.Outcome, error) {
	change, _, err := r.Decide(j.Request)
	if err != nil {
		return sal.Outcome{}, err
	}
	switch change {
	case writ.ChangeCreated:
		r, err = j.create(ctx)
	case writ.ChangeUpdated:
		err = j.update(r)
	}
	if err != nil {
		return sal.Outcome{}, err
	}
	return j.outcome(r, change)
}

// create makes the volume, or nothing at all.
func (j *job) create(ctx context.Context) (*sal.Record[own], error) {
	fill, err := j.content(ctx)
	if err != nil {
		return nil, err
	}
	r := sal.NewRecord[own](j.Request)
	r.Own = own{SizeGiB: fill.sizeGiB, Phase: making}
	if err := j.records().Put(r); err != nil {
		return nil, err
	}
	j.step("clear the place")
	err = j.root.RemoveAll(j.at) // an earlier attempt may have left something
	if err == nil {
		err = j.build(ctx, path.Join(j.at, "data"), fill.into)
	}
	if err != nil {
		if undo := j.clear(r); undo != nil {
			return nil, errors.Join(sal.HostError("make "+j.Resource.String(), err), undo)
		}
		return nil, sal.HostError("make "+j.Resource.String(), err)
	}
	r.Own.Phase = ready
	r.Generation++
	return r, j.records().Put(r)
}

// update lets the volume grow to what its spec says now; nothing else of a volume may change. If volume.clone no longer says a size,
// it stays as it is.
func (j *job) update(r *sal.Record[own]) error {
	r.Spec = catalog.Values(j.Args)
	if size, given := r.Spec["size_gib"].(int64); given {
		if err := j.grow(r, size); err != nil {
			return err
		}
	}
	r.Generation++
	return j.records().Put(r)
}

func (j *job) grow(r *sal.Record[own], size int64) error {
	if size < r.Own.SizeGiB {
		return writ.Errorf(writ.CodeImmutableField, "%s has %d GiB and cannot shrink to %d", j.Resource, r.Own.SizeGiB, size).
			WithHint("make a smaller one under another name and copy what is in it")
	}
	r.Own.SizeGiB = size
	return nil
}

func (j *job) remove(ctx context.Context, r *sal.Record[own]) (sal.Outcome, error) {
	gone := sal.Outcome{Change: writ.ChangeUnchanged, Values: catalog.Values(catalog.Identify(j.Resource, j.UID, false))}
	if r == nil {
		left, err := j.records().Get(j.Resource) // of a volume that was never finished
		if err != nil || left == nil {
			return gone, err
		}
		return gone, j.clear(left)
	}
	if err := r.Owned(j.Request); err != nil {
		return sal.Outcome{}, err
	}
	if err := sal.Unused(ctx, sal.Owner{Resource: r.Resource, UID: r.UID}, j.Users); err != nil {
		return sal.Outcome{}, err
	}
	gone.Change = writ.ChangeDeleted
	return gone, j.clear(r)
}

// clear removes whatever there is of the volume, its record last.
func (j *job) clear(r *sal.Record[own]) error {
	r.Own.Phase = deleting
	if err := j.records().Put(r); err != nil {
		return err
	}
	j.step("remove the volume")
	if err := j.root.RemoveAll(j.at); err != nil {
		return sal.HostError("remove what is in "+filepath.Join(j.Dir, j.at), err)
	}
	if err := j.sync("volumes"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return sal.HostError("remove "+j.Resource.String(), err)
	}
	_ = j.root.Remove(j.partPath()) // of a backup that was never finished; it is in nobody's way
	return j.records().Remove(j.Resource)
}

// use carries out Alter and Look operations.
func (j *job) use(ctx context.Context, r *sal.Record[own]) (sal.Outcome, error) {
	if err := r.Owned(j.Request); err != nil {
		return sal.Outcome{}, err
	}
	switch args := j.Args.(type) {
	case *catalog.VolumeResize:
		return j.resize(r, args.SizeGiB)
	case *catalog.VolumeSend:
		return j.send(ctx, r, args)
	case *catalog.Snapshot:
		if j.Operation.Verb == "restore" {
			return j.restore(ctx, r, args.Snapshot)
		}
		return j.snapshot(ctx, r, args.Snapshot)
	default:
		return sal.Outcome{}, writ.Errorf(writ.CodeDriverMissing, "the directory driver cannot do %s", j.Operation.Name())
	}
}

func (j *job) resize(r *sal.Record[own], size int64) (sal.Outcome, error) {
	if size == r.Own.SizeGiB {
		return j.outcome(r, writ.ChangeUnchanged)
	}
	if err := j.grow(r, size); err != nil {
		return sal.Outcome{}, err
	}
	r.Generation++
	if err := j.records().Put(r); err != nil {
		return sal.Outcome{}, err
	}
	return j.outcome(r, writ.ChangeUpdated)
}

func (j *job) snapshot(ctx context.Context, r *sal.Record[own], name string) (sal.Outcome, error) {
	to := path.Join(j.at, "snapshots", name)
	exists, err := j.exists(to)
	if err != nil {
		return sal.Outcome{}, sal.HostError("look for the snapshot", err)
	}
	if exists {
		return j.outcome(r, writ.ChangeUnchanged)
	}
	if err := j.build(ctx, to, j.copyOf(path.Join(j.at, "data"))); err != nil {
		return sal.Outcome{}, sal.HostError("keep a snapshot of "+j.Resource.String(), err)
	}
	return j.outcome(r, writ.ChangeUpdated)
}

// restore copies the snapshot first and decides then: from the moment the record says restoring, the copy is the content.
func (j *job) restore(ctx context.Context, r *sal.Record[own], name string) (sal.Outcome, error) {
	from, err := j.snapshotPath(j.at, r.Resource, name)
	if err != nil {
		return sal.Outcome{}, err
	}
	if err := j.prepare(ctx, j.copyOf(from)); err != nil {
		return sal.Outcome{}, sal.HostError("copy the snapshot", err)
	}
	r.Own.Phase = restoring
	r.Generation++
	if err := j.records().Put(r); err != nil {
		return sal.Outcome{}, err
	}
	if r, err = j.settled(); err != nil {
		return sal.Outcome{}, err
	}
	return j.outcome(r, writ.ChangeUpdated)
}

// swap puts work/new in the place of data, unless that is done.
func (j *job) swap() error {
	fresh, data := path.Join(j.at, "work", "new"), path.Join(j.at, "data")
	exists, err := j.exists(fresh)
	if err != nil || !exists {
		return err
	}
	j.step("remove the old content")
	if err := j.root.RemoveAll(data); err != nil {
		return err
	}
	return j.place(data)
}

// snapshotPath finds a snapshot of a volume.
func (j *job) snapshotPath(volume string, resource writ.ResourceID, name string) (string, error) {
	p := path.Join(volume, "snapshots", name)
	exists, err := j.exists(p)
	if err != nil {
		return "", sal.HostError("look for the snapshot", err)
	}
	if !exists {
		return "", writ.Errorf(writ.CodeResourceUnknown, "%s has no snapshot %q", resource, name)
	}
	return p, nil
}

func (j *job) exists(name string) (bool, error) {
	_, err := j.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (j *job) outcome(r *sal.Record[own], change writ.Change) (sal.Outcome, error) {
	values, err := j.values(r)
	return sal.Outcome{Change: change, Values: values}, err
}

func (d *Driver) records() *sal.Records[own] {
	return &sal.Records[own]{Dir: filepath.Join(d.Dir, "records"), Step: d.Step}
}

func (d *Driver) step(name string) {
	if d.Step != nil {
		d.Step(name)
	}
}

// values are the fields of a handle to the volume.
func (d *Driver) values(r *sal.Record[own]) (map[string]any, error) {
	v, err := d.volume(r)
	return catalog.Values(v), err
}

func (d *Driver) volume(r *sal.Record[own]) (catalog.Volume, error) {
	at := filepath.Join(d.Dir, "volumes", r.Resource.HostName())
	v := catalog.Volume{
		Identity: catalog.Identify(r.Resource, r.UID, false),
		Path:     filepath.Join(at, "data"),
		SizeGiB:  r.Own.SizeGiB,
	}
	snapshots, err := os.ReadDir(filepath.Join(at, "snapshots"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return v, sal.HostError("list the snapshots of "+r.Resource.String(), err)
	}
	for _, s := range snapshots {
		v.Snapshots = append(v.Snapshots, s.Name())
	}
	return v, nil
}
