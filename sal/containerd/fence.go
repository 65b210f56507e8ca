package containerd

import (
	"context"

	"writ"
	"writ/sal"
)

var _ sal.Fencing = (*Driver)(nil)

// Fence implements sal.Fencing.
func (d *Driver) Fence(ctx context.Context, resource writ.ResourceID) error {
	if r, err := d.records().Get(resource); err != nil || r == nil {
		return err
	}
	j, done, err := d.begin(ctx, sal.Request{Resource: resource, Progress: func(string) {}}, d.reach)
	if err != nil {
		return err
	}
	defer done()
	r, err := d.records().Get(resource) // read again under the lock
	if err != nil || r == nil {
		return err
	}
	j.UID = r.UID
	err = j.fence(j.in(ctx), r)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// fence ends a container and an unfinished replacement.
func (j *job) fence(ctx context.Context, r *record) error {
	if r.Own.Phase == making {
		return j.clear(ctx, r)
	}
	_, r, err := j.recovered(ctx, r)
	if err != nil || r == nil {
		return err
	}
	_, err = j.stop(ctx, r, sal.FenceGrace)
	return err
}
