package simulated

import (
	"context"
	"time"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

const (
	// busy and full are the parts of its CPUs and of its memory that a simulated resource uses, in percent.
	busy, full = 10, 50
	mib        = 1 << 20
	// counted is the time after which the CPU time restarts at 0, as after a restart of the processes.
	counted = 1000 * time.Hour
)

// Load returns a constant load of a running resource: a part of its CPUs, and a part of its memory.
func (d *Driver) Load(_ context.Context, resource writ.ResourceID) (sal.Load, error) {
	if d.config.Module != "machine" && d.config.Module != "container" {
		return sal.Load{}, nil
	}
	r, err := d.store.get(resource)
	if err != nil || r == nil {
		return sal.Load{}, err
	}
	l := sal.Load{UID: r.UID}
	if r.Own.State.Power != running {
		return l, nil
	}
	l.Running = true
	cpus, memory := writ.Hundredths(r.Own.State.CPUs*100), r.Own.State.MemoryMiB
	if d.config.Module == "container" {
		cpus, _ = catalog.HundredthsOf(r.Spec["cpus"])
		memory, _ = r.Spec["memory_mib"].(int64)
	}
	now := time.Now()
	l.CPU = now.Sub(now.Truncate(counted)) / (100 * 100) * time.Duration(cpus) * busy // cpus and busy are in hundredths
	l.Memory = memory * mib * full / 100
	return l, nil
}
