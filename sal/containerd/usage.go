package containerd

import (
	"context"

	"writ"
	"writ/sal"
)

var _ sal.Metered = (*Driver)(nil)

// Usage returns the resources of a running container, and its traffic if Networks can count it.
func (d *Driver) Usage(ctx context.Context, resource writ.ResourceID) (sal.Usage, error) {
	var used sal.Usage
	r, err := d.records().Get(resource)
	if err != nil || r == nil {
		return used, err
	}
	shown, err := d.show(ctx, r)
	if err != nil {
		return used, err
	}
	if shown.State == running {
		used.CPUs, _ = r.Spec["cpus"].(int64)
		used.MemoryMiB, _ = r.Spec["memory_mib"].(int64)
	}
	if counts, ok := d.Networks.(sal.Traffic); ok {
		used.Received, used.Sent, err = counts.Traffic(ctx, sal.Owner{Resource: resource, UID: r.UID})
	}
	return used, err
}
