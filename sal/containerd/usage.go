package containerd

import (
	"context"
	"strconv"
	"strings"

	"writ"
	"writ/sal"
)

var _ sal.Metered = (*Driver)(nil)

// Usage returns what a container has while it runs, and the traffic of its network namespace, which outlives its process.
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
	if r.Own.Namespace == "" {
		return used, nil
	}
	counters, err := countersOf(r.Own.Namespace)
	if err != nil {
		return used, sal.HostError("read the traffic of "+resource.String(), err)
	}
	used.Received, used.Sent = traffic(counters)
	return used, nil
}

// traffic adds up /proc/net/dev: after the name of an interface come 8 counters of what it received and 8 of what it sent, bytes first.
func traffic(text string) (received, sent int64) {
	for line := range strings.Lines(text) {
		name, counters, ok := strings.Cut(line, ":")
		fields := strings.Fields(counters)
		if !ok || strings.TrimSpace(name) == "lo" || len(fields) < 9 {
			continue
		}
		in, _ := strconv.ParseInt(fields[0], 10, 64)
		out, _ := strconv.ParseInt(fields[8], 10, 64)
		received, sent = received+in, sent+out
	}
	return received, sent
}
