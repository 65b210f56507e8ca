package containerd

import (
	"context"
	"errors"

	"writ"
	"writ/sal"
)

// Fence implements sal.Fencing. It needs no network driver for a container that was completely made.
func (d *Driver) Fence(ctx context.Context, resource writ.ResourceID) error {
	j, r, done, err := beginOn(ctx, d, resource, d.locks.Take, d.reach)
	if err != nil || r == nil {
		return err
	}
	defer done()
	j.mostGrace = sal.FenceGrace
	err = fence(j.in(ctx), j, r)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// fence ends the container, and during a replacement also the other container. It records the stop first. It does not
// finish an interrupted replacement: Keep does this later, and starts neither container.
func fence(ctx context.Context, j *job, r *record) error {
	if isUnfinished(r) || isRun(r) || r.Own.Phase == deleting {
		return j.clear(ctx, r)
	}
	r.Own.Stopped, r.Own.Ended = true, ""
	if r.Own.Replaced != nil {
		r.Own.Replaced.Stopped = true
	}
	if err := j.put(r, r.Own.Phase); err != nil {
		return err
	}
	j.restarts.forget(r.Resource.HostName())
	_ = j.endPrograms(ctx, r) // a program that does not end now ends with its container
	var failures []error
	for _, id := range []string{r.Own.Container, r.Own.Other} {
		if id != "" {
			failures = append(failures, j.end(ctx, r, id, sal.FenceGrace))
		}
	}
	j.health.Forget(r.Resource)
	return errors.Join(failures...)
}
