package herodb

import (
	"context"
	"errors"
	"io/fs"
	"strconv"

	"writ"
	"writ/sal"
)

// Usage returns the resources of a database, and its traffic since the start of its process.
func (d *Driver) Usage(ctx context.Context, resource writ.ResourceID) (sal.Usage, error) {
	r, err := d.records().Get(resource)
	if err != nil || r == nil || r.Own.Phase == making || r.Own.Phase == deleting {
		return sal.Usage{}, err
	}
	u := sal.Usage{DiskGiB: r.Own.SizeGiB}
	j := jobOn(d, resource)
	in, err := j.instance(r)
	if err != nil {
		return sal.Usage{}, err
	}
	serves := in.process != (pid{})
	if serves {
		u.MemoryMiB = r.Own.MemoryMiB
	}
	if traffic, ok := d.Networks.(sal.Traffic); ok && r.Own.Device != "" { // works without a process
		u.Received, u.Sent, err = traffic.Traffic(ctx, owner(r))
		return u, err
	}
	if !serves {
		return u, nil
	}
	if r.Own.Device != "" {
		u.Received, u.Sent, err = moved(in.process, r.Own.Device)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // the process or its interface has just disappeared
		}
		return u, err
	}
	if in.engine.live.reload == nil {
		return u, nil
	}
	// A process that does not answer is an error: zero would look like a counter reset, and the next reading would
	// count everything twice.
	c, err := in.dial(ctx)
	if err != nil {
		return sal.Usage{}, sal.HostError("read the counters of "+resource.String(), err)
	}
	defer c.close()
	stats, err := c.info(ctx, "stats")
	if err != nil {
		return sal.Usage{}, sal.HostError("read the counters of "+resource.String(), err)
	}
	var errR, errS error
	u.Received, errR = strconv.ParseInt(stats["total_net_input_bytes"], 10, 64)
	u.Sent, errS = strconv.ParseInt(stats["total_net_output_bytes"], 10, 64)
	return u, errors.Join(errR, errS)
}
