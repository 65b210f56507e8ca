package herodb

import (
	"context"

	"writ"
	"writ/sal"
)

var _ sal.Fencing = (*Driver)(nil)

// Fence is part of sal.Fencing. Nothing stops a database but this and its deletion, so the record says for itself that it is not to be served.
func (d *Driver) Fence(ctx context.Context, resource writ.ResourceID) error {
	r, err := d.records().Get(resource)
	if err != nil || r == nil {
		return err
	}
	j := d.jobOn(resource)
	if r.Own.Phase == making || r.Own.Phase == deleting {
		return j.clear(r)
	}
	if !r.Own.Fenced {
		r.Own.Fenced = true
		if err := j.records().Put(r); err != nil {
			return err
		}
	}
	any := r.Own
	any.Engine = "" // in the middle of a change it may be another one than the record says
	return j.end(ctx, any, sal.FenceGrace)
}
