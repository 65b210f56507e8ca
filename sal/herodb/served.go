package herodb

import (
	"context"

	"writ"
	"writ/sal"
)

var _ sal.Served = (*Driver)(nil)

// Process implements sal.Served.
func (d *Driver) Process(_ context.Context, resource writ.ResourceID) (sal.Process, error) {
	r, err := d.records().Get(resource)
	if err != nil || r == nil || r.Own.Phase == making || r.Own.Phase == deleting {
		return nil, err
	}
	p, err := d.jobOn(resource).process(r.Own)
	if err != nil || p == (pid{}) {
		return nil, err
	}
	return hold(p)
}
