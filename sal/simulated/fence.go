package simulated

import (
	"context"

	"writ"
	"writ/sal"
)

var _ sal.Fencing = (*Driver)(nil)

// Fence implements sal.Fencing. It is not an effect of a job, so it is not counted.
func (d *Driver) Fence(ctx context.Context, resource writ.ResourceID) error {
	r, err := d.store.get(resource)
	if err != nil || r == nil || r.Own.State.Power == "" || r.Own.State.Power == stopped {
		return err
	}
	r.Own.State.Power = stopped
	if err := d.store.records.Put(r); err != nil {
		return err
	}
	return ctx.Err()
}
