package volume

import (
	"context"
	"errors"
	"time"

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
	name    string // name of the tree
	backups backups
	draft   draft
}

func (d *Driver) job(request sal.Request) *job {
	backups := newBackups(d, request.Resource.Project)
	return &job{
		Driver: d, Request: request, name: request.Resource.HostName(), backups: backups,
		draft: newDraft(backups, request.Resource),
	}
}

func (j *job) now() time.Time {
	if j.Now == nil {
		return time.Now()
	}
	return j.Now()
}

// bound returns the bound of a volume's tree.
func (j *job) bound(sizeGiB int64) sal.Bound {
	return sal.Bound{Bytes: sizeGiB * gib, Project: j.Resource.Project}
}

// recovered finishes an operation that a crash interrupted and returns the volume's record. It returns nil if the
// creation or deletion of the volume was interrupted; an interrupted deletion is completed.
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

func (j *job) remove(ctx context.Context, r *record) (sal.Outcome, error) {
	gone := sal.Outcome{
		Change: writ.ChangeUnchanged, Values: catalog.Values(catalog.Identify(j.Resource, j.UID, false)),
	}
	if r == nil {
		left, err := j.records().Get(j.Resource) // the record of a volume that was never completed
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

// close marks the volume as closed, so that no resource can start to use it, and then checks with the function `free`
// that no user prevents the operation. If a user does, close opens the volume again and returns the error.
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

// clear removes the volume and then its record. It keeps the archives of the volume, which may be the last copy of the
// content.
func (j *job) clear(ctx context.Context, r *record) error {
	r.Own.Phase = deleting
	if err := j.records().Put(r); err != nil {
		return err
	}
	if err := j.Trees.Remove(ctx, j.name); err != nil {
		return err
	}
	j.draft.remove()
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

func (j *job) outcome(ctx context.Context, r *record, change writ.Change) (sal.Outcome, error) {
	v, err := show(ctx, j.Trees, r)
	return sal.Outcome{Change: change, Values: catalog.Values(v)}, err
}
