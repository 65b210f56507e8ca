package cloudhypervisor

import (
	"context"

	"writ"
	"writ/sal"
)

var _ sal.Fencing = (*Driver)(nil)

// Fence implements sal.Fencing. A machine in the middle of a restore gets its disks back and is not started.
func (d *Driver) Fence(ctx context.Context, resource writ.ResourceID) error {
	r, err := d.records().Get(resource)
	if err != nil || r == nil {
		return err
	}
	j := d.job(sal.Request{Resource: resource, UID: r.UID, Progress: func(string) {}})
	if r.Own.Phase == restoring {
		r.Own.Power = stopped
	}
	if r, err = j.recovered(ctx, r); err != nil || r == nil {
		return err
	}
	_, err = j.stop(ctx, r, sal.FenceGrace)
	return err
}
