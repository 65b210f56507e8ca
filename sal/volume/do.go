package volume

import (
	"context"
	"errors"
	"slices"
	"strings"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// Do executes an operation on a volume.
func (d *Driver) Do(ctx context.Context, request sal.Request) (sal.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return sal.Outcome{}, err
	}
	ctx = sal.Telling(ctx, request.Progress)
	j := d.job(request)
	r, err := j.recovered(ctx)
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
	name string // name of the tree
}

func (d *Driver) job(request sal.Request) *job {
	return &job{Driver: d, Request: request, name: request.Resource.HostName()}
}

// bound returns the bound of a volume's tree.
func (j *job) bound(sizeGiB int64) sal.Bound {
	return sal.Bound{Bytes: sizeGiB * gib, Project: j.Resource.Project}
}

// recovered returns the volume's record after it finished operations that a crash interrupted. It returns nil for a
// volume that was never completed.
func (j *job) recovered(ctx context.Context) (*record, error) {
	get := j.records().Get
	if j.Operation.Effect == catalog.Remove {
		get = func(writ.ResourceID) (*record, error) { return j.records().GetToRemove(j.Request) }
	}
	r, err := get(j.Resource)
	if err != nil || r == nil {
		return nil, err
	}
	switch r.Own.Phase {
	case making:
		return nil, nil
	case deleting:
		return nil, j.clear(ctx, r)
	case leaving, restoring:
		return r, j.open(r)
	default:
		return r, nil
	}
}

func (j *job) make(ctx context.Context, r *record) (sal.Outcome, error) {
	if r != nil && r.Owned(j.Request) == nil {
		lost, err := j.mustMakeAgain(ctx, r)
		if err != nil {
			return sal.Outcome{}, err
		}
		if lost {
			r = nil
		}
	}
	r, change, err := r.Make(j.Request, sal.Making[own]{
		Create: func() (*record, error) { return j.create(ctx) },
		Update: func([]string) error { return j.update(ctx, r) },
	})
	if err != nil {
		return sal.Outcome{}, err
	}
	return j.outcome(ctx, r, change)
}

// mustMakeAgain reports whether the content of a volume is gone, so that it must be made again. It returns an error if
// that would destroy the rest: snapshots, shipments, or files that a machine still has open.
func (j *job) mustMakeAgain(ctx context.Context, r *record) (bool, error) {
	if _, err := j.Trees.Keep(ctx, j.name, j.bound(r.Own.SizeGiB)); err != nil { // finishes interrupted operations
		return false, err
	}
	if !j.contentMissing(r) {
		return false, nil
	}
	if len(r.Own.Shipments) > 0 {
		return false, writ.Errorf(writ.CodeResourceBusy,
			"the content of the %s is gone, and it is being copied to another node", j.Resource).
			WithHint("wait until the copy is finished, then create the volume again")
	}
	if kept, err := j.snapshots(ctx, j.name); err != nil {
		return false, err
	} else if len(kept) > 0 {
		return false, writ.Errorf(writ.CodeResourceConflict,
			"the content of the %s is gone, but it still has snapshots: %s", j.Resource, strings.Join(kept, ", ")).
			WithHint("save a snapshot with volume.clone(NAME, {from: %q, snapshot: %q}), then delete this volume",
				j.Resource.Name, kept[len(kept)-1])
	}
	return true, sal.Idle(ctx, sal.Owner{Resource: r.Resource, UID: r.UID}, j.Users)
}

// create creates the volume and removes it again if that fails.
func (j *job) create(ctx context.Context) (*record, error) {
	fill, err := j.content(ctx)
	if err == nil {
		err = j.Trees.Room(ctx, j.name, j.bound(fill.sizeGiB))
	}
	if err != nil {
		return nil, err
	}
	r := sal.NewRecord[own](j.Request)
	r.Own = own{SizeGiB: fill.sizeGiB, Phase: making}
	if r.Own.Archives, err = j.archivesBefore(r); err != nil {
		return nil, err
	}
	if fill.resumes {
		if r.Own.Arrival, err = j.earlierArrival(r); err != nil {
			return nil, err
		}
	}
	if err := j.records().Put(r); err != nil {
		return nil, err
	}
	err = j.Trees.Remove(ctx, j.name) // left by an earlier attempt
	if err == nil {
		err = fill.into(ctx, r)
	}
	if err != nil && r.Own.Arrival != nil && isResumable(ctx, err) { // the next attempt resumes
		return nil, sal.HostError("make "+j.Resource.String(),
			errors.Join(err, j.Trees.Remove(context.WithoutCancel(ctx), j.name)))
	}
	if err != nil {
		return nil, errors.Join(sal.HostError("make "+j.Resource.String(), err), j.clear(context.WithoutCancel(ctx), r))
	}
	r.Own.Phase, r.Own.Arrival = ready, nil
	r.Generation++
	if err := j.records().Put(r); err != nil {
		return nil, err
	}
	j.removeArrival()
	return r, nil
}

// update grows the volume to the size in its new spec; no other field is mutable. If a volume.clone no longer has a
// size, the volume keeps its own.
func (j *job) update(ctx context.Context, r *record) error {
	r.Spec = catalog.Values(j.Args)
	if size, given := r.Spec["size_gib"].(int64); given {
		return j.grow(ctx, r, size)
	}
	r.Generation++
	return j.records().Put(r)
}

// grow grows the volume and its disk.
func (j *job) grow(ctx context.Context, r *record, size int64) error {
	if j.contentMissing(r) {
		return writ.Errorf(writ.CodeResourceUnknown, "the content of the %s is gone", j.Resource).
			WithHint("create it again with %s", r.Operation)
	}
	if size < r.Own.SizeGiB {
		return writ.Errorf(writ.CodeImmutableField, "%s has %d GiB and cannot shrink to %d", j.Resource, r.Own.SizeGiB,
			size).
			WithHint("create a smaller one under another name and copy the content")
	}
	dir, err := j.Trees.Make(ctx, j.name, j.bound(size))
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

func (j *job) remove(ctx context.Context, r *record) (sal.Outcome, error) {
	gone := sal.Outcome{
		Change: writ.ChangeUnchanged, Values: catalog.Values(catalog.Identify(j.Resource, j.UID, false)),
	}
	if r == nil {
		left, err := j.records().Get(j.Resource) // of a volume that was never completed
		if err != nil || left == nil {
			return gone, err
		}
		return gone, j.clear(ctx, left)
	}
	if err := r.Owned(j.Request); err != nil {
		return sal.Outcome{}, err
	}
	if err := j.close(ctx, r, leaving, sal.Unused); err != nil {
		return sal.Outcome{}, err
	}
	gone.Change = writ.ChangeDeleted
	return gone, j.clear(ctx, r)
}

// close marks the volume as closed, so that no resource can start to use it, and then checks with free that no user
// prevents the operation. If there is one, it opens the volume again.
func (j *job) close(
	ctx context.Context, r *record, p phase, free func(context.Context, sal.Owner, []sal.Users) error,
) error {
	r.Own.Phase = p
	if err := j.records().Put(r); err != nil {
		return err
	}
	if err := free(ctx, sal.Owner{Resource: r.Resource, UID: r.UID}, j.Users); err != nil {
		return errors.Join(err, j.open(r))
	}
	return nil
}

// open lets resources use the volume again.
func (j *job) open(r *record) error {
	r.Own.Phase = ready
	return j.records().Put(r)
}

// clear removes the volume and then its record. Its archives stay: they may be the last copy of the content.
func (j *job) clear(ctx context.Context, r *record) error {
	r.Own.Phase = deleting
	if err := j.records().Put(r); err != nil {
		return err
	}
	if err := j.Trees.Remove(ctx, j.name); err != nil {
		return err
	}
	j.removePart()
	j.removeArrival()
	return j.records().Remove(j.Resource)
}

// use executes Alter and Look operations.
func (j *job) use(ctx context.Context, r *record) (sal.Outcome, error) {
	if err := r.Owned(j.Request); err != nil {
		return sal.Outcome{}, err
	}
	switch args := j.Args.(type) {
	case *catalog.VolumeResize:
		return j.resize(ctx, r, args.SizeGiB)
	case *catalog.VolumeSend:
		return j.send(ctx, r, args)
	case *catalog.VolumeDiscard:
		return j.discard(ctx, r, args.Backup)
	case *catalog.Snapshot:
		switch j.Operation.Verb {
		case "restore":
			return j.restore(ctx, r, args.Snapshot)
		case "delete_snapshot":
			return j.deleteSnapshot(ctx, r, args.Snapshot)
		}
		return j.snapshot(ctx, r, args.Snapshot)
	default:
		return sal.Outcome{}, j.unable()
	}
}

func (j *job) unable() error {
	return writ.Errorf(writ.CodeDriverMissing, "the volume driver of this node cannot do %s", j.Operation.Name())
}

func (j *job) resize(ctx context.Context, r *record, size int64) (sal.Outcome, error) {
	if size == r.Own.SizeGiB {
		return j.outcome(ctx, r, writ.ChangeUnchanged)
	}
	if err := j.grow(ctx, r, size); err != nil {
		return sal.Outcome{}, err
	}
	return j.outcome(ctx, r, writ.ChangeUpdated)
}

func (j *job) snapshot(ctx context.Context, r *record, name string) (sal.Outcome, error) {
	all, err := j.snapshots(ctx, j.name)
	if err != nil {
		return sal.Outcome{}, err
	}
	if slices.Contains(all, name) {
		return j.outcome(ctx, r, writ.ChangeUnchanged)
	}
	if err := sal.RoomForSnapshot(j.Resource, "snapshot", len(all)); err != nil {
		return sal.Outcome{}, err
	}
	if err := j.Trees.Snapshot(ctx, j.name, name); err != nil {
		return sal.Outcome{}, err
	}
	return j.outcome(ctx, r, writ.ChangeUpdated)
}

// deleteSnapshot deletes a snapshot. It returns ChangeUnchanged for an unknown snapshot: an earlier attempt may have
// deleted it.
func (j *job) deleteSnapshot(ctx context.Context, r *record, name string) (sal.Outcome, error) {
	all, err := j.snapshots(ctx, j.name)
	if err != nil {
		return sal.Outcome{}, err
	}
	if err := j.Trees.RemoveSnapshot(ctx, j.name, name); err != nil {
		return sal.Outcome{}, err
	}
	if !slices.Contains(all, name) {
		return j.outcome(ctx, r, writ.ChangeUnchanged)
	}
	return j.outcome(ctx, r, writ.ChangeUpdated)
}

func (j *job) restore(ctx context.Context, r *record, name string) (sal.Outcome, error) {
	if err := j.hasSnapshot(ctx, j.Resource, name); err != nil {
		return sal.Outcome{}, err
	}
	if err := j.close(ctx, r, restoring, sal.Idle); err != nil {
		return sal.Outcome{}, err
	}
	err := j.Trees.Restore(ctx, j.name, name)
	if err == nil {
		err = j.reclaimDisk(j.Trees.Path(j.name)) // the machine that uses the volume gets the disk back when it starts
	}
	if err == nil {
		r.Generation++
		err = j.growDisk(j.Trees.Path(j.name), r.Own.SizeGiB*gib) // the snapshot may be smaller
	}
	if err := errors.Join(err, j.open(r)); err != nil {
		return sal.Outcome{}, err
	}
	return j.outcome(ctx, r, writ.ChangeUpdated)
}

// hasSnapshot returns an error if a volume lacks a snapshot.
func (j *job) hasSnapshot(ctx context.Context, volume writ.ResourceID, name string) error {
	all, err := j.snapshots(ctx, volume.HostName())
	if err == nil && !slices.Contains(all, name) {
		err = writ.Errorf(writ.CodeResourceUnknown, "%s has no snapshot %q", volume, name)
	}
	return err
}

func (j *job) outcome(ctx context.Context, r *record, change writ.Change) (sal.Outcome, error) {
	v, err := j.show(ctx, r)
	return sal.Outcome{Change: change, Values: catalog.Values(v)}, err
}
