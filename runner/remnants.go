package runner

import (
	"context"
	"sync/atomic"

	"writ"
	"writ/sal"
)

// remnants is the disk space of data that belongs to no resource, in bytes. The supervisor accounts only for resources,
// so the node subtracts remnants from its capacity.
type remnants struct{ bytes atomic.Int64 }

// measure sums the remnants of all drivers. If a driver does not answer, the last value remains.
func (r *remnants) measure(ctx context.Context, k *keeper) {
	var sum int64
	for _, d := range k.drivers {
		keeping, ok := d.(sal.Remnants)
		if !ok {
			continue
		}
		module := d.Describe().Module
		bytes, err := asked(ctx, k, "measure remnants of "+module, readFor, keeping.RemnantBytes)
		if err != nil {
			k.log.WarnContext(ctx, "measure the data of deleted resources", "module", module, "err", err)
			return
		}
		sum += bytes
	}
	r.bytes.Store(sum)
}

// offered returns the part of a capacity that is left for resources.
func (r *remnants) offered(has writ.Capacity) writ.Capacity {
	const gib = 1 << 30
	has.DiskGiB = max(0, has.DiskGiB-(r.bytes.Load()+gib-1)/gib)
	return has
}
