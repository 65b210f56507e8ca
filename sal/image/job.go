package image

import (
	"context"
	"errors"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// job is one operation on one image.
type job struct {
	*Driver
	sal.Request
	store store
}

func (d *Driver) job(request sal.Request) *job { return &job{d, request, d.store()} }

// recovered finishes or undoes a deletion that a crash interrupted, and returns the record that the image then has, or
// nil.
func (j *job) recovered(ctx context.Context) (*record, error) {
	get := j.store.records.Get
	if j.Operation.Effect == catalog.Remove {
		get = func(writ.ResourceID) (*record, error) { return j.store.records.GetToRemove(j.Request) }
	}
	r, err := get(j.Resource)
	if err != nil || r == nil {
		return nil, err
	}
	switch r.Own.Phase {
	case deleting:
		return nil, j.clear(ctx, r)
	case leaving:
		return r, j.reopen(r)
	default:
		return r, nil
	}
}

func (j *job) unable() error {
	return writ.Errorf(writ.CodeDriverMissing, "the image driver cannot do %s", j.Operation.Name())
}

func (j *job) remove(ctx context.Context, r *record) (sal.Outcome, error) {
	gone := sal.Outcome{
		Change: writ.ChangeUnchanged, Values: catalog.Values(catalog.Identify(j.Resource, j.UID, false)),
	}
	if r == nil {
		return gone, nil
	}
	if r.Own.Phase != fetching { // an unfinished image does not exist
		if err := r.Owned(j.Request); err != nil {
			return sal.Outcome{}, err
		}
		if err := j.closeForUsers(ctx, r); err != nil {
			return sal.Outcome{}, err
		}
		gone.Change = writ.ChangeDeleted
	}
	return gone, j.clear(ctx, r)
}

// closeForUsers prevents new uses of an image, if it has no users. It checks for users twice: before and after it
// changes the record. So the record stays unchanged if the image has users.
func (j *job) closeForUsers(ctx context.Context, r *record) error {
	image := sal.Owner{Resource: r.Resource, UID: r.UID}
	if err := sal.UnusedImage(ctx, image, j.Users); err != nil || r.Lost { // no new users: the record is damaged
		return err
	}
	r.Own.Phase = leaving
	if err := j.store.records.Put(r); err != nil {
		return err
	}
	if err := sal.UnusedImage(ctx, image, j.Users); err != nil {
		return errors.Join(err, j.reopen(r))
	}
	return nil
}

// reopen permits uses of an image again.
func (j *job) reopen(r *record) error {
	r.Own.Phase = ready
	return j.store.records.Put(r)
}

// clear removes the file of an image, unless another image needs it, and the record. The files of an image that was
// never complete may fill the disk, so that no record can be written. Therefore, its record is removed first. If the
// runner stops in between, the next fetch removes the files.
func (j *job) clear(ctx context.Context, r *record) error {
	if r.Own.Phase == fetching && !r.Lost {
		if err := j.store.records.Remove(r.Resource); err != nil {
			return err
		}
		return j.store.release(ctx, r)
	}
	r.Own.Phase = deleting
	if err := j.store.records.Put(r); err != nil {
		return err
	}
	release := j.store.release
	if r.Lost {
		release = j.store.releaseLost
	}
	if err := release(ctx, r); err != nil {
		return err
	}
	return j.store.records.Remove(r.Resource)
}
