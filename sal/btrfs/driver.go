package btrfs

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// Driver is the volume driver of a node with btrfs: each volume is a tree of the pool.
//
// Below Dir, records/ is as package sal writes it, and backups/PROJECT/*.btrfs are archives, as btrfs-send(8) writes them.
type Driver struct {
	Dir  string // required: an absolute path, on any disk that has room for backups
	Pool *Pool  // required
	// Images are those that volumes can be made of; without it there are none.
	Images sal.Images
	// Users are asked before a volume is deleted; there may be none.
	Users []sal.Users
	// Step is called before every single change of Dir; tests stop the driver there. It may be nil.
	Step func(name string)
}

var (
	_ sal.Keeper  = (*Driver)(nil)
	_ sal.Metered = (*Driver)(nil)
	_ sal.Volumes = (*Driver)(nil)
)

// own is what a record keeps besides the spec.
type own struct {
	SizeGiB int64 `json:"size_gib"`
	Phase   phase `json:"phase"`
}

// phase tells what a crash may have interrupted.
type phase string

const (
	making   phase = "making"   // there may be a tree of the name, and it does not count
	ready    phase = "ready"    // the tree is whole
	deleting phase = "deleting" // as making, and it must go
)

const gib = 1 << 30

// Describe names the driver.
func (d *Driver) Describe() writ.NodeDriver {
	return writ.NodeDriver{Module: "volume", Name: "btrfs", Detail: "subvolumes: sizes are enforced, snapshots and clones take no time"}
}

// Observe looks at a volume.
func (d *Driver) Observe(ctx context.Context, resource writ.ResourceID) (sal.Observation, error) {
	r, err := d.records().Get(resource)
	if err != nil || r == nil {
		return sal.Observation{}, err
	}
	seen := sal.Observation{Exists: true, UID: r.UID, State: string(r.Own.Phase)}
	seen.Values, err = d.values(ctx, r)
	return seen, err
}

// List returns every volume that has a record, finished or not.
func (d *Driver) List(ctx context.Context) ([]writ.ResourceID, error) {
	return d.records().Resources(ctx)
}

// Volume returns a volume that is there as a whole.
func (d *Driver) Volume(_ context.Context, project writ.ProjectID, volume writ.Ref) (sal.Volume, error) {
	r, err := d.whole(project, volume)
	if err != nil {
		return sal.Volume{}, err
	}
	return sal.Volume{UID: r.UID, Dir: d.Pool.tree(r.Resource.HostName()), SizeGiB: r.Own.SizeGiB}, nil
}

// whole returns the record of a volume that a handle or a name means.
func (d *Driver) whole(project writ.ProjectID, volume writ.Ref) (*sal.Record[own], error) {
	resource := writ.ResourceID{Project: project, Kind: writ.KindVolume, Name: volume.Name}
	r, err := d.records().Get(resource)
	if err != nil {
		return nil, err
	}
	if r == nil || r.Own.Phase != ready {
		return nil, sal.Unknown(resource)
	}
	if volume.UID == "" {
		return r, nil
	}
	return r, r.Owned(sal.Request{Resource: resource, UID: volume.UID})
}

// Keep finishes a deletion, and sees to it that the tree is there and has its bound.
func (d *Driver) Keep(ctx context.Context, resource writ.ResourceID) ([]sal.Drift, error) {
	r, err := d.records().Get(resource)
	if err != nil || r == nil {
		return nil, err
	}
	j := d.job(sal.Request{Resource: resource, UID: r.UID, Progress: func(string) {}})
	switch r.Own.Phase {
	case deleting:
		return nil, j.clear(ctx, r)
	case making:
		return nil, nil // whoever asked for it asks again
	}
	what, mended, err := d.Pool.keep(ctx, j.name, r.Own.SizeGiB*gib)
	if err != nil || what == "" {
		return nil, err
	}
	return []sal.Drift{{What: what, Mended: mended}}, nil
}

// Orphans are trees that have the name of a volume and belong to none.
func (d *Driver) Orphans(ctx context.Context) ([]sal.Orphan, error) {
	trees, err := d.Pool.List(ctx)
	if err != nil {
		return nil, err
	}
	records, err := d.records().List()
	if err != nil {
		return nil, err
	}
	example := writ.ResourceID{Kind: writ.KindVolume}.HostName()
	var all []sal.Orphan
	for _, name := range trees {
		owned := slices.ContainsFunc(records, func(r *sal.Record[own]) bool { return r.Resource.HostName() == name })
		if !owned && len(name) == len(example) && strings.HasPrefix(name, example[:1]) {
			all = append(all, sal.Orphan{Kind: "subvolume", Name: d.Pool.tree(name)})
		}
	}
	return all, nil
}

// Usage is the size of a volume, however much of it is written.
func (d *Driver) Usage(_ context.Context, resource writ.ResourceID) (sal.Usage, error) {
	r, err := d.records().Get(resource)
	if err != nil || r == nil {
		return sal.Usage{}, err
	}
	return sal.Usage{DiskGiB: r.Own.SizeGiB}, nil
}

// Do carries out an operation on a volume.
func (d *Driver) Do(ctx context.Context, request sal.Request) (sal.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return sal.Outcome{}, err
	}
	j := d.job(request)
	r, err := j.settled(ctx)
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
	name string // of the tree
}

func (d *Driver) job(request sal.Request) *job {
	return &job{Driver: d, Request: request, name: request.Resource.HostName()}
}

// settled returns the volume's record after finishing what a crash interrupted. A volume that was never finished does not exist.
func (j *job) settled(ctx context.Context) (*sal.Record[own], error) {
	r, err := j.records().Get(j.Resource)
	if err != nil || r == nil {
		return nil, err
	}
	switch r.Own.Phase {
	case making:
		return nil, nil
	case deleting:
		return nil, j.clear(ctx, r)
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
		err = j.update(ctx, r)
	}
	if err != nil {
		return sal.Outcome{}, err
	}
	return j.outcome(ctx, r, change)
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
	err = j.Pool.Remove(ctx, j.name) // an earlier attempt may have left something
	if err == nil {
		err = fill.into(ctx)
	}
	if err != nil {
		return nil, errors.Join(hostError("make "+j.Resource.String(), err), j.clear(context.WithoutCancel(ctx), r))
	}
	r.Own.Phase = ready
	r.Generation++
	return r, j.records().Put(r)
}

// update lets the volume grow to what its spec says now; nothing else of a volume may change. If volume.clone no longer says a size,
// it stays as it is.
func (j *job) update(ctx context.Context, r *sal.Record[own]) error {
	r.Spec = catalog.Values(j.Args)
	if size, given := r.Spec["size_gib"].(int64); given {
		return j.grow(ctx, r, size)
	}
	r.Generation++
	return j.records().Put(r)
}

// grow lets the volume grow, and its disk with it.
func (j *job) grow(ctx context.Context, r *sal.Record[own], size int64) error {
	if size < r.Own.SizeGiB {
		return writ.Errorf(writ.CodeImmutableField, "%s has %d GiB and cannot shrink to %d", j.Resource, r.Own.SizeGiB, size).
			WithHint("make a smaller one under another name and copy what is in it")
	}
	dir, err := j.Pool.make(ctx, j.name, size*gib, j.Resource.Project)
	if err == nil {
		err = j.growDisk(dir, size*gib)
	}
	if err != nil {
		return err
	}
	r.Own.SizeGiB = size
	r.Generation++
	return j.records().Put(r)
}

func (j *job) remove(ctx context.Context, r *sal.Record[own]) (sal.Outcome, error) {
	gone := sal.Outcome{Change: writ.ChangeUnchanged, Values: catalog.Values(catalog.Identify(j.Resource, j.UID, false))}
	if r == nil {
		left, err := j.records().Get(j.Resource) // of a volume that was never finished
		if err != nil || left == nil {
			return gone, err
		}
		return gone, j.clear(ctx, left)
	}
	if err := r.Owned(j.Request); err != nil {
		return sal.Outcome{}, err
	}
	if err := sal.Unused(ctx, sal.Owner{Resource: r.Resource, UID: r.UID}, j.Users); err != nil {
		return sal.Outcome{}, err
	}
	gone.Change = writ.ChangeDeleted
	return gone, j.clear(ctx, r)
}

// clear removes whatever there is of the volume, its record last.
func (j *job) clear(ctx context.Context, r *sal.Record[own]) error {
	r.Own.Phase = deleting
	if err := j.records().Put(r); err != nil {
		return err
	}
	if err := j.Pool.Remove(ctx, j.name); err != nil {
		return err
	}
	j.forgetPart()
	return j.records().Remove(j.Resource)
}

// use carries out Alter and Look operations.
func (j *job) use(ctx context.Context, r *sal.Record[own]) (sal.Outcome, error) {
	if err := r.Owned(j.Request); err != nil {
		return sal.Outcome{}, err
	}
	switch args := j.Args.(type) {
	case *catalog.VolumeResize:
		return j.resize(ctx, r, args.SizeGiB)
	case *catalog.VolumeSend:
		return j.send(ctx, r, args)
	case *catalog.Snapshot:
		if j.Operation.Verb == "restore" {
			return j.restore(ctx, r, args.Snapshot)
		}
		return j.snapshot(ctx, r, args.Snapshot)
	default:
		return sal.Outcome{}, writ.Errorf(writ.CodeDriverMissing, "the btrfs driver cannot do %s", j.Operation.Name())
	}
}

func (j *job) resize(ctx context.Context, r *sal.Record[own], size int64) (sal.Outcome, error) {
	if size == r.Own.SizeGiB {
		return j.outcome(ctx, r, writ.ChangeUnchanged)
	}
	if err := j.grow(ctx, r, size); err != nil {
		return sal.Outcome{}, err
	}
	return j.outcome(ctx, r, writ.ChangeUpdated)
}

func (j *job) snapshot(ctx context.Context, r *sal.Record[own], name string) (sal.Outcome, error) {
	all, err := j.Pool.Snapshots(ctx, j.name)
	if err != nil {
		return sal.Outcome{}, err
	}
	if slices.Contains(all, name) {
		return j.outcome(ctx, r, writ.ChangeUnchanged)
	}
	if err := j.Pool.Snapshot(ctx, j.name, name); err != nil {
		return sal.Outcome{}, err
	}
	return j.outcome(ctx, r, writ.ChangeUpdated)
}

func (j *job) restore(ctx context.Context, r *sal.Record[own], name string) (sal.Outcome, error) {
	if err := j.hasSnapshot(ctx, j.Resource, name); err != nil {
		return sal.Outcome{}, err
	}
	r.Generation++
	if err := j.records().Put(r); err != nil {
		return sal.Outcome{}, err
	}
	if err := j.Pool.restore(ctx, j.name, name, j.Resource.Project); err != nil {
		return sal.Outcome{}, err
	}
	if err := j.growDisk(j.Pool.tree(j.name), r.Own.SizeGiB*gib); err != nil { // the snapshot may be of a time when it was smaller
		return sal.Outcome{}, err
	}
	return j.outcome(ctx, r, writ.ChangeUpdated)
}

// hasSnapshot returns an error unless a volume has a snapshot.
func (j *job) hasSnapshot(ctx context.Context, volume writ.ResourceID, name string) error {
	all, err := j.Pool.Snapshots(ctx, volume.HostName())
	if err == nil && !slices.Contains(all, name) {
		err = writ.Errorf(writ.CodeResourceUnknown, "%s has no snapshot %q", volume, name)
	}
	return err
}

func (j *job) outcome(ctx context.Context, r *sal.Record[own], change writ.Change) (sal.Outcome, error) {
	values, err := j.values(ctx, r)
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
func (d *Driver) values(ctx context.Context, r *sal.Record[own]) (map[string]any, error) {
	v, err := d.volume(ctx, r)
	return catalog.Values(v), err
}

func (d *Driver) volume(ctx context.Context, r *sal.Record[own]) (v catalog.Volume, err error) {
	v = catalog.Volume{
		Identity: catalog.Identify(r.Resource, r.UID, false),
		Path:     d.Pool.tree(r.Resource.HostName()),
		SizeGiB:  r.Own.SizeGiB,
	}
	v.Snapshots, err = d.Pool.Snapshots(ctx, r.Resource.HostName())
	return v, err
}
