package cloudhypervisor

import (
	"context"

	"writ"
	"writ/sal"
)

var _ sal.Served = (*Driver)(nil)

// Process implements sal.Served.
func (d *Driver) Process(_ context.Context, resource writ.ResourceID) (sal.Process, error) {
	r, err := d.records().Get(resource)
	if err != nil || r == nil {
		return nil, err
	}
	v, err := d.attend(r)
	if err != nil || v == nil {
		return nil, err
	}
	return servant{v}, nil
}

// servant is the process of a machine for package sal.
type servant struct{ *vmm }

// Wait implements sal.Process.
func (s servant) Wait(ctx context.Context) error { return s.wait(ctx) }

// Close implements sal.Process.
func (s servant) Close() { s.release() }
