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
	v, err := d.openProcess(r)
	if err != nil || v == nil {
		return nil, err
	}
	return servedProcess{v}, nil
}

// servedProcess is the process of a machine for package sal.
type servedProcess struct{ *vmm }

// Wait implements sal.Process.
func (s servedProcess) Wait(ctx context.Context) error { return s.wait(ctx) }

// Close implements sal.Process.
func (s servedProcess) Close() { s.release() }
