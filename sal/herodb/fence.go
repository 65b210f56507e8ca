package herodb

import (
	"context"

	"writ"
	"writ/sal"
)

var _ sal.Fencing = (*Driver)(nil)

// Fence implements sal.Fencing. Databases have no stop operation, so the record has its own field, Fenced.
func (d *Driver) Fence(ctx context.Context, resource writ.ResourceID) error {
	r, err := d.records().Get(resource)
	if err != nil || r == nil {
		return err
	}
	j := jobOn(d, resource)
	if r.Own.Phase == making || r.Own.Phase == deleting {
		return j.clear(r)
	}
	if !r.Own.Fenced {
		r.Own.Fenced = true
		if err := j.records().Put(r); err != nil {
			return err
		}
	}
	target := r.Own
	target.Engine = "" // match any engine: during a change, the process may run another engine than the record has
	return j.end(ctx, target, sal.FenceGrace)
}
