package volume

import (
	"context"
	"errors"
	"strings"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// make creates a volume or updates it.
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
// making it again would destroy snapshots, shipments, or files that a machine still has open.
func (j *job) mustMakeAgain(ctx context.Context, r *record) (bool, error) {
	if _, err := j.Trees.Keep(ctx, j.name, j.bound(r.Own.SizeGiB)); err != nil { // finishes interrupted operations
		return false, err
	}
	if !contentMissing(j.Trees, r) {
		return false, nil
	}
	if len(r.Own.Shipments) > 0 {
		return false, writ.Errorf(writ.CodeResourceBusy,
			"the content of the %s is gone, and its snapshot is being copied to another node", j.Resource).
			WithHint("wait until the copy is finished, then create the volume again")
	}
	if kept, err := visibleSnapshots(ctx, j.Trees, j.Resource); err != nil {
		return false, err
	} else if len(kept) > 0 {
		return false, writ.Errorf(writ.CodeResourceConflict,
			"the content of the %s is gone, but it still has snapshots: %s", j.Resource, strings.Join(kept, ", ")).
			WithHint("save a snapshot with volume.clone(NAME, {from: %q, snapshot: %q}), then delete this volume",
				j.Resource.Name, kept[len(kept)-1])
	}
	return true, sal.Idle(ctx, sal.Owner{Resource: r.Resource, UID: r.UID}, j.Users)
}

// create creates the volume and removes it again if that fails. It keeps a partial archive if a later attempt can
// resume.
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

// update grows the volume to the size in its new spec; no other field is mutable. If the new arguments of volume.clone
// have no size, the volume keeps its current size.
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
	if contentMissing(j.Trees, r) {
		return writ.Errorf(writ.CodeResourceUnknown, "the content of the %s is gone", j.Resource).
			WithHint("create it again with %s", r.Operation)
	}
	if size < r.Own.SizeGiB {
		return writ.Errorf(writ.CodeImmutableField, "%s has %d GiB and cannot shrink to %d", j.Resource, r.Own.SizeGiB,
			size).
			WithHint("create a smaller volume under another name, and copy the content")
	}
	dir, err := j.Trees.Make(ctx, j.name, j.bound(size))
	if err == nil {
		err = j.disk(dir).grow(size * gib)
	}
	if err != nil {
		return err
	}
	r.Own.SizeGiB = size
	r.Generation++
	return j.records().Put(r)
}
